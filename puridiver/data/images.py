"""Image files and pictures of any kind as pixels of a fixed size. Files may come from anybody."""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from puridiver.errors import few
from puridiver.files import open_regular
from puridiver.learner import inputs

MOST_PIXELS = 89_478_485  # Pillow's own limit: a small file may claim more to fill the memory
ENDINGS = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
# Pillow's names of these kinds. Bytes from outside must not reach its other decoders, some of which run programs.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
HASH_BYTES = 16
LARGE = 4_000_000  # pixels: of pictures with more, which take up to 1.4 GB, threads decode one at a time
ENCODED = (str, os.PathLike, bytes, bytearray, memoryview)
KINDS = "paths of image files, their bytes, Pillow's images, arrays or tensors"

_decoding_large = threading.Lock()


@dataclass(frozen=True)
class Decoded:
    """A file's pixels, or what is wrong with it."""

    pixels: np.ndarray | None = None  # uint8 (S, S, 3)
    size: tuple[int, int] = (0, 0)  # (width, height) of the whole upright picture
    digest: bytes = bytes(HASH_BYTES)  # of all its pixels before resizing
    problem: str = ""


def decode(path: str, side: int) -> Decoded:
    """Read one image file; never raises for what a file holds."""
    try:
        with open_regular(path) as file, opened(file) as picture:
            digest = hashlib.blake2b(repr(picture.size).encode() + picture.tobytes(), digest_size=HASH_BYTES).digest()
            return Decoded(cut(picture, side, side), picture.size, digest)
    except Exception as error:  # decoders raise nearly everything, and one bad file of 60,000 must not end the work
        return Decoded(problem=in_words(error))


@contextmanager
def opened(file: BinaryIO) -> Iterator[Image.Image]:
    """The picture of an image file, upright RGB. Refuses what is too large."""
    if not file.read(1):
        raise ValueError("the file is empty")
    file.seek(0)
    with Image.open(file, formats=FORMATS) as picture:
        check_size(picture)
        with _decoding_large if picture.width * picture.height > LARGE else nullcontext():
            yield upright_rgb(picture)


def check_size(picture: Image.Image) -> None:
    """Refuse a picture that may fill the memory."""
    if picture.width * picture.height > MOST_PIXELS:
        raise ValueError(f"a decompression bomb: {picture.width} x {picture.height} pixels, more than {MOST_PIXELS}")


def in_words(error: Exception) -> str:
    """What is wrong with a file, by the error of reading it."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image that can be read"
    told = str(error).rpartition(" cannot be read: ")[2]  # without the file's name in a `DataError`
    return " ".join(told.split())[:160] or type(error).__name__


def upright_rgb(picture: Image.Image) -> Image.Image:
    """The picture in 8-bit RGB, turned by its EXIF orientation unless that is damaged."""
    picture.load()  # damaged pixels must not pass for a damaged EXIF block
    with suppress(Exception):  # a damaged EXIF block raises as many kinds as a damaged image
        picture = ImageOps.exif_transpose(picture)
    return as_rgb(picture)


def as_rgb(picture: Image.Image) -> Image.Image:
    """Any mode as 8-bit RGB: 16 bits are scaled down, transparency becomes white."""
    if picture.mode == "RGB":
        return picture
    if picture.mode.startswith("I") or picture.mode == "F":  # grey of 16 bits, or floats up to 1 or to 255
        values = np.asarray(picture)
        most = (1 if values.max() <= 1 else 255) if picture.mode == "F" else 65535
        scaled = values.astype(np.float64)
        scaled *= 255 / most
        return Image.fromarray(np.rint(scaled.clip(0, 255, out=scaled)).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    return picture.convert("RGB")


def cut(picture: Image.Image, height: int, width: int) -> np.ndarray:
    """uint8 (height, width, C): resized to cover this size, and its middle cut out."""
    return np.asarray(ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR))


def image_batch(pictures: Iterable[Any], image_shape: tuple[int, int, int]) -> np.ndarray:
    """Pictures as uint8 (N, H, W, C), for `observe` and `predict` of a learner of that `image_shape` (H, W, C).

    Each picture is resized to cover height x width, and its middle is cut out. Pixels are those of `puridiver run`
    and `puridiver predict`: EXIF orientation followed, 16 bits scaled down, transparency on white, grey if C is 1.
    A `ValueError` names each picture that cannot be used, by its place in the list, and says why.

    Parameters
    ----------
    pictures
        A list of paths of image files (JPEG, PNG, BMP, GIF, WebP, TIFF, PPM), such files' bytes, Pillow's images,
        arrays or tensors: (H, W), (H, W, 1), (H, W, 3) or with transparency (H, W, 4), uint8 or floats from 0 to 1.
    image_shape
        `learner.image_shape`.

    Examples
    --------
    >>> import numpy as np, puridiver
    >>> puridiver.image_batch([np.zeros((480, 640, 3), np.uint8), np.ones((20, 20))], (32, 32, 3)).shape
    (2, 32, 32, 3)
    """
    height, width, channels = inputs.as_image_shape(image_shape)
    if isinstance(pictures, (*ENCODED, Image.Image)) or not isinstance(pictures, Iterable):
        got = type(pictures).__name__
        raise ValueError(f"pictures should be a list of {KINDS}; a single picture is a list of one, but got a {got}")
    if isinstance(pictures, np.ndarray | Tensor) and pictures.ndim not in (1, 4):
        raise ValueError(f"pictures as one array should have four axes, but got {tuple(pictures.shape)}")
    found, bad = [], []
    for number, picture in enumerate(pictures):
        try:
            pixels = _pixels(picture, height, width)
        except Exception as error:  # decoders raise nearly everything at damaged bytes
            name = f" ({os.fspath(picture)!r})" if isinstance(picture, str | os.PathLike) else ""
            bad.append(f"picture {number}{name}: {in_words(error)}")
            continue
        if pixels.shape[2] < channels:
            pixels = np.repeat(pixels, 3, axis=2)
        elif pixels.shape[2] > channels:
            pixels = np.asarray(Image.fromarray(pixels).convert("L"))[..., None]
        found.append(pixels)
    if bad:
        raise ValueError(f"{len(bad)} of {len(found) + len(bad)} pictures cannot be used: {few(bad, between='; ')}")
    if not found:
        raise ValueError("the batch is empty: pictures should hold at least one")
    return np.stack(found)


def _pixels(picture: Any, height: int, width: int) -> np.ndarray:
    """One picture as uint8 (height, width, 1 or 3)."""
    if isinstance(picture, ENCODED):
        file = open_regular(os.fspath(picture)) if isinstance(picture, str | os.PathLike) else io.BytesIO(picture)
        with file, opened(file) as whole:
            return cut(whole, height, width)
    if isinstance(picture, Image.Image):
        check_size(picture)
        return cut(upright_rgb(picture), height, width)
    if not isinstance(picture, np.ndarray | Tensor):
        raise ValueError(f"pictures should be {KINDS}, but this is a {type(picture).__name__}")
    shape = tuple(picture.shape)
    if len(shape) not in (2, 3) or 0 in shape or (*shape, 1)[2] not in (1, 3, 4):
        raise ValueError(f"an array should have the shape (H, W) or (H, W, 1, 3 or 4), channels last, but has {shape}")
    array = inputs.as_images(picture[None], (shape[0], shape[1], (*shape, 1)[2])).cpu().numpy()[0]
    if array.shape[:2] == (height, width) and array.shape[2] != 4:
        return array
    whole = as_rgb(Image.fromarray(array[..., 0] if array.shape[2] == 1 else array))
    return cut(whole, height, width)
