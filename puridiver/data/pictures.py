"""Pictures of any size and kind as a batch that a learner takes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from puridiver.data.decode import as_rgb, check_size, cut, grey, in_words, opened, require_pillow, upright_rgb
from puridiver.files import open_regular
from puridiver.learner import inputs

NAMED = 10  # pictures that a message lists one by one
ENCODED = (str, os.PathLike, bytes, bytearray, memoryview)
KINDS = "paths of image files, their bytes, Pillow's images, arrays or tensors"


def image_batch(pictures: Iterable[Any], image_shape: tuple[int, int, int]) -> np.ndarray:
    """Pictures as uint8 (N, H, W, C), for `observe` and `predict` of a learner of that `image_shape` (H, W, C).

    Each is resized so that it covers height x width, and its middle is cut out. Pixels come out as those of
    `puridiver run` and `puridiver predict`: turned as the EXIF orientation says, 16 bits scaled down, transparency laid
    on white, colours made grey where there is one channel.

    Parameters
    ----------
    pictures
        A list of paths of image files (JPEG, PNG, BMP, GIF, WebP, TIFF, PPM), such files' bytes, Pillow's images,
        arrays or tensors: (H, W), (H, W, 1), (H, W, 3) or with transparency (H, W, 4), uint8 or floats from 0 to 1.
    image_shape
        `learner.image_shape`.

    Raises
    ------
    ValueError
        Names each picture that cannot be read or used, by its place in the list, and says why.

    Examples
    --------
    >>> import numpy as np, puridiver
    >>> puridiver.image_batch([np.zeros((480, 640, 3), np.uint8), np.ones((20, 20))], (32, 32, 3)).shape
    (2, 32, 32, 3)
    """
    height, width, channels = inputs.as_image_shape(image_shape)
    found, bad = [], []
    for number, picture in enumerate(_listed(pictures)):
        try:
            pixels = _pixels(picture, height, width)
        except ValueError as error:
            name = f" ({os.fspath(picture)!r})" if isinstance(picture, str | os.PathLike) else ""
            bad.append(f"picture {number}{name}: {error}")
            continue
        if pixels.shape[2] != channels:
            pixels = grey(pixels) if channels == 1 else np.repeat(pixels, 3, axis=2)
        found.append(pixels)
    if bad:
        more = f"; ... and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
        n = len(found) + len(bad)
        raise ValueError(f"{len(bad)} of {n} pictures cannot be used: {'; '.join(bad[:NAMED])}{more}")
    if not found:
        raise ValueError("the batch is empty: pictures should hold at least one")
    return np.stack(found)


def _listed(pictures: Any) -> Iterable[Any]:
    """The pictures one by one, if they are several."""
    if isinstance(pictures, np.ndarray) and pictures.ndim == 1 and pictures.dtype.kind in "OU":
        return pictures.tolist()  # a column of a table
    if isinstance(pictures, np.ndarray | Tensor):
        if pictures.ndim != 4:
            raise ValueError(f"pictures as one array should have four axes, but got {tuple(pictures.shape)}")
        return list(pictures)
    if isinstance(pictures, ENCODED) or _is_pillow(pictures) or not isinstance(pictures, Iterable):
        got = type(pictures).__name__
        raise ValueError(f"pictures should be a list of {KINDS}; a single picture is a list of one, but got a {got}")
    return pictures


def _is_pillow(picture: object) -> bool:
    """Whether it is an image of Pillow's, which need not be installed."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(picture, pillow.Image)


def _pixels(picture: Any, height: int, width: int) -> np.ndarray:
    """uint8 (height, width, 1 or 3)."""
    if isinstance(picture, np.ndarray | Tensor):
        picture = _of_array(picture)
        if picture.shape[:2] == (height, width) and picture.shape[2] != 4:
            return picture
    elif not isinstance(picture, ENCODED) and not _is_pillow(picture):
        raise ValueError(f"pictures should be {KINDS}, but this is a {type(picture).__name__}")
    require_pillow()
    from PIL import Image

    try:
        if isinstance(picture, np.ndarray):
            whole = as_rgb(Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture))
        elif _is_pillow(picture):
            check_size(picture)
            whole = upright_rgb(picture)
        else:
            file = open_regular(os.fspath(picture)) if isinstance(picture, str | os.PathLike) else io.BytesIO(picture)
            with file, opened(file) as content:
                whole = upright_rgb(content)
        return np.asarray(cut(whole, height, width))
    except Exception as error:  # decoders raise nearly everything at damaged bytes
        raise ValueError(in_words(error)) from error


def _of_array(picture: np.ndarray | Tensor) -> np.ndarray:
    """uint8 (H, W, 1, 3 or 4)."""
    shape = tuple(picture.shape)
    if len(shape) not in (2, 3) or 0 in shape or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        raise ValueError(f"an array should have the shape (H, W) or (H, W, 1, 3 or 4), channels last, but has {shape}")
    height, width, channels = (*shape, 1)[:3]
    return inputs.as_images(picture[None], (height, width, channels)).cpu().numpy()[0]
