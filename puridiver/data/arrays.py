"""A data source from arrays of your own, in memory or in an .npz file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from puridiver.data.base import UNKNOWN, DataSource, ImageSet, check_class_names, suited_tasks
from puridiver.data.listing import natural, test_rows
from puridiver.data.numpy_files import read_arrays
from puridiver.errors import DataError, few

Array = np.ndarray | Tensor | Sequence[str]

TRAIN_KEYS, TEST_KEYS = ("train_images", "train_labels"), ("test_images", "test_labels")
TRUE_KEY, NAMES_KEY = "train_true_labels", "class_names"
MOST_UNSEEN = 1000  # classes below the largest label of which no sample is there; beyond it the label is a mistake
CHUNK = 256  # images that are converted at a time


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
    names = _class_names(class_names, _as_labels(train_labels, "train"), _as_labels(test_labels, "test"))
    train = _image_set(train_images, train_labels, names, "train")
    test = _image_set(test_images, test_labels, names, "test")
    if not len(train):
        raise ValueError("train_images should hold at least one image, but hold none")
    if train.images.shape[1:] != test.images.shape[1:]:
        raise ValueError(
            "train_images and test_images should have the same (height, width, channels), "
            f"but got {tuple(train.images.shape[1:])} and {tuple(test.images.shape[1:])}"
        )
    return DataSource(name=name, class_names=names, train=train, test=test)


def load_npz(
    path: Path, needs_test: bool = True, test_share: float | None = None, trust_labels: bool = False
) -> DataSource:
    """The arrays of `from_arrays` from an .npz file with the same names; pickled objects are refused.

    Where no test part is needed, a file without one gives a source whose test part is empty; a `test_share` of each
    class makes one. Nobody knows which of the labels are true, unless the file has `train_true_labels` (-1 where they
    are not known) or they are trusted. So they pass as they came: no noise is added unless asked for.
    """
    path = Path(path)
    arrays = read_arrays(path, TRAIN_KEYS, (*TEST_KEYS, TRUE_KEY, NAMES_KEY))
    has_test = set(TEST_KEYS) <= set(arrays)
    if needs_test and not has_test and test_share is None:
        raise DataError(
            f"{path} should hold {' and '.join(TEST_KEYS)}; --test-share 0.2 makes them of the train images"
        )
    if test_share and has_test:
        raise ValueError(f"{path} has a test part of its own: leave the test share out")
    true, names = arrays.pop(TRUE_KEY, None), arrays.pop(NAMES_KEY, None)
    try:
        if names is not None and (names.dtype.kind != "U" or names.ndim != 1):
            raise ValueError(f"class_names should be text of shape (classes,), but got {names.dtype}, {names.shape}")
        class_names = None if names is None else names.tolist()
        if not has_test:
            shape = arrays["train_images"].shape[1:]
            arrays |= {"test_images": np.zeros((0, *shape), np.uint8), "test_labels": arrays["train_labels"][:0]}
        source = from_arrays(**arrays, class_names=class_names, name=path.stem)
        source = replace(source, train=_with_truth(source, true, trust_labels))
    except ValueError as error:
        raise DataError(f"{path} does not hold usable arrays: {error}") from error
    if test_share:
        is_test = torch.from_numpy(test_rows(source.train.labels.numpy(), len(source.class_names), test_share))
        source = replace(source, train=source.train.taken(~is_test), test=source.train.taken(is_test).to_test_on())
    return replace(source, defaults={"noise": "none", "tasks": suited_tasks(source.train.labels.numpy())})


def _with_truth(source: DataSource, true: np.ndarray | None, trust_labels: bool) -> ImageSet:
    """The train part, with true labels where they are known."""
    count, n_classes = len(source.train), len(source.class_names)
    if true is None:
        ids = np.full(count, UNKNOWN)
    elif true.dtype.kind == "U":
        ids = _ids_of_names(true.tolist(), {"": UNKNOWN, **{name: i for i, name in enumerate(source.class_names)}})
    else:
        ids = true
    if ids.dtype.kind not in "iu" or ids.shape != (count,) or not ((ids >= UNKNOWN) & (ids < n_classes)).all():
        raise ValueError(
            f"{TRUE_KEY} should be {count} class ids below {n_classes}, {UNKNOWN} where nobody knows, or class names, "
            f"empty where nobody knows, but got {ids.dtype} of shape {ids.shape}"
        )
    if trust_labels and (ids == UNKNOWN).all():
        return source.train
    return replace(source.train, true=torch.from_numpy(ids.astype(np.int64)))


def _as_labels(labels: Array, part: str) -> np.ndarray:
    """Class ids (integers), or names as an array of Python's own text."""
    if isinstance(labels, np.ma.MaskedArray):
        raise ValueError(f"{part}_labels should not be a masked array: leave out the samples without a label")
    found = _as_numpy(labels) if isinstance(labels, np.ndarray | Tensor) else np.array(labels, dtype=object)
    if found.dtype.kind == "U":
        found = found.astype(object)
    elif found.dtype.kind == "O" and not all(isinstance(label, str) for label in found.ravel()):
        found = np.asarray(found.tolist())
    if found.ndim != 1 or found.dtype.kind not in "iuO":
        raise ValueError(
            f"{part}_labels should be integers or class names of shape (N,), but got {found.dtype} of shape "
            f"{found.shape}"
        )
    return found


