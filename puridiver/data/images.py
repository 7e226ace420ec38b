"""Image files and arrays of any size as pixels of a fixed size. Files may come from anybody."""

import io
import math
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Any, BinaryIO

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from puridiver.errors import few
from puridiver.files import open_regular
from puridiver.learner import inputs

MOST_PIXELS = 89_478_485  # Pillow's own limit: a small file may claim more to fill the memory
ENDINGS = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
# Pillow's names of these kinds. Bytes from outside must not reach its other decoders, some of which run programs.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
GREY = ("1", "L", "LA", "La")  # Pillow's modes, besides those of 16 bits
ORIENTATION, SIDEWAYS = 0x0112, 5  # a tag of EXIF, and the first of its values that swap height and width
LARGE = 4_000_000  # pixels: of pictures with more, which take up to 1.4 GB, threads decode one at a time

_decoding_large = threading.Lock()


def look(path: str) -> tuple[tuple[int, int], bool] | None:
    """Height and width of an image file, upright, and whether it is grey, by its header; None if it is unreadable."""
    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as picture:
            turned = picture.getexif().get(ORIENTATION, 1) >= SIDEWAYS
            size = (picture.width, picture.height) if turned else (picture.height, picture.width)
            return size, picture.mode in GREY or picture.mode.startswith("I")
    except Exception:  # `decode` will say what is wrong with the file
        return None


def decode(path: str, shape: tuple[int, ...]) -> np.ndarray | str:
    """The pixels of one image file, uint8 (H, W, C), or what is wrong with it: no file makes it raise."""
    try:
        with open_regular(path) as file:
            return read_picture(file, shape)
    except Exception as error:  # decoders raise nearly everything, and one bad file of 60,000 must not end the work
        return in_words(error)


def read_picture(file: BinaryIO, shape: tuple[int, ...]) -> np.ndarray:
    """An image file as uint8 of this shape (H, W, C), upright. Refuses what may fill the memory."""
    with Image.open(file, formats=FORMATS) as picture:
        n_pixels = picture.width * picture.height
        if n_pixels > MOST_PIXELS:
            raise ValueError(f"a decompression bomb: {picture.width} x {picture.height} pixels")
        with _decoding_large if n_pixels > LARGE else nullcontext():
            picture.load()  # damaged pixels must not pass for a damaged EXIF block
            upright: Image.Image = picture
            with suppress(Exception):  # a damaged EXIF block raises as many kinds as a damaged image
                upright = ImageOps.exif_transpose(picture)
            return fit(as_rgb(upright), shape)


def in_words(error: Exception) -> str:
    """Describe the error of reading a file."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image that can be read"
    told = str(error).rpartition(" cannot be read: ")[2]  # without the file's name in a `DataError`
    return " ".join(told.split())[:160] or type(error).__name__


def as_rgb(picture: Image.Image) -> Image.Image:
    """Any mode as 8-bit RGB: 16 bits are scaled down, transparency becomes white."""
    if picture.mode.startswith("I"):  # grey of 16 bits
        picture = Image.fromarray(np.rint(np.asarray(picture).clip(0, 65535) / np.float32(257)).astype(np.uint8))
    elif picture.has_transparency_data:
        rgba = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def fit(picture: Image.Image, shape: tuple[int, ...]) -> np.ndarray:
    """uint8 (H, W, C): resized to cover height x width, and its middle cut out."""
    height, width, channels = shape
    found = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    return np.asarray(found.convert("RGB" if channels == 3 else "L")).reshape(shape)


def image_batch(pictures: Iterable[Any], input_shape: tuple[int, ...]) -> np.ndarray:
    """Pictures as uint8 (N, H, W, C), for `observe` and `predict` of a learner of that `input_shape` (H, W, C).

    Each picture is resized to cover height x width, and its middle is cut out. Pixels are those of `puridiver run`
    and `puridiver predict`: EXIF orientation followed, 16 bits scaled down, transparency on white, grey if C is 1.
    A `ValueError` names each picture that cannot be used, by its place in the list, and says why.

    Parameters
    ----------
    pictures
        A list of paths of image files (JPEG, PNG, BMP, GIF, WebP, TIFF, PPM), such files' bytes, Pillow pictures, or
        arrays or tensors of the shape (H, W), (H, W, C) or (C, H, W), C being 1 or 3, uint8 or floats from 0 to 1.
    input_shape
        `learner.input_shape`.

    Examples
    --------
    >>> import numpy as np, puridiver
    >>> puridiver.image_batch([np.zeros((480, 640, 3), np.uint8), np.ones((20, 20))], (32, 32, 3)).shape
    (2, 32, 32, 3)
    """
    shape = inputs.as_input_shape(input_shape)
    if len(shape) != 3:
        raise ValueError(f"input_shape should be (height, width, channels), but got {shape}: the learner takes vectors")
    single = isinstance(pictures, str | bytes) or getattr(pictures, "ndim", 4) in (0, 3)
    if single or not isinstance(pictures, Iterable):
        got = type(pictures).__name__
        raise ValueError(f"pictures should be a list; a single one is a list of one, but got a {got}")
    named = ((repr(os.fspath(each)) if isinstance(each, str | os.PathLike) else "", each) for each in pictures)
    return read_each("picture", named, lambda picture: _pixels(picture, shape))


def read_each(what: str, named: Iterable[tuple[str, Any]], read: Callable[[Any], np.ndarray]) -> np.ndarray:
    """What `read` makes of each picture, stacked; a `ValueError` names all that cannot be used, by number and name."""
    found, bad = [], []
    for number, (name, picture) in enumerate(named):
        try:
            found.append(read(picture))
        except Exception as error:  # decoders raise nearly everything at damaged bytes
            bad.append(f"{what} {number}{f' ({name})' if name else ''}: {in_words(error)}")
    if bad:
        raise ValueError(f"{len(bad)} of {len(found) + len(bad)} {what}s cannot be used: {few(bad, between='; ')}")
    if not found:
        raise ValueError(f"the batch is empty: {what}s should hold at least one")
    return np.stack(found)


def _pixels(picture: Any, shape: tuple[int, ...]) -> np.ndarray:
    """One picture as uint8 (H, W, C)."""
    if isinstance(picture, Image.Image):
        return fit(as_rgb(picture), shape)
    if not isinstance(picture, np.ndarray | Tensor):
        with io.BytesIO(picture) if isinstance(picture, bytes) else open_regular(os.fspath(picture)) as file:
            return read_picture(file, shape)
    if picture.ndim not in (2, 3):
        raise ValueError(f"an array should have the shape (H, W), (H, W, C) or (C, H, W), but has {(*picture.shape,)}")
    own = inputs.shape_of(picture[None])
    array = inputs.as_images(picture[None], own).cpu().numpy()[0]
    return fit(Image.fromarray(array if own[2] == 3 else array[..., 0]), shape)


def shown(samples: Tensor) -> Tensor:
    """Samples as pictures, uint8 (N, H, W, C): images as they are, vectors (N, d) as squares of grey.

    Each number is a pixel, mid-grey at the mean of the batch and black or white three standard deviations from it.
    """
    if samples.ndim == 4:
        return samples
    n, d = samples.shape
    levels = (samples - samples.mean(dim=0)) / samples.std(dim=0, correction=0).clamp(min=1e-12)
    grey, side = (128 + levels * 128 / 3).clamp(0, 255).to(torch.uint8), math.isqrt(d - 1) + 1
    return F.pad(grey, (0, side * side - d)).view(n, side, side, 1)
