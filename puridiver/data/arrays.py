"""A data source from arrays of your own, in memory or in an .npz file."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from puridiver.data.base import UNKNOWN, DataSource, ImageSet, suited_tasks
from puridiver.data.damage import DAMAGE
from puridiver.data.listing import natural, test_rows
from puridiver.errors import DataError, few

Array = np.ndarray | Tensor

TRAIN_KEYS, TEST_KEYS = ("train_images", "train_labels"), ("test_images", "test_labels")
REQUIRED_KEYS = (*TRAIN_KEYS, *TEST_KEYS)
MOST_CLASSES = 100_000  # a larger id is a mistake, and a class for each number below it would fill the memory
TRUE_KEY, NAMES_KEY = "train_true_labels", "class_names"
OPTIONAL_KEYS = (TRUE_KEY, NAMES_KEY)


def from_arrays(
    train_images: Array,
    train_labels: Array,
    test_images: Array,
    test_labels: Array,
    class_names: Sequence[str] | None = None,
    name: str = "arrays",
) -> DataSource:
    """A data source from NumPy arrays or tensors, which are copied.

    Parameters
    ----------
    train_images, test_images
        (N, H, W) or (N, H, W, 1 or 3); uint8, or floats from 0 to 1.
    train_labels, test_labels
        (N,) class ids from 0, or names of classes. Those of the train part count as true.
    class_names
        One for each class. If left out, "0", "1", ... up to the largest label, or the names that occur.
    """
    if class_names is None:
        class_names = _names_that_occur(train_labels, test_labels)
    train = _image_set(train_images, _numbered(train_labels, class_names), "train")
    test = _image_set(test_images, _numbered(test_labels, class_names), "test")
    if train.images.shape[1:] != test.images.shape[1:]:
        raise ValueError(
            "train_images and test_images should have the same (height, width, channels), "
            f"but got {tuple(train.images.shape[1:])} and {tuple(test.images.shape[1:])}"
        )
    largest = int(max(train.labels.max(), test.labels.max()))
    return DataSource(name=name, class_names=_names(class_names, largest), train=train, test=test)


def load_npz(
    path: Path, needs_test: bool = True, test_share: float | None = None, trust_labels: bool = False
) -> DataSource:
    """The arrays of `from_arrays` from an .npz file with the same names; pickled objects are refused.

    Where no test part is needed, a file without one gives a source whose test part is empty; a `test_share` of each
    class makes one. Nobody knows which of the labels are true, unless the file has `train_true_labels` (-1 where they
    are not known) or they are trusted. So they pass as they came: no noise is added unless asked for.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not an .npz file; it should be one with the keys {_expected_keys()}")
    try:
        arrays = _read(path, REQUIRED_KEYS if needs_test and test_share is None else TRAIN_KEYS)
    except DAMAGE as error:
        raise DataError(f"{path} cannot be read without unpickling, or is damaged: {error}") from error
    if test_share and set(TEST_KEYS) <= set(arrays):
        raise ValueError(f"{path} has a test part of its own: leave the test share out")
    true = arrays.pop(TRUE_KEY, None)
    try:
        names = _text(arrays.pop(NAMES_KEY, None))
        if set(TEST_KEYS) <= set(arrays):
            source = from_arrays(**arrays, class_names=names, name=path.stem)
        else:
            source = _without_test(arrays, names, path.stem)
        source = replace(source, train=_with_truth(source, true, trust_labels))
    except ValueError as error:
        raise DataError(f"{path} does not hold usable arrays: {error}") from error
    source = _split_off_test(source, test_share) if test_share else source
    return replace(source, defaults={"noise": "none", "tasks": suited_tasks(source.train.labels.numpy())})


def _without_test(arrays: dict[str, np.ndarray], class_names: Sequence[str] | None, name: str) -> DataSource:
    labels = arrays["train_labels"]
    known = _names_that_occur(labels) if class_names is None else class_names
    train = _image_set(arrays["train_images"], _numbered(labels, known), "train")
    names = _names(known, int(train.labels.max()))
    return DataSource(name=name, class_names=names, train=train, test=ImageSet(train.images[:0], train.labels[:0]))


def _with_truth(source: DataSource, true: np.ndarray | None, trust_labels: bool) -> ImageSet:
    """The train part, with true labels where they are known."""
    n_classes, count = len(source.class_names), len(source.train)
    ids = np.full(count, UNKNOWN) if true is None else _numbered(true, (*source.class_names, ""))
    if true is not None and true.dtype.kind == "U":
        ids = np.where(ids == n_classes, UNKNOWN, ids)  # no name: nobody knows
    if ids.dtype.kind not in "iu" or ids.shape != (count,) or not ((ids >= UNKNOWN) & (ids < n_classes)).all():
        raise ValueError(
            f"{TRUE_KEY} should be {count} class ids below {n_classes}, {UNKNOWN} where nobody knows, or class names, "
            f"empty where nobody knows, but got {ids.dtype} of shape {ids.shape}"
        )
    if trust_labels and (ids == UNKNOWN).all():
        return source.train
    return replace(source.train, true=torch.from_numpy(ids.astype(np.int64)))


