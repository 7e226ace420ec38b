"""Checks of what a user hands to the learner. Every error says what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

Label = int | str
SourceId = int | str  # by which a caller knows a sample

# Limits of what one bad label can cost: predictions hold an array as wide as the longest name.
LONGEST_LABEL = 1_000
MOST_CLASSES = 100_000

# Arguments of the learner, offered when a name is misspelt.
LEARNER_ARGUMENTS = (
    "classes", "image_shape", "memory", "sampler", "trainer", "recipe", "network", "device", "precision", "graphs",
    "seed", "grow", "hint",
)  # fmt: skip


# Images ----------------------------------------------------------------------------------------------------------


def as_images(images: Any, image_shape: tuple[int, int, int]) -> Tensor:
    """uint8 (N, H, W, C) from an array or tensor of that shape: uint8, or floats in [0, 1].

    Grey images may leave out the last axis.
    """
    tensor = _dense(images, "images") if isinstance(images, Tensor) else _as_tensor(images)
    shape = tuple(tensor.shape)
    if shape and not shape[0]:
        raise ValueError("the batch is empty: images should hold at least one image")
    one = (image_shape, image_shape[:2]) if image_shape[2] == 1 else (image_shape,)
    if shape[1:] not in one:
        advice = ": a single image is a batch of one, image[None]" if shape in one else ""
        wanted = ", ".join(map(str, image_shape))
        raise ValueError(f"images should have the shape (N, {wanted}), but got {shape}{advice}")
    if tensor.dtype != torch.uint8:
        tensor = _from_float(tensor)
    return tensor.reshape(-1, *image_shape)


def _dense(tensor: Tensor, what: str) -> Tensor:
    """The tensor without its gradient, if it has a value in each place."""
    if tensor.layout != torch.strided or tensor.is_meta:
        kind = "one on the device meta" if tensor.is_meta else f"one of {tensor.layout}"
        raise ValueError(f"{what} should be a dense tensor that holds its values, but got {kind}")
    return tensor.detach()


def _as_tensor(images: Any) -> Tensor:
    if isinstance(images, list | tuple) and images and all(isinstance(image, Tensor) for image in images):
        _check_same_shape(images)
        return torch.stack([_dense(image, "images") for image in images])
    try:
        array = np.asarray(images)
    except ValueError:  # images of several shapes
        _check_same_shape(images)
        raise
    if array.dtype.kind == "f":
        array = array.astype(np.float32)  # torch lacks some of NumPy's floats
    elif array.dtype != np.uint8:
        raise ValueError(f"images should be uint8, or floats in [0, 1], but got an array of {array.dtype}")
    # A copy: torch cannot read from arrays that are read-only or run backwards.
    return torch.from_numpy(np.array(array, order="C"))


def _check_same_shape(images: Iterable[Any]) -> None:
    shapes = [tuple(np.shape(image)) for image in images]
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"images should all have one shape, but image 0 has {shapes[0]} and image {number} has {shape}: bring "
                "them to one size and one mode (grey or RGB) first"
            )


def _from_float(tensor: Tensor) -> Tensor:
    if not tensor.dtype.is_floating_point:
        raise ValueError(f"images should be uint8, or floats in [0, 1], but got {tensor.dtype}")
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError("images should be finite, but some pixels are nan or infinite")
    low, high = float(tensor.min()), float(tensor.max())
    if low < 0 or high > 1:
        raise ValueError(f"images of floats should lie in [0, 1], but got values from {low:g} to {high:g}")
    return (tensor * 255).round().to(torch.uint8)


# Labels and classes ----------------------------------------------------------------------------------------------


def as_labels(labels: Any, n_images: int) -> list[Label]:
    """A plain list of int or str labels, one for each image.

    Lists do not pass through NumPy: it would turn large integers into floats and drop the zero bytes of "a\\0".
    """
    if isinstance(labels, Tensor):
        if labels.dtype.is_floating_point or labels.dtype.is_complex:
            raise ValueError(f"labels should be integers or strings, but got {str(labels.dtype)[6:]}")
        labels = _dense(labels, "labels").cpu().numpy()
    if not isinstance(labels, list | tuple):
        if isinstance(labels, np.ma.MaskedArray):
            raise ValueError("labels should be integers or strings, but got a masked array: leave masked samples out")
        labels = np.asarray(labels)
        if labels.ndim != 1:
            raise ValueError(f"labels should have the shape ({n_images},), but got {labels.shape}")
        if labels.dtype.kind not in "iuUO":
            raise ValueError(f"labels should be integers or strings, but got {labels.dtype}")
        labels = labels.tolist()
    if len(labels) != n_images:
        raise ValueError(f"labels should have the shape ({n_images},), one for each image, but got ({len(labels)},)")
    return _of_one_kind(labels, "labels")


def _of_one_kind(values: Iterable[Any], what: str) -> list[Label]:
    """The values as Python's own integers, or strings; an error where they are mixed or anything else."""
    found = list(values)
    kinds = set(map(type, found))
    if not (kinds <= {int} or kinds <= {str}):  # NumPy's, or classes derived from int or str
        found = [str.__str__(v) if isinstance(v, str) else int(v) if is_whole(v) else v for v in found]
        kinds = set(map(type, found))
        if not (kinds <= {int} or kinds <= {str}):
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"{what} should be all integers or all strings, but got {names}")
    return found


