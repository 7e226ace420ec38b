"""One image file to fixed-size pixels, whatever kind of file the wild has."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from puridiver.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS = 89_478_485  # Pillow's own limit: above it a small file may be made to fill the memory
ENDINGS = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
HASH_BYTES = 16


@dataclass(frozen=True)
class Decoded:
    """A file's pixels, or what is wrong with it."""

    pixels: np.ndarray | None = None  # uint8 (S, S, 3)
    size: tuple[int, int] = (0, 0)  # (width, height) of the whole upright picture
    digest: bytes = bytes(HASH_BYTES)  # of all its pixels before they are resized
    problem: str = ""


def require_pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise DataError("image files need Pillow: pip install 'puridiver[images]'") from error


def decode(path: str, side: int) -> Decoded:
    """Read one file; never raises for what a file holds."""
    try:
        return _decode(path, side)
    except FileNotFoundError:
        return Decoded(problem="there is no such file")
    except PermissionError:
        return Decoded(problem="permission denied")
    except Exception as error:
        # Decoders raise nearly everything at damaged bytes, and one bad file of 60,000 must not end the work.
        return Decoded(problem=_in_words(error))


def _decode(path: str, side: int) -> Decoded:
    from PIL import Image

    if os.path.getsize(path) == 0:
        return Decoded(problem="the file is empty")
    with Image.open(path) as picture:
        width, height = picture.size
        if width * height > MOST_PIXELS:
            return Decoded(problem=f"a decompression bomb: {width} x {height} pixels, more than {MOST_PIXELS}")
        upright = as_rgb(_upright(picture))
    whole = hashlib.blake2b(repr(upright.size).encode() + upright.tobytes(), digest_size=HASH_BYTES)
    return Decoded(np.asarray(cut_square(upright, side)), upright.size, whole.digest())


def _in_words(error: Exception) -> str:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        return "not an image that can be read"
    if isinstance(error, Image.DecompressionBombError):
        return f"a decompression bomb: more than {MOST_PIXELS} pixels"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:120] or type(error).__name__


def _upright(picture: Image.Image) -> Image.Image:
    """The picture as its EXIF orientation says it should be seen; with unreadable EXIF, as it is stored."""
    from PIL import ImageOps

    picture.load()  # what is wrong with the pixels must not pass for a fault of the EXIF
    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # a damaged EXIF block raises as many kinds as a damaged image
        return picture


def as_rgb(picture: Image.Image) -> Image.Image:
    """Any mode as 8-bit RGB: 16 bits are scaled down, transparency is laid on white."""
    from PIL import Image

    if picture.mode == "RGB":
        return picture
    if picture.mode.startswith("I") or picture.mode == "F":
        return Image.fromarray(_to_8_bits(picture)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return picture.convert("RGB")


def _to_8_bits(picture: Image.Image) -> np.ndarray:
    """Grey levels of 16 bits (mode I, too, holds those of 16-bit files), or floats up to 1 or to 255, as 0 to 255."""
    values = np.asarray(picture).astype(np.float64)
    most = (1 if values.max() <= 1 else 255) if picture.mode == "F" else 65535
    return np.rint(np.clip(values * (255 / most), 0, 255)).astype(np.uint8)


def cut_square(picture: Image.Image, side: int) -> Image.Image:
    """Resize the shorter side to `side` and cut the middle: done in one step, so that a thin strip stays small."""
    from PIL import Image

    width, height = picture.size
    shorter = min(width, height)
    left, top = (width - shorter) / 2, (height - shorter) / 2
    box = (left, top, left + shorter, top + shorter)
    return picture.resize((side, side), Image.Resampling.BILINEAR, box=box)