def _class_names(class_names: Sequence[str] | None, *labels: np.ndarray) -> tuple[str, ...]:
    """One name for each class: those that are given, or those that occur, or the numbers up to the largest label."""
    kinds = {part.dtype.kind == "O" for part in labels if len(part)}
    if len(kinds) > 1:
        raise ValueError("labels should be class ids in both parts, or class names in both, but one part has each")
    if class_names is not None:
        names = tuple(class_names)
    elif True in kinds:
        names = tuple({label: None for part in labels for label in part.tolist()})
        check_class_names(names)
        names = tuple(natural(names))
    else:
        ids = {label for part in labels for label in np.unique(part).tolist()}
        if max(ids, default=0) >= max(2 * len(ids), len(ids) + MOST_UNSEEN):
            raise ValueError(
                f"labels should be class ids from 0, but the largest is {max(ids)}, of {len(ids)} that occur: number "
                "the classes from 0, or give their names as labels"
            )
        names = tuple(str(label) for label in range(max(ids, default=-1) + 1))
    check_class_names(names)
    return names


def _image_set(images: Array, labels: Array, class_names: tuple[str, ...], part: str) -> ImageSet:
    pixels, ids = _pixels(_as_numpy(images), f"{part}_images"), _as_labels(labels, part)
    if ids.dtype.kind == "O":
        ids = _ids_of_names(ids.tolist(), {name: label for label, name in enumerate(class_names)})
    if ids.shape != (len(pixels),):
        raise ValueError(f"{part}_labels should have the shape ({len(pixels)},), but got {ids.shape}")
    if len(ids) and not (ids.min() >= 0 and ids.max() < len(class_names)):
        allowed = f"from 0 to {len(class_names) - 1}"
        raise ValueError(f"{part}_labels should be class ids {allowed}, but go from {ids.min()} to {ids.max()}")
    return ImageSet(torch.from_numpy(pixels), torch.from_numpy(ids.astype(np.int64)))


def _ids_of_names(labels: list[str], ids: dict[str, int]) -> np.ndarray:
    if unknown := sorted(set(labels) - set(ids)):
        raise ValueError(f"labels should be among the class names {few(ids)}, but there is {unknown[0]!r}")
    return np.array([ids[label] for label in labels], dtype=np.int64)


def _as_numpy(array: Array) -> np.ndarray:
    if not isinstance(array, Tensor):
        return np.asarray(array)
    array = array.detach().cpu()
    return array.float().numpy() if array.dtype == torch.bfloat16 else array.numpy()  # NumPy knows no bfloat16


def _pixels(images: np.ndarray, what: str) -> np.ndarray:
    """A uint8 copy of shape (N, H, W, C)."""
    shaped = images[..., None] if images.ndim == 3 else images
    if shaped.ndim != 4 or shaped.shape[3] not in (1, 3) or 0 in shaped.shape[1:]:
        raise ValueError(f"{what} should have the shape (N, H, W) or (N, H, W, 1 or 3), none 0, but got {images.shape}")
    if shaped.dtype == np.uint8:
        return shaped.copy(order="C")
    if shaped.dtype.kind != "f":
        raise ValueError(f"{what} should be uint8, or floats from 0 to 1, but got {shaped.dtype}")
    pixels = np.empty(shaped.shape, dtype=np.uint8)
    for start in range(0, len(shaped), CHUNK):
        part = shaped[start : start + CHUNK]
        if not (part.min() >= 0 and part.max() <= 1):  # also true of NaN
            raise ValueError(
                f"{what} as floats should be finite, from 0 to 1, but some go to {part.min():g}, {part.max():g}"
            )
        pixels[start : start + CHUNK] = np.rint(part.astype(np.float32) * 255)
    return pixels