def as_classes(classes: int | Iterable[Label] | None) -> list[Label]:
    """Class labels without repeats: from a number (0 to n - 1), a list, or nothing."""
    if classes is None:
        return []
    if isinstance(classes, str):
        raise ValueError(f"classes should be a list of labels, but got the single word {classes!r}")
    if is_whole(classes) and classes >= 1:
        _check_names((), int(classes))
        return list(range(classes))
    if not isinstance(classes, Iterable) or getattr(classes, "ndim", 1) == 0:
        raise ValueError(f"classes should be a positive whole number or a list of labels, but got {classes!r}")
    found = _of_one_kind(classes, "classes")
    if not found:
        raise ValueError("classes should name at least one class; leave it out to let classes grow")
    if len(set(found)) < len(found):
        raise ValueError("classes should not name a class twice")
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
        first = next(iter(ids))
        if type(first) is not type(new[0]):
            kinds = type(first).__name__, type(new[0]).__name__
            raise ValueError(f"labels should be of the kind of the classes, {kinds[0]}, but got {kinds[1]}: {new[0]!r}")
        _check_names(new, len(ids))
    return torch.tensor(list(map(ids.__getitem__, labels)), dtype=torch.int64), new


def _check_names(new: Iterable[Label], n_classes: int) -> None:
    if n_classes > MOST_CLASSES:
        raise ValueError(f"there should be at most {MOST_CLASSES:,} classes, but got {n_classes:,}")
    for label in new:
        if isinstance(label, str) and not label.strip():
            raise ValueError("a new class should have a name, but got a label of nothing or spaces alone")
        if isinstance(label, str) and len(label) > LONGEST_LABEL:
            raise ValueError(
                f"a label should have at most {LONGEST_LABEL:,} characters, but got {len(label):,}: {label[:20]!r}..."
            )


def _unknown(label: Label, known: Iterable[Label], advice: str) -> ValueError:
    classes = list(known)
    shown = ", ".join(map(repr, classes[:12])) + (", ..." if len(classes) > 12 else "")
    return ValueError(f"labels should be among the classes {shown or '(none yet)'}, but got {label!r}; {advice}")


def label_array(classes: list[Label]) -> np.ndarray:
    """The labels as an array that holds each exactly.

    NumPy's own types do not hold every label: integers beyond 64 bits become floats, and zero bytes at the end go.
    """
    array = np.array(classes, dtype=object)
    exact = np.asarray(classes)
    return exact if exact.dtype.kind in "iuU" and bool((exact.astype(object) == array).all()) else array


