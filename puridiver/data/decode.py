"""One image file, or picture, to fixed-size pixels, whatever kind the wild has."""

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
    except Exception as error:
        # Decoders raise nearly everything at damaged bytes, and one bad file of 60,000 must not end the work.
        return Decoded(problem=in_words(error))


def _decode(path: str, side: int) -> Decoded:
    from PIL import Image

    if os.path.getsize(path) == 0:
        return Decoded(problem="the file is empty")
    with Image.open(path) as picture:
        upright = upright_rgb(picture)
    whole = hashlib.blake2b(repr(upright.size).encode() + upright.tobytes(), digest_size=HASH_BYTES)
    return Decoded(np.asarray(cut(upright, side, side)), upright.size, whole.digest())


def upright_rgb(picture: Image.Image) -> Image.Image:
    """The picture as it should be seen, in 8-bit RGB; a `ValueError` where it is too large to be read."""
    width, height = picture.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"a decompression bomb: {width} x {height} pixels, more than {MOST_PIXELS}")
    return as_rgb(_upright(picture))


def in_words(error: Exception) -> str:
    """What is wrong with a file, by what reading it raised."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
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


def cut(picture: Image.Image, height: int, width: int) -> Image.Image:
    """Resize so that the picture covers height x width, and cut the middle.

    Done in one step, so that a thin strip stays small.
    """
    from PIL import Image

    whole_width, whole_height = picture.size
    if whole_width * height <= whole_height * width:
        box_width, box_height = float(whole_width), whole_width * height / width
    else:
        box_width, box_height = whole_height * width / height, float(whole_height)
    left, top = (whole_width - box_width) / 2, (whole_height - box_height) / 2
    box = (left, top, left + box_width, top + box_height)
    return picture.resize((width, height), Image.Resampling.BILINEAR, box=box)


def grey(pixels: np.ndarray) -> np.ndarray:
    """One channel of three, (..., 1), as Pillow makes grey of colours."""
    return np.rint(pixels @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)[..., None]
