"""Checks of what a user hands to the learner. Every error says what was expected and what came."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from puridiver.errors import few

Label = int | str
SourceId = int | str  # by which a caller knows a sample

# Limits of what one bad label can cost: predictions hold an array as wide as the longest name.
LONGEST_LABEL = 1_000
MOST_CLASSES = 100_000
PIXEL_TYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)  # torch cannot compare float8


def _error(what: str, expected: str, came: object) -> ValueError:
    return ValueError(f"{what} should be {expected}, but got {came}")


def check_dense(tensor: Tensor, what: str) -> None:
    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_nested:
        raise _error(what, "a dense tensor that holds its values", f"{tensor.layout} on {tensor.device}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer, Python's or NumPy's; True would count as 1."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_whole(value: Any, what: str, least: int, unit: str = "") -> int:
    """Python's own integer, at least so much."""
    if not is_whole(value) or value < least:
        raise _error(what, f"a whole number, at least {least}{unit}", repr(value))
    return int(value)


# Images and vectors ------------------------------------------------------------------------------------------------


def as_input_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(height, width, channels) of the images that a learner is made for, or (d,) of vectors."""
    whole = isinstance(shape, tuple | list) and all(map(is_whole, shape))
    if whole and len(shape) == 1 and shape[0] >= 1:
        return (int(shape[0]),)
    if not whole or len(shape) != 3 or shape[2] not in (1, 3) or min(shape[:2]) < 4:
        images = "(height, width, channels) of images with at least 4 px and 1 or 3 channels"
        raise _error("input_shape", f"{images}, or (d,) of vectors", shape)
    return int(shape[0]), int(shape[1]), int(shape[2])


def shape_of(samples: Any) -> tuple[int, ...]:
    """The `input_shape` of a batch: floats (N, d) are vectors; others are images, perhaps without channels."""
    array = samples if isinstance(samples, Tensor) else np.asarray(samples)
    shape = tuple(array.shape)
    is_float = array.is_floating_point() if isinstance(array, Tensor) else array.dtype.kind == "f"
    if len(shape) == 2 and shape[1] and is_float:
        return shape[1:]
    channels_last = len(shape) == 4 and shape[3] in (1, 3)
    if len(shape) not in (3, 4) or 0 in shape[1:] or not (len(shape) == 3 or channels_last or shape[1] in (1, 3)):
        raise _error("images", "(N, H, W), (N, H, W, 1 or 3) or (N, 1 or 3, H, W), or vectors, floats (N, d)", shape)
    if len(shape) == 3 or channels_last:
        return (*shape[1:], 1)[:3]
    return (*shape[2:], shape[1])


def as_batch(samples: Any, input_shape: tuple[int, ...]) -> Tensor:
    """A batch of the samples that a learner is made for, as it holds them: `as_images` or `as_vectors`."""
    return as_vectors(samples, input_shape) if len(input_shape) == 1 else as_images(samples, input_shape)


def as_vectors(vectors: Any, input_shape: tuple[int, ...]) -> Tensor:
    """Finite float32 (N, d) from an array or tensor of numbers."""
    if not isinstance(vectors, Tensor):
        array = _as_array(vectors, "vectors should be one array of numbers, all of one length")
        if array.dtype.kind not in "fiub":
            raise _error("vectors", "numbers", f"an array of {array.dtype}")
        with np.errstate(over="ignore"):  # infinity is refused below
            vectors = torch.from_numpy(np.array(array, np.float32, order="C"))
    check_dense(vectors, "vectors")
    if vectors.is_complex():
        raise _error("vectors", "real numbers", vectors.dtype)
    _check_shape(tuple(vectors.shape), "vector", (input_shape,))
    found = vectors.detach().to(torch.float32)
    if not bool(found.isfinite().all()):
        raise ValueError("vectors should be finite numbers that fit in float32, but there is nan or infinity")
    return found


def _as_array(samples: Any, wanted: str) -> np.ndarray:
    try:
        return np.asarray(samples)
    except (ValueError, RuntimeError, TypeError) as error:
        raise ValueError(f"{wanted}: {error}") from error


def _check_shape(shape: tuple[int, ...], one: str, allowed: Sequence[tuple[int, ...]]) -> None:
    """Raise a ValueError unless it is the shape of a batch of samples of an allowed shape; it names the first two."""
    if shape and not shape[0]:
        raise ValueError(f"the batch is empty: {one}s should hold at least one {one}")
    if shape[1:] not in allowed:
        advice = f": a single {one} is a batch of one, {one}[None]" if shape in allowed else ""
        either = " or ".join(f"({', '.join(map(str, ('N', *each)))})" for each in allowed[:2])
        raise ValueError(f"{one}s should have the shape {either}, but got {shape}{advice}")


def channels_first(samples: Tensor) -> Tensor:
    """Images (N, H, W, C) as networks take them, (N, C, H, W); vectors as they are."""
    return samples.permute(0, 3, 1, 2).contiguous() if samples.ndim == 4 else samples


def as_images(images: Any, input_shape: tuple[int, ...]) -> Tensor:
    """uint8 (N, H, W, C) from an array or tensor of that shape, or (N, C, H, W): uint8, or floats in [0, 1].

    Grey images may leave out the axis of channels. An image has more than 3 px, so that no shape means two things.
    """
    if not isinstance(images, Tensor):
        images = _as_array(images, "images should be one array, or all of one shape and mode")
        if images.dtype.kind != "f" and images.dtype != np.uint8:
            raise _error("images", "uint8, or floats in [0, 1]", f"an array of {images.dtype}")
        # A copy: torch lacks some of NumPy's floats, and cannot read arrays that are read-only or run backwards.
        images = torch.from_numpy(np.array(images, np.float32 if images.dtype.kind == "f" else np.uint8, order="C"))
    check_dense(images, "images")
    if images.dtype not in PIXEL_TYPES:
        raise _error("images", "uint8, or floats in [0, 1]", images.dtype)
    shape, channels_before = tuple(images.shape), (input_shape[2], *input_shape[:2])
    _check_shape(shape, "image", (input_shape, channels_before, *[input_shape[:2]] * (input_shape[2] == 1)))
    images = images.detach()
    if shape[1:] == channels_before != input_shape:
        images = images.permute(0, 2, 3, 1)
    if images.dtype.is_floating_point:
        low, high = float(images.min()), float(images.max())
        if not (low >= 0 and high <= 1):  # nan fails too
            raise ValueError(f"images of floats should be finite and in [0, 1], but got {low:g} to {high:g}")
        images = (images * 255).round().to(torch.uint8)
    return images.reshape(-1, *input_shape)


# Labels and classes ------------------------------------------------------------------------------------------------


def as_labels(labels: Any, n: int | None = None, what: str = "labels") -> list[Label]:
    """A plain list of int or str labels, all of one kind; `n` of them, one for each image.

    Lists do not pass through NumPy: it would turn large integers into floats.
    """
    if isinstance(labels, Tensor):
        check_dense(labels, what)
        labels = labels.tolist()
    if isinstance(labels, np.ma.MaskedArray):
        raise _error(what, "without gaps", "a masked array")
    if not isinstance(labels, list | tuple):
        labels = np.asarray(labels)
        if labels.ndim == 1 and labels.dtype.kind not in "iuUO":
            raise _error(what, "integers or strings", labels.dtype)
        labels = labels.tolist() if labels.ndim == 1 else labels
    if isinstance(labels, np.ndarray) or (n is not None and len(labels) != n):
        raise _error(what, f"of the shape ({n},), one for each image", np.shape(labels)[:1] or "a single one")
    # NumPy's integers and strings, and classes derived from int or str, become plain ones.
    found = [str.__str__(v) if isinstance(v, str) else int(v) if is_whole(v) else v for v in labels]
    kinds = set(map(type, found))
    if not (kinds <= {int} or kinds <= {str}):
        raise _error(what, "all integers or all strings", ", ".join(sorted(kind.__name__ for kind in kinds)))
    return found


def as_classes(classes: int | Iterable[Label] | None) -> list[Label]:
    """Class labels without repeats: from a number (0 to n - 1), a list, or nothing."""
    if classes is None:
        return []
    if is_whole(classes) and 1 <= classes <= MOST_CLASSES:
        return list(range(classes))
    if not isinstance(classes, Iterable) or isinstance(classes, str) or getattr(classes, "ndim", 1) == 0:
        raise _error("classes", f"a whole number, 1 to {MOST_CLASSES:,}, or a list of labels", repr(classes))
    found = as_labels(list(classes), what="classes")
    if not found or len(set(found)) < len(found):
        raise ValueError("classes should name at least one class, and none twice; leave it out to let classes grow")
    _check_names(found, len(found))
    return found


def class_ids(labels: list[Label], known: Mapping[Label, int], grow: bool) -> tuple[Tensor, list[Label]]:
    """Class ids of labels, int64 (N,), and the labels of new classes in order of appearance.

    `known` has the ids of the classes so far. A label that is none of them is an error unless classes may `grow`.
    """
    ids = dict(known)
    for label in labels:
        if label not in ids:
            ids[label] = len(ids)
    new = list(ids)[len(known) :]
    if new:
        if not grow:
            raise _unknown(new[0], known, "make the learner with grow=True to accept new classes")
        kind, came = type(next(iter(ids))).__name__, type(new[0]).__name__
        if kind != came:
            raise _error("labels", f"of the kind of the classes, {kind}", f"{came}: {new[0]!r}")
        _check_names(new, len(ids))
    return torch.tensor(list(map(ids.__getitem__, labels)), dtype=torch.int64), new


def _check_names(new: Iterable[Label], n_classes: int) -> None:
    if n_classes > MOST_CLASSES:
        raise ValueError(f"there should be at most {MOST_CLASSES:,} classes, but got {n_classes:,}")
    for label in new:  # NumPy's arrays, in which predictions come, hold neither larger integers nor NUL at the end
        if isinstance(label, str) and not (label.strip() and len(label) <= LONGEST_LABEL and "\0" not in label):
            wanted = f"a name of 1 to {LONGEST_LABEL:,} characters, none of them NUL"
            raise _error("a class", wanted, f"{len(label):,}: {label[:20]!r}")
        if isinstance(label, int) and not -(2**63) <= label < 2**63:
            raise _error("a class", "an integer of 64 bits", label)


def _unknown(label: Label, known: Iterable[Label], advice: str) -> ValueError:
    return _error("labels", f"among the classes {few(map(repr, known)) or '(none yet)'}", f"{label!r}; {advice}")


def as_keys(keys: Any, by_id: bool) -> list[SourceId]:
    """By which samples are named, without repeats: arrivals, or ids."""
    if isinstance(keys, str) or not isinstance(keys, Iterable) or getattr(keys, "ndim", 1) == 0:
        raise _error("samples", "named in a list, such as [17] or ['photo-17.png']", repr(keys))
    found: dict[SourceId, None] = {}
    for key in keys:
        if by_id and not (isinstance(key, str) or is_whole(key)):
            raise _error("ids", "integers or strings", repr(key))
        if not by_id and not (is_whole(key) and key >= 0):
            raise _error("arrivals", "whole numbers from 0 on", repr(key))
        found[int(key) if is_whole(key) else str(key)] = None
    return list(found)


def as_corrections(labels: Any, known: Mapping[Label, int], by_id: bool) -> dict[SourceId, int | None]:
    """Class ids (or None) by arrival or id, from labels by arrival or id."""
    if not isinstance(labels, Mapping):
        example = "id: label, such as {'photo-17.png': 'dog'}" if by_id else "arrival: label, such as {17: 'dog'}"
        raise _error("corrections", f"a dict of {example}", f"a {type(labels).__name__}")
    for key, label in labels.items():
        if not (label is None or isinstance(label, str) or is_whole(label)):  # True would be class 1, and 3.0 class 3
            raise _error("the label of a correction", "an integer, a string or None", f"{label!r} for {key!r}")
        if label is not None and label not in known:
            raise _unknown(label, known, "a correction adds no class: a growing learner observes an image of it first")
    new = [None if label is None else known[label] for label in labels.values()]
    return dict(zip(as_keys(labels, by_id), new, strict=True))
