"""Checks of what a user hands to the learner: every error says what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

Label = int | str
SourceId = int | str  # by which a caller knows a sample


def as_images(images: Any, image_shape: tuple[int, int, int]) -> Tensor:
    """uint8 (N, H, W, C) from a NumPy array or tensor of that shape: uint8, or floats in [0, 1]."""
    tensor = _dense(images, "images") if isinstance(images, Tensor) else _as_tensor(images)
    if tensor.ndim and not len(tensor):
        raise ValueError("the batch is empty: images should hold at least one image")
    _check_shape(tuple(tensor.shape), image_shape)
    if tensor.dtype != torch.uint8:
        tensor = _from_float(tensor)
    return tensor.reshape(-1, *image_shape)


def _check_shape(shape: tuple[int, ...], image_shape: tuple[int, int, int]) -> None:
    """Grey images may leave out the last axis."""
    one = (image_shape, image_shape[:2]) if image_shape[2] == 1 else (image_shape,)
    if shape[1:] in one:
        return
    advice = ": a single image is a batch of one, image[None]" if shape in one else ""
    height, width, channels = image_shape
    raise ValueError(f"images should have the shape (N, {height}, {width}, {channels}), but got {shape}{advice}")


def _dense(tensor: Tensor, what: str) -> Tensor:
    """The tensor without its gradient, if it has a value in each place."""
    if tensor.layout != torch.strided or tensor.is_meta:
        kind = "one on the device meta" if tensor.is_meta else f"one of {tensor.layout}"
        raise ValueError(f"{what} should be a dense tensor that holds its values, but got {kind}")
    return tensor.detach()


def _as_tensor(images: Any) -> Tensor:
    if isinstance(images, list | tuple) and images and all(isinstance(image, Tensor) for image in images):
        _check_alike(images)
        return torch.stack([_dense(image, "images") for image in images])
    try:
        array = np.asarray(images)
    except ValueError:  # of several shapes, in NumPy's words
        _check_alike(images)
        raise
    if array.dtype.kind == "f":
        array = array.astype(np.float32)  # also of kinds that torch does not have
    elif array.dtype != np.uint8:
        raise ValueError(f"images should be uint8, or floats in [0, 1], but got an array of {array.dtype}")
    # A copy: torch cannot read from arrays that are read-only or run backwards.
    return torch.from_numpy(np.array(array, order="C"))


def _check_alike(images: Iterable[Any]) -> None:
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


def as_labels(labels: Any, n_images: int) -> list[Label]:
    """A plain list of int or str labels, one for each image."""
    if isinstance(labels, Tensor):
        if labels.dtype.is_floating_point or labels.dtype.is_complex:
            raise ValueError(
                f"labels should be integers or strings, but got {str(labels.dtype).removeprefix('torch.')}"
            )
        labels = _dense(labels, "labels").cpu().numpy()
    if isinstance(labels, list | tuple):
        _check_kinds(labels)
    values = np.asarray(labels)
    if values.ndim != 1 or len(values) != n_images:
        raise ValueError(f"labels should have the shape ({n_images},), one for each image, but got {values.shape}")
    if values.dtype.kind not in "iuUS" and not all(map(_is_label, values.tolist())):
        raise ValueError(f"labels should be integers or strings, but got {values.dtype}")
    return [v.item() if isinstance(v, np.generic) else v for v in values.tolist()]


def as_source_ids(ids: Any, n_images: int) -> list[SourceId]:
    """A plain list of int or str ids, one for each image."""
    found = [
        _plain_id(each) for each in _listed(ids, "ids", f"a list of {n_images}, one for each image in their order")
    ]
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


def _plain_id(value: object) -> SourceId:
    if isinstance(value, str):
        return str(value)
    if is_whole(value):
        return int(value)
    raise ValueError(f"ids should be strings or integers, but got a {type(value).__name__}: {value!r}")


def _is_label(value: object) -> bool:
    return isinstance(value, str) or is_whole(value)


def _check_kinds(labels: Sequence[object]) -> None:
    """Before NumPy makes text of everything: a missing label must not become a class called "nan"."""
    kinds = {
        int if isinstance(label, np.integer) else str if isinstance(label, str) else type(label) for label in labels
    }
    if kinds == {int, str}:
        raise ValueError("labels should be all integers or all strings, but got both")
    wrong = sorted(kind.__name__ for kind in kinds - {int, str})
    if wrong and len(kinds) > 1:
        raise ValueError(f"labels should be all integers or all strings, but got {', '.join(wrong)} among them")


# What a misspelt argument of the learner's could be meant as, beside an option.
LEARNER_ARGUMENTS = (
    "classes", "image_shape", "memory", "sampler", "trainer", "recipe", "network", "device", "precision", "graphs",
    "seed", "grow", "hint",
)  # fmt: skip


def as_classes(classes: int | Iterable[Label] | None) -> list[Label]:
    """Class labels without repeats: from a number (0 to n - 1), a list, or nothing."""
    if classes is None:
        return []
    if isinstance(classes, str):
        raise ValueError(f"classes should be a list of labels, but got the single word {classes!r}")
    if is_whole(classes) and classes >= 1:
        return list(range(classes))
    if not isinstance(classes, Iterable) or getattr(classes, "ndim", 1) == 0:
        raise ValueError(f"classes should be a positive whole number or a list of labels, but got {classes!r}")
    found = [c.item() if isinstance(c, np.generic) else c for c in classes]
    if not found:
        raise ValueError("classes should name at least one class; leave it out to let classes grow")
    _check_labels(found)
    if len(set(found)) < len(found):
        raise ValueError("classes should not name a class twice")
    _check_names(found)
    return found


def _check_labels(labels: Sequence[Hashable], what: str = "classes") -> None:
    kinds = {type(label) for label in labels}
    if kinds and kinds not in ({int}, {str}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"{what} should be all integers or all strings, but got {names}")


def new_classes(labels: list[Label], classes: list[Label], grow: bool) -> list[Label]:
    """Labels that are not among the classes yet, in order of appearance; an error if there may be none."""
    known = set(classes)
    unknown = list(dict.fromkeys(label for label in labels if label not in known))
    if not grow:
        check_known(labels, classes, "make the learner with grow=True to accept new classes")
    _check_labels(unknown, "new labels")
    if classes and unknown and type(classes[0]) is not type(unknown[0]):
        kinds = [type(each[0]).__name__ for each in (classes, unknown)]
        raise ValueError(f"labels should be of the kind of the classes, {kinds[0]}, but got {kinds[1]}: {unknown[0]!r}")
    _check_names(unknown)
    return unknown


def _check_names(new: Sequence[Label]) -> None:
    if any(isinstance(label, str) and not label.strip() for label in new):
        raise ValueError("a new class should have a name, but got a label of nothing or spaces alone")


def check_known(labels: Iterable[Label], classes: list[Label], advice: str) -> None:
    """An error, which ends with the advice, where a label is not among the classes."""
    known = set(classes)
    for label in labels:
        if label not in known:
            shown = ", ".join(map(repr, classes[:12])) + (", ..." if len(classes) > 12 else "")
            raise ValueError(f"labels should be among the classes {shown or '(none yet)'}, but got {label!r}; {advice}")


def numbered(labels: Iterable[Label], classes: list[Label]) -> list[int]:
    """Class ids of labels that are among the classes."""
    numbers = {label: i for i, label in enumerate(classes)}
    return [numbers[label] for label in labels]


def as_epochs(epochs: Any) -> int | None:
    """A number of epochs, or None: as many as the options say."""
    if epochs is not None and (not is_whole(epochs) or epochs < 1):
        raise ValueError(f"epochs should be a whole number, at least 1, but got {epochs!r}")
    return None if epochs is None else int(epochs)


def as_seconds(seconds: Any) -> float | None:
    """A time to spend, or None: as long as it takes."""
    number = isinstance(seconds, int | float | np.integer | np.floating) and not isinstance(seconds, bool)
    if seconds is not None and not (number and 0 < seconds < math.inf):
        raise ValueError(f"seconds should be a number above 0, or None for as long as it takes, but got {seconds!r}")
    return None if seconds is None else float(seconds)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is an integer, Python's or NumPy's; True would count as 1."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_memory(memory: Any) -> int:
    """How many samples a memory holds."""
    if not is_whole(memory) or memory < 1:
        raise ValueError(f"memory should be a whole number, at least 1 sample, but got {memory!r}")
    return int(memory)


def as_seed(seed: Any) -> int:
    if not is_whole(seed) or seed < 0:
        raise ValueError(f"seed should be a whole number, at least 0, but got {seed!r}")
    return int(seed)


def as_corrections(
    labels: Mapping[Any, Label], classes: list[Label], seen: int, grow: bool, ids: Mapping[int, SourceId] | None = None
) -> dict[int, int]:
    """Class ids of labels by arrival; an error where a class is not known or nothing has arrived so.

    With `ids`, those of the caller's by arrival that are held, the labels came by these.
    """
    if ids is None:
        _check_is_dict(labels, "arrival", 17)
        _check_arrivals(labels, seen)
        return {int(arrival): number for arrival, number in _corrected(labels, classes, grow).items()}
    _check_is_dict(labels, "id", "photo-17.png")
    numbers = _corrected({_plain_id(key): label for key, label in labels.items()}, classes, grow)
    return {arrival: numbers[key] for arrival, key in ids.items() if key in numbers}


def as_arrivals(samples: Any, seen: int, ids: Mapping[int, SourceId] | None = None) -> list[int]:
    """Arrivals of samples, given as such; or with `ids`, those of the caller's by arrival that are held, by these."""
    expected = "whole numbers, as `audit` tells them" if ids is None else "strings or integers"
    found = _listed(samples, "arrivals" if ids is None else "ids", f"a list or set of {expected}", (set, frozenset))
    if ids is None:
        _check_arrivals(found, seen)
        return [int(arrival) for arrival in found]
    named = {_plain_id(each) for each in found}
    return [arrival for arrival, key in ids.items() if key in named]