def _split_off_test(source: DataSource, share: float) -> DataSource:
    """The source with a share of each class of its train part as its test part, by the best labels there are."""
    is_test = torch.from_numpy(test_rows(source.train.labels.numpy(), len(source.class_names), share))
    rest, kept = source.train.taken(~is_test), source.train.taken(is_test)
    return replace(source, train=rest, test=kept.to_test_on())


def _read(path: Path, required: Sequence[str]) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        found = sorted(archive.files)
        half = len(set(TEST_KEYS) & set(found)) == 1
        if half or not set(required) <= set(found):
            expected = _expected_keys(REQUIRED_KEYS if half else required)
            share = (
                "; `puridiver run --test-share 0.2` makes a test part of the train images, `puridiver audit` needs none"
                if not set(TEST_KEYS) & set(found)
                else ""
            )
            raise DataError(f"{path} should hold the keys {expected}, but holds {', '.join(found) or 'none'}{share}")
        return {key: archive[key] for key in (*REQUIRED_KEYS, *OPTIONAL_KEYS) if key in found}


def _expected_keys(required: Sequence[str] = REQUIRED_KEYS) -> str:
    return f"{', '.join(required)} and optionally {' and '.join(OPTIONAL_KEYS)}"


def _names_that_occur(*labels: Array) -> list[str] | None:
    """The names of classes among labels that are text, in order; None where they are numbers."""
    texts = [_as_numpy(part) for part in labels]
    if all(part.dtype.kind != "U" for part in texts):
        return None
    if any(part.dtype.kind != "U" for part in texts):
        raise ValueError("labels should be class ids in both parts, or class names in both, but one part has each")
    names = natural(list({str(name) for part in texts for name in part.ravel()}))
    if not all(name.strip() for name in names):
        raise ValueError("labels should be class names, but some are empty")
    return names


def _numbered(labels: Array, names: Sequence[str] | None) -> np.ndarray:
    """Labels as class ids, where they are names of classes."""
    found = _as_numpy(labels)
    if found.dtype.kind != "U" or names is None:
        return found
    ids = {name: number for number, name in enumerate(names)}
    unknown = sorted({str(label) for label in found.ravel()} - set(ids))
    if unknown:
        raise ValueError(f"labels should be among the class names {few(ids)}, but there is {unknown[0]!r}")
    return np.array([ids[str(label)] for label in found.ravel()], dtype=np.int64).reshape(found.shape)


def _text(names: np.ndarray | None) -> list[str] | None:
    if names is None:
        return None
    if names.dtype.kind != "U" or names.ndim != 1:
        raise ValueError(
            f"class_names should be text of shape (classes,), but got {names.dtype} of shape {names.shape}"
        )
    return [str(name) for name in names]


def _image_set(images: Array, labels: Array, part: str) -> ImageSet:
    pixels = _pixels(_as_numpy(images), f"{part}_images")
    ids = _class_ids(_as_numpy(labels), len(pixels), f"{part}_labels")
    return ImageSet(torch.from_numpy(pixels), torch.from_numpy(ids))


def _as_numpy(array: Array) -> np.ndarray:
    if not isinstance(array, Tensor):
        return np.asarray(array)
    array = array.detach().cpu()
    return array.float().numpy() if array.dtype == torch.bfloat16 else array.numpy()  # NumPy knows no bfloat16


def _pixels(images: np.ndarray, what: str) -> np.ndarray:
    """A uint8 copy of shape (N, H, W, C)."""
    shaped = images[..., None] if images.ndim == 3 else images
    if shaped.ndim != 4 or shaped.shape[3] not in (1, 3) or 0 in shaped.shape:
        raise ValueError(f"{what} should have the shape (N, H, W) or (N, H, W, 1 or 3), none 0, but got {images.shape}")
    if shaped.dtype == np.uint8:
        return shaped.copy(order="C")
    if shaped.dtype.kind != "f":
        raise ValueError(f"{what} should be uint8, or floats from 0 to 1, but got {shaped.dtype}")
    low, high = shaped.min(), shaped.max()
    if not (low >= 0 and high <= 1):  # also true of NaN
        raise ValueError(f"{what} as floats should be finite, from 0 to 1, but go from {low:g} to {high:g}")
    return np.ascontiguousarray(np.rint(shaped.astype(np.float32) * 255).astype(np.uint8))


def _class_ids(labels: np.ndarray, count: int, what: str) -> np.ndarray:
    """An int64 copy."""
    if labels.dtype.kind not in "iu" or labels.shape != (count,):
        raise ValueError(
            f"{what} should be integers of shape ({count},), but got {labels.dtype} of shape {labels.shape}"
        )
    if labels.min() < 0:
        raise ValueError(f"{what} should be class ids from 0, but the smallest is {labels.min()}")
    if labels.max() > MOST_CLASSES:
        raise ValueError(
            f"{what} should be class ids from 0, but the largest is {labels.max()}, of {len(np.unique(labels))} that "
            "occur: number the classes from 0, or give their names as labels"
        )
    return labels.astype(np.int64)


def _names(class_names: Sequence[str] | None, largest: int) -> tuple[str, ...]:
    if class_names is None:
        return tuple(str(label) for label in range(largest + 1))
    names = tuple(class_names)
    if len(names) <= largest:
        raise ValueError(
            f"labels should be from 0 to {len(names) - 1}, as there are {len(names)} class_names, "
            f"but the largest is {largest}"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"class_names should all differ, but more than one is called {few(twice)}")
    return names
