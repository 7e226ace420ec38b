"""One image file, or picture, to fixed-size pixels, whatever kind the wild has."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from puridiver.errors import DataError
from puridiver.files import open_regular

if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS = 89_478_485  # Pillow's own limit: above it a small file may be made to fill the memory
ENDINGS = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
# Pillow's names of these kinds. Bytes from outside must not reach its other decoders, some of which run programs.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
HASH_BYTES = 16
IN_FLIGHT_BYTES = 1 << 30  # of pictures that all threads decode at once
PEAK_BYTES_PER_PIXEL = 16  # of a picture with transparency, which takes most
STRIP_PIXELS = 1 << 22  # what needs a copy of the pixels makes it of so many at a time


@dataclass(frozen=True)
class Decoded:
    """A file's pixels, or what is wrong with it."""

    pixels: np.ndarray | None = None  # uint8 (S, S, 3)
    size: tuple[int, int] = (0, 0)  # (width, height) of the whole upright picture
    digest: bytes = bytes(HASH_BYTES)  # of all its pixels before they are resized
    problem: str = ""


class Budget:
    """A number of bytes that threads share; who needs more than are free waits for the others."""

    def __init__(self, total: int) -> None:
        self._total = self._free = total
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, amount: int) -> Iterator[None]:
        """Hold the amount, at most the total, so that one that is larger waits for all others and goes on alone."""
        amount = min(amount, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= amount)
            self._free -= amount
        try:
            yield
        finally:
            with self._changed:
                self._free += amount
                self._changed.notify_all()


_in_flight = Budget(IN_FLIGHT_BYTES)


def require_pillow() -> None:
    """Raise a `DataError` without Pillow."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise DataError("image files need Pillow: pip install 'puridiver[images]'") from error


def decode(path: str, side: int) -> Decoded:
    """Read one file; never raises for what a file holds."""
    try:
        with open_regular(path) as file, opened(file) as picture:
            upright = upright_rgb(picture)
            return Decoded(np.asarray(cut(upright, side, side)), upright.size, _digest(upright))
    except Exception as error:
        # Decoders raise nearly everything at damaged bytes, and one bad file of 60,000 must not end the work.
        return Decoded(problem=in_words(error))


@contextmanager
def opened(file: BinaryIO) -> Iterator[Image.Image]:
    """The picture in a file, not decoded yet. Waits while other threads decode too much; refuses what is too large."""
    from PIL import Image

    if not file.read(1):
        raise ValueError("the file is empty")
    file.seek(0)
    with Image.open(file, formats=FORMATS) as picture:
        check_size(picture)
        with _in_flight.hold(picture.width * picture.height * PEAK_BYTES_PER_PIXEL):
            yield picture


def check_size(picture: Image.Image) -> None:
    """Refuse a picture of which a small file may fill the memory."""
    if picture.width * picture.height > MOST_PIXELS:
        raise ValueError(f"a decompression bomb: {picture.width} x {picture.height} pixels, more than {MOST_PIXELS}")


def _digest(picture: Image.Image) -> bytes:
    digest = hashlib.blake2b(repr(picture.size).encode(), digest_size=HASH_BYTES)
    width, height = picture.size
    step = max(1, STRIP_PIXELS // width)
    for top in range(0, height, step):
        part = picture if step >= height else picture.crop((0, top, width, min(top + step, height)))
        digest.update(part.tobytes())
    return digest.digest()


def in_words(error: Exception) -> str:
    """What is wrong with a file, by what reading it raised."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image that can be read"
    if isinstance(error, Image.DecompressionBombError):
        return f"a decompression bomb: more than {MOST_PIXELS} pixels"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    told = str(error).rpartition(" cannot be read: ")[2]  # of a `DataError`, which also names the file
    return " ".join(told.split())[:120] or type(error).__name__


def upright_rgb(picture: Image.Image) -> Image.Image:
    """The picture in 8-bit RGB as its EXIF orientation says it should be seen; as it is stored if that is damaged."""
    from PIL import ImageOps

    picture.load()  # what is wrong with the pixels must not pass for a fault of the EXIF
    try:
        picture = ImageOps.exif_transpose(picture)
    except Exception:  # a damaged EXIF block raises as many kinds as a damaged image
        return as_rgb(picture)
    return as_rgb(picture)


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
    values = np.asarray(picture)
    most = (1 if values.max() <= 1 else 255) if picture.mode == "F" else 65535
    grey_levels = np.empty(values.shape, dtype=np.uint8)
    step = max(1, STRIP_PIXELS // values.shape[1])
    for top in range(0, len(values), step):
        scaled = values[top : top + step].astype(np.float64) * (255 / most)
        grey_levels[top : top + step] = np.rint(np.clip(scaled, 0, 255))
    return grey_levels


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