def _corrected(labels: Mapping[Any, Label], classes: list[Label], grow: bool) -> dict[Any, int]:
    """Class ids of labels that correct others, by the keys that they came with."""
    for key, label in labels.items():
        if not _is_label(label):  # True would be class 1, and 3.0 class 3
            raise ValueError(
                f"the label of a correction should be an integer or a string, but got {label!r} for {key!r}"
            )
    advice = "a correction adds no class" + (": observe an image of it first" if grow else "")
    check_known(labels.values(), classes, advice)
    return dict(zip(labels, numbered(labels.values(), classes), strict=True))


def _check_is_dict(labels: object, what: str, example: object) -> None:
    if not isinstance(labels, Mapping):
        raise ValueError(
            f"corrections should be a dict of {what}: label, such as {{{example!r}: 'dog'}}, but got a "
            f"{type(labels).__name__}"
        )


def _check_arrivals(arrivals: Collection[object], seen: int) -> None:
    if arrivals and not seen:
        raise ValueError("nothing was observed yet: there is no sample whose label could be corrected")
    for arrival in arrivals:
        if not is_whole(arrival):
            raise ValueError(f"arrivals should be whole numbers, as `audit` tells them, but got {arrival!r}")
        if not 0 <= arrival < seen:
            raise ValueError(f"arrivals should be from 0 to {seen - 1}, as seen so far, but got {arrival!r}")


def as_image_shape(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """(height, width, channels) of the images a learner is made for."""
    whole = isinstance(shape, tuple | list) and len(shape) == 3 and all(map(is_whole, shape))
    if not whole or shape[2] not in (1, 3) or min(shape[:2]) < 4:
        raise ValueError(
            f"image_shape should be (height, width, channels) with at least 4 px and 1 or 3 channels, but got {shape}"
        )
    height, width, channels = (int(n) for n in shape)
    return height, width, channels


def member(registry: dict[str, Any], family: str, name: str) -> Any:
    """What a registry has under a name, or a ValueError that says what there is."""
    if name not in registry:
        raise ValueError(
            f"{family} should be one of {', '.join(sorted(registry))}, but got {name!r} "
            "(one of your own needs its plugin: docs/METHODS.md)"
        )
    return registry[name]
