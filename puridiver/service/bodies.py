"""What requests bring: JSON or forms with images, as pixels for the learner. Nothing of it is trusted."""

import base64
import binascii
import io
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import numpy as np
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import HTTPException, Request
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from puridiver.data.images import FORMATS, image_batch, read_each, read_picture
from puridiver.errors import few
from puridiver.learner import inputs

MOST_IMAGES = 1_024  # of a request
MOST_PIXELS = 25_000_000  # of an image
Name = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | Annotated[StrictStr, Field(max_length=1_000)]
NAMES = list[Name]


class Images(BaseModel):
    """Images to look at: image files or one array, not both."""

    model_config = ConfigDict(extra="forbid")
    images: list[str] | None = Field(None, max_length=MOST_IMAGES, description="image or .npy files, each as base64")
    npy: str | None = Field(
        None, description="a .npy file as base64: uint8 or floats in [0, 1], (N, H, W, C), or vectors (N, d)"
    )


class LabelledImages(Images):
    """A batch of the stream."""

    labels: NAMES = Field(max_length=MOST_IMAGES, description="one for each image; all numbers or all strings")
    ids: NAMES | None = Field(None, max_length=MOST_IMAGES, description="your own names of the images")


Body = TypeVar("Body", bound=Images)


class _InMemory(MultiPartParser):
    # Bodies are limited before: a form needs no temporary file, which a full disk would refuse.
    spool_max_size = 1 << 40


def described(body: type[Images]) -> dict[str, Any]:
    """The OpenAPI description of a body that comes as JSON or as a form."""
    json_schema = body.model_json_schema()
    files = {"type": "array", "items": {"type": "string", "format": "binary"}, "maxItems": MOST_IMAGES}
    names = {"type": "array", "items": {"type": "string"}, "maxItems": MOST_IMAGES}
    fields = dict.fromkeys(body.model_fields, names) | {"images": files, "npy": {"type": "string", "format": "binary"}}
    form = {"type": "object", "properties": fields, "required": json_schema.get("required", [])}
    kinds = {"application/json": {"schema": json_schema}, "multipart/form-data": {"schema": form}}
    return {"requestBody": {"required": True, "content": kinds}}