# Numbers ---------------------------------------------------------------------------------------------------------


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer, Python's or NumPy's; True would count as 1."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_whole(value: Any, what: str, least: int, unit: str = "") -> int:
    """Python's own integer, at least so much."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{what} should be a whole number, at least {least}{unit}, but got {value!r}")
    return int(value)


def as_seconds(seconds: Any) -> float | None:
    """A time to spend, or None: as long as it takes."""
    number = isinstance(seconds, int | float | np.integer | np.floating) and not isinstance(seconds, bool)
    if seconds is not None and not (number and 0 < seconds < math.inf):
        raise ValueError(f"seconds should be a number above 0, or None for as long as it takes, but got {seconds!r}")
    return None if seconds is None else float(seconds)


def as_image_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """(height, width, channels) of the images a learner is made for."""
    whole = isinstance(shape, tuple | list) and len(shape) == 3 and all(map(is_whole, shape))
    if not whole or shape[2] not in (1, 3) or min(shape[:2]) < 4:
        raise ValueError(
            f"image_shape should be (height, width, channels) with at least 4 px and 1 or 3 channels, but got {shape}"
        )
    height, width, channels = (int(n) for n in shape)
    return height, width, channels


# Samples that the caller names -----------------------------------------------------------------------------------


def as_source_ids(ids: Any, n_images: int) -> list[SourceId]:
    """A plain list of int or str ids, one for each image."""
    found = list(map(_as_id, _listed(ids, "ids", f"a list of {n_images}, one for each image in their order")))
    if len(found) != n_images:
        raise ValueError(f"ids should be as many as the images, {n_images}, but got {len(found)}")
    return found


def _listed(values: Any, what: str, expected: str, allowed: tuple[type, ...] = ()) -> list[Any]:
    """The values of anything that has some in an order, and of what is `allowed` beside that."""
    ordered = isinstance(values, Iterable) and not isinstance(values, str | bytes | set | frozenset | Mapping)
    if not (ordered or isinstance(values, allowed)) or getattr(values, "ndim", 1) != 1:
        came = f"the shape {tuple(values.shape)}" if hasattr(values, "shape") else f"a {type(values).__name__}"
        raise ValueError(f"{what} should be {expected}, but got {came}")
    # Not by way of an array, which would make text of the numbers beside a text.
    return values.tolist() if isinstance(values, Tensor | np.ndarray) else list(values)


def _as_id(value: object) -> SourceId:
    if isinstance(value, str):
        return str(value)
    if is_whole(value):
        return int(value)
    raise ValueError(f"ids should be strings or integers, but got a {type(value).__name__}: {value!r}")


def as_arrivals(samples: Any, seen: int, ids: Mapping[int, SourceId] | None = None) -> list[int]:
    """Arrivals of samples; with `ids` (those held, by arrival) the samples are named by id instead."""
    expected = "whole numbers, as `audit` tells them" if ids is None else "strings or integers"
    found = _listed(samples, "arrivals" if ids is None else "ids", f"a list or set of {expected}", (set, frozenset))
    if ids is None:
        _check_arrivals(found, seen)
        return list(map(int, found))
    named = set(map(_as_id, found))
    return [arrival for arrival, key in ids.items() if key in named]


def as_corrections(
    labels: Mapping[Any, Label], classes: list[Label], seen: int, grow: bool, ids: Mapping[int, SourceId] | None = None
) -> dict[int, int]:
    """Class ids by arrival, from labels by arrival; or by id, with `ids` (those held, by arrival)."""
    if not isinstance(labels, Mapping):
        example = "arrival: label, such as {17: 'dog'}" if ids is None else "id: label, such as {'photo-17.png': 'dog'}"
        raise ValueError(f"corrections should be a dict of {example}, but got a {type(labels).__name__}")
    if ids is None:
        _check_arrivals(labels, seen)
    numbers = dict(zip(classes, range(len(classes)), strict=True))
    advice = "a correction adds no class" + (": observe an image of it first" if grow else "")
    found: dict[SourceId, int] = {}
    for key, label in labels.items():
        if not (isinstance(label, str) or is_whole(label)):  # True would be class 1, and 3.0 class 3
            raise ValueError(
                f"the label of a correction should be an integer or a string, but got {label!r} for {key!r}"
            )
        if label not in numbers:
            raise _unknown(label, classes, advice)
        found[_as_id(key)] = numbers[label]
    if ids is None:
        return {int(arrival): number for arrival, number in found.items()}
    return {arrival: found[key] for arrival, key in ids.items() if key in found}


def _check_arrivals(arrivals: Collection[object], seen: int) -> None:
    if arrivals and not seen:
        raise ValueError("nothing was observed yet: there is no sample whose label could be corrected")
    for arrival in arrivals:
        if not is_whole(arrival):
            raise ValueError(f"arrivals should be whole numbers, as `audit` tells them, but got {arrival!r}")
        if not 0 <= arrival < seen:
            raise ValueError(f"arrivals should be from 0 to {seen - 1}, as seen so far, but got {arrival!r}")


def member(registry: Mapping[str, Any], family: str, name: str) -> Any:
    """What a registry has under a name, or a ValueError that says what there is."""
    if name not in registry:
        raise ValueError(
            f"{family} should be one of {', '.join(sorted(registry))}, but got {name!r} "
            "(one of your own needs its plugin: docs/methods.md)"
        )
    return registry[name]
