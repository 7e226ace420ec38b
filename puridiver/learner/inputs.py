"""Checks of what a user hands to the learner. Every error says what was expected and what came."""

from collections.abc import Iterable, Mapping
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


# Images ------------------------------------------------------------------------------------------------------------


def as_image_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """(height, width, channels) of the images a learner is made for."""
    whole = isinstance(shape, tuple | list) and len(shape) == 3 and all(map(is_whole, shape))
    if not whole or shape[2] not in (1, 3) or min(shape[:2]) < 4:
        raise _error("image_shape", "(height, width, channels) with at least 4 px and 1 or 3 channels", shape)
    return int(shape[0]), int(shape[1]), int(shape[2])


def as_images(images: Any, image_shape: tuple[int, int, int]) -> Tensor:
    """uint8 (N, H, W, C) from an array or tensor of that shape: uint8, or floats in [0, 1].

    Grey images may leave out the last axis.
    """
    if not isinstance(images, Tensor):
        try:
            images = np.asarray(images)
        except (ValueError, RuntimeError, TypeError) as error:
            raise ValueError(f"images should be one array, or all of one shape and mode: {error}") from error
        if images.dtype.kind != "f" and images.dtype != np.uint8:
            raise _error("images", "uint8, or floats in [0, 1]", f"an array of {images.dtype}")
        # A copy: torch lacks some of NumPy's floats, and cannot read arrays that are read-only or run backwards.
        images = torch.from_numpy(np.array(images, np.float32 if images.dtype.kind == "f" else np.uint8, order="C"))
    check_dense(images, "images")
    if images.dtype not in PIXEL_TYPES:
        raise _error("images", "uint8, or floats in [0, 1]", images.dtype)
    shape = tuple(images.shape)
    if shape and not shape[0]:
        raise ValueError("the batch is empty: images should hold at least one image")
    allowed = (image_shape, image_shape[:2]) if image_shape[2] == 1 else (image_shape,)
    if shape[1:] not in allowed:
        advice = ": a single image is a batch of one, image[None]" if shape in allowed else ""
        raise ValueError(f"images should have the shape (N, {str(image_shape)[1:]}, but got {shape}{advice}")
    images = images.detach()
    if images.dtype.is_floating_point:
        low, high = float(images.min()), float(images.max())
        if not (low >= 0 and high <= 1):  # nan fails too
            raise ValueError(f"images of floats should be finite and in [0, 1], but got {low:g} to {high:g}")
        images = (images * 255).round().to(torch.uint8)
    return images.reshape(-1, *image_shape)


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


def as_corrections(
    labels: Any, known: Mapping[Label, int], seen: int, ids: Mapping[int, SourceId] | None = None
) -> dict[int, int | None]:
    """Class ids (or None) by arrival, from labels by arrival; or by id, with `ids` (those held, by arrival)."""
    if not isinstance(labels, Mapping):
        example = "arrival: label, such as {17: 'dog'}" if ids is None else "id: label, such as {'photo-17.png': 'dog'}"
        raise _error("corrections", f"a dict of {example}", f"a {type(labels).__name__}")
    for key, label in labels.items():
        if ids is None and not (is_whole(key) and 0 <= key < seen):
            raise _error("arrivals", f"whole numbers below {seen}, the samples seen so far", repr(key))
        if not (label is None or isinstance(label, str) or is_whole(label)):  # True would be class 1, and 3.0 class 3
            raise _error("the label of a correction", "an integer, a string or None", f"{label!r} for {key!r}")
        if label is not None and label not in known:
            raise _unknown(label, known, "a correction adds no class: a growing learner observes an image of it first")
    by_arrival = labels if ids is None else {arrival: labels[key] for arrival, key in ids.items() if key in labels}
    return {int(arrival): None if label is None else known[label] for arrival, label in by_arrival.items()}
