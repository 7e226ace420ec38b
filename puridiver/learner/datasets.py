"""Samples from a torch Dataset or DataLoader, a Hugging Face Dataset, or anything that iterates over such items.

An item is (image, label, ...) or a dict. An image is a tensor, an array or a Pillow picture (grey or RGB). A vector may
stand in its place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from puridiver.errors import few

KEYS = ("image", "label")  # of dicts


def batches(source: Any, size: int, keys: Sequence[str] = KEYS) -> Iterator[tuple[Any, list[Any]]]:
    """Images and labels: the batches of a DataLoader as they come, of other sources `size` items at a time."""
    if _is_batched(source):
        for found in source:
            images, labels = _pair(found, keys)
            yield images, labels.tolist() if isinstance(labels, Tensor | np.ndarray) else list(labels)
        return
    each = items(source, keys)
    while part := list(islice(each, size)):
        yield _stacked([image for image, _ in part]), [label for _, label in part]


def items(source: Any, keys: Sequence[str] = KEYS) -> Iterator[tuple[Any, Any]]:
    """Each image as it comes, with its label."""
    is_array = isinstance(source, Tensor | np.ndarray | list | tuple | str | bytes) or hasattr(source, "__array__")
    has_items = hasattr(source, "__iter__") or (hasattr(source, "__getitem__") and hasattr(source, "__len__"))
    if is_array or not has_items:
        raise ValueError(
            "source should be a torch Dataset or DataLoader, a Hugging Face Dataset or an iterable of (image, label), "
            f"but got a {type(source).__name__}"
        )
    if _is_batched(source):
        for images, labels in batches(source, 1, keys):
            yield from zip(images, labels, strict=True)
        return
    for item in source if hasattr(source, "__iter__") else map(source.__getitem__, range(len(source))):
        image, label = _pair(item, keys)
        yield image, label.item() if isinstance(label, Tensor | np.generic) else label


def _is_batched(source: object) -> bool:
    return isinstance(source, DataLoader) and source.batch_sampler is not None


def collected(source: Any, keys: Sequence[str] = KEYS) -> tuple[Any, list[Any]]:
    """All images of a source as one array or tensor, and their labels."""
    found, labels = [], list[Any]()
    for images, given in batches(source, 1024, keys):
        found.append(torch.as_tensor(images))
        labels += given
    if not found:
        raise ValueError("the source is empty: it should hold at least one item")
    _check_alike([part[0] for part in found])
    return torch.cat(found), labels


def class_names(source: Any, keys: Sequence[str] = KEYS) -> list[str] | None:
    """The class names that a Hugging Face Dataset, or a torchvision one (`classes`), has."""
    features = getattr(source, "features", None)
    if isinstance(features, Mapping) and keys[1] in features:
        return getattr(features[keys[1]], "names", None)
    names = getattr(source, "classes", None)
    return list(map(str, names)) if isinstance(names, Iterable) and not isinstance(names, str) else None


def _pair(item: Any, keys: Sequence[str]) -> tuple[Any, Any]:
    if isinstance(item, Mapping):
        if missing := [key for key in keys if key not in item]:
            raise ValueError(f"an item should have {' and '.join(keys)}, but {missing[0]} is not among {few(item)}: "
                             'say keys=("image", "label") with the names that it has')  # fmt: skip
        return item[keys[0]], item[keys[1]]
    if isinstance(item, Sequence) and len(item) >= 2:
        return item[0], item[1]
    raise ValueError(f"an item should be (image, label) or a dict of them, but is a {type(item).__name__}")


def _stacked(images: list[Any]) -> Any:
    """One array or tensor."""
    found: list[Any] = [image if isinstance(image, Tensor) else _array(image) for image in images]
    _check_alike(found)
    return torch.stack(found) if isinstance(found[0], Tensor) else np.stack(found)


def _array(image: Any) -> np.ndarray:
    if getattr(image, "mode", "L") not in ("L", "RGB"):
        raise ValueError(f"a picture should be grey (L) or RGB, but is {image.mode}: convert it first")
    return np.asarray(image)


def _check_alike(found: Sequence[Any]) -> None:
    kinds = {(type(one), one.dtype, tuple(one.shape)) for one in found}
    if len(kinds) > 1:
        shapes = few(sorted({str(tuple(one.shape)) for one in found}))
        raise ValueError(f"images of a source should be all of one kind and shape, but got {shapes}: resize them first")