async def read(
    request: Request, kind: type[Body], shape: tuple[int, ...], limiter: CapacityLimiter | None = None
) -> tuple[Body, np.ndarray]:
    """The fields of a request and its images, uint8 (N, H, W, C), or vectors, float32 (N, d).

    A `ValueError` names what cannot be used. A thread of the `limiter` decodes them; without one, a thread that all
    routes share.
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == "multipart/form-data":
        return await run_sync(_from_form, await _form(request), kind, shape, limiter=limiter)
    if media != "application/json":
        raise HTTPException(415, f"send application/json or multipart/form-data, but not {media or 'nothing'}")
    return await run_sync(_from_json, await request.body(), kind, shape, limiter=limiter)


async def _form(request: Request) -> list[tuple[str, str | bytes, str]]:
    """Fields and files of a form: name, content and file name."""
    fields = 2 * MOST_IMAGES
    parser = _InMemory(
        request.headers, request.stream(), max_files=MOST_IMAGES, max_fields=fields, max_part_size=1 << 16
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeError) as error:  # KeyError: no boundary
        raise ValueError(f"the form cannot be read: {getattr(error, 'message', error)}") from error
    found = list[tuple[str, str | bytes, str]]()
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            found.append((name, await value.read(), value.filename or ""))
        else:
            found.append((name, value, ""))
    await form.close()
    return found


def _from_form(parts: list[tuple[str, str | bytes, str]], kind: type[Body], shape: Any) -> tuple[Body, np.ndarray]:
    files = [(content, name) for field, content, name in parts if field == "images"]
    arrays = [content for field, content, _ in parts if field == "npy"]
    if not all(isinstance(content, bytes) for content in (*arrays, *(content for content, _ in files))):
        raise ValueError("images and npy should be files of the form")
    if unknown := sorted({field for field, _, _ in parts} - set(kind.model_fields)):
        raise ValueError(f"the form's fields should be {', '.join(kind.model_fields)}, but got {few(unknown, 3)!r}")
    told: dict[str, list[str]] = {}
    for field, content, _ in parts:
        if isinstance(content, str):
            told.setdefault(field, []).append(content)
    fields = kind.model_validate(told)
    return fields, _pixels(files if files else None, arrays[0] if arrays else None, shape)  # type: ignore[arg-type]


def _from_json(content: bytes, kind: type[Body], shape: Any) -> tuple[Body, np.ndarray]:
    fields = kind.model_validate_json(content)
    files = None if fields.images is None else _files(fields.images)
    return fields, _pixels(files, None if fields.npy is None else _base64(fields.npy, "npy"), shape)


def from_base64(images: list[str], shape: tuple[int, ...]) -> np.ndarray:
    """Files of one image each as pixels, uint8 (N, H, W, C), or of one vector each, float32 (N, d)."""
    found = _pixels(_files(images), None, shape)
    if len(found) != len(images):
        raise ValueError(f"each image should be one vector, but {len(images)} hold {len(found)}")
    return found


def _files(images: list[str]) -> list[tuple[bytes, str]]:
    """Images that came as base64: their bytes, and no name."""
    return [(_base64(each, f"image {number}"), "") for number, each in enumerate(images)]


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{what} is not base64: {error}") from error


def _pixels(files: Sequence[tuple[bytes, str]] | None, npy: bytes | None, shape: tuple[int, ...]) -> np.ndarray:
    if (files is None) == (npy is None):
        raise ValueError("send either images or npy")
    if len(shape) == 1:
        return _vectors([content for content, _ in files or ()] if npy is None else [npy], shape)
    if npy is not None:
        return _from_array(read_npy(npy), shape)
    named = ((name and f"{name!r:.80}", content) for content, name in files or ())
    return read_each("image", named, lambda content: _decoded(content, shape))


def _from_array(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.ndim < 3 or len(array) > MOST_IMAGES:
        raise ValueError(f"npy should be (N, H, W, C) with at most {MOST_IMAGES:,} images, but is {array.shape}")
    exact = array.shape[1:] in (shape, shape[:2] if shape[2] == 1 else shape)
    return inputs.as_images(array, shape).numpy() if exact else image_batch(array, shape)


def _vectors(files: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    """float32 (N, d) from .npy files of (N, d) or (d,)."""
    arrays = [read_npy(content) for content in files]
    found = np.concatenate([array[None] if array.ndim == 1 else array for array in arrays] or [np.empty((0, *shape))])
    if len(found) > MOST_IMAGES:
        raise ValueError(f"npy should hold at most {MOST_IMAGES:,} vectors, but holds {len(found):,}")
    return inputs.as_vectors(found, shape).numpy()


def _decoded(content: bytes, shape: tuple[int, ...]) -> np.ndarray:
    if content.startswith(np.lib.format.MAGIC_PREFIX):
        return _from_array(read_npy(content)[None], shape)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of what is refused here
        with Image.open(io.BytesIO(content), formats=FORMATS) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise ValueError(f"{picture.width} x {picture.height} pixels are more than {MOST_PIXELS:,}")
        return read_picture(io.BytesIO(content), shape)


def read_npy(content: bytes) -> np.ndarray:
    """The array of a .npy file. It takes no more memory than the content, whatever the header claims."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, fortran, dtype = readers[version](file)
    except (ValueError, KeyError, SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"npy is not a .npy file of version 1 or 2: {error!s:.100}") from error
    if dtype.hasobject or dtype.kind not in "uf":
        raise ValueError(f"npy should hold uint8 or floats, but holds {dtype}")
    expected, rest = int(np.prod(shape, dtype=object)) * dtype.itemsize, len(content) - file.tell()
    if expected != rest or not rest:
        raise ValueError(f"npy should have {expected:,} bytes after its header and at least one, but has {rest:,}")
    return np.frombuffer(content, dtype, offset=file.tell()).reshape(shape, order="F" if fortran else "C")
