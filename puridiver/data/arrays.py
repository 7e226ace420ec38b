"""A data source from your own arrays, in memory or in an .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver.data import base
from puridiver.data.base import UNKNOWN, DataSource, ImageSet
from puridiver.errors import DataError, few, first_line
from puridiver.files import open_regular
from puridiver.learner import inputs
from puridiver.learner.inputs import Label

TRAIN_KEYS, TEST_KEYS = ("train_images", "train_labels"), ("test_images", "test_labels")
TRUE_KEY, TIMES_KEY, NAMES_KEY = "train_true_labels", "train_times", "class_names"
MOST_UNSEEN = 1000  # classes below the largest label without a sample; beyond it the label is a mistake
# What a file may unpack to: above the first limit no more than so many times its own size. Zip packs zeros 1000 : 1.
UNPACKED_BYTES, UNPACKED_TIMES = 256 << 20, 100


def from_arrays(
    train_images: Any,
    train_labels: Any,
    test_images: Any,
    test_labels: Any,
    class_names: Sequence[str] | None = None,
    name: str = "arrays",
) -> DataSource:
    """A data source from NumPy arrays or tensors, which are copied.

    Images are (N, H, W) or (N, H, W, 1 or 3), uint8 or floats from 0 to 1. Labels are (N,) class ids from 0, or names
    of classes; those of the train part count as true. Without `class_names` the classes are called "0", "1", ... up to
    the largest label, or by the names that occur.
    """
    pixels, given = _part(train_images, train_labels, "train")
    test_pixels, test_given = _part(test_images, test_labels, "test")
    if not len(pixels) or pixels.shape[1:] != test_pixels.shape[1:]:
        shapes = f"{tuple(pixels.shape)} and {tuple(test_pixels.shape)}"
        raise ValueError(f"there should be train images, and test images of the same shape, but got {shapes}")
    names = tuple(class_names) if class_names is not None else _class_names({*given, *test_given})
    base.check_class_names(names)
    train, test = ImageSet(pixels, class_ids(given, names)), ImageSet(test_pixels, class_ids(test_given, names))
    return DataSource(name, names, train, test)


def _part(images: Any, labels: Any, part: str) -> tuple[Tensor, list[Label]]:
    """uint8 (N, H, W, C), and N labels."""
    shape = tuple(np.shape(images))
    if len(shape) not in (3, 4) or (*shape, 1)[3] not in (1, 3) or 0 in shape[1:]:
        raise ValueError(f"{part}_images should be (N, H, W) or (N, H, W, 1 or 3), none of them 0, but got {shape}")
    if isinstance(images, Tensor) and images.is_floating_point():
        images = images.float()
    image_shape = (shape[1], shape[2], (*shape, 1)[3])
    try:
        pixels = inputs.as_images(images, image_shape) if shape[0] else torch.zeros((0, *image_shape)).byte()
        return pixels.cpu().clone(), inputs.as_labels(labels, len(pixels))
    except ValueError as error:  # which begins with "images" or "labels"
        raise ValueError(f"{part}_{error}") from error


def _class_names(labels: set[Label]) -> tuple[str, ...]:
    """The names that occur, or the numbers up to the largest label."""
    if len({type(label) for label in labels}) > 1:
        raise ValueError("labels should be class ids in both parts, or class names in both, but one part has each")
    if any(isinstance(label, str) for label in labels):
        return tuple(base.natural(map(str, labels)))
    largest = max(map(int, labels))
    if largest >= len(labels) + MOST_UNSEEN:
        raise ValueError(
            f"labels should be class ids from 0, but the largest is {largest}, of {len(labels)} that occur"
        )
    return tuple(map(str, range(largest + 1)))


def class_ids(labels: list[Label], class_names: Sequence[str], missing: Sequence[Label] = ()) -> Tensor:
    """Class ids, int64 (N,), of ids or class names; UNKNOWN where a label is one of `missing`."""
    ids: dict[Label, int] = dict.fromkeys(missing, UNKNOWN)
    for label, name in enumerate(class_names):
        ids[label] = ids[name] = label
    if wrong := sorted(set(labels) - set(ids), key=str):
        known = f"class ids below {len(class_names)}, or among the class names {few(class_names)}"
        raise ValueError(f"labels should be {known}, but there is {str(wrong[0])[:40]!r}")
    return torch.tensor([ids[label] for label in labels], dtype=torch.int64)


def load_npz(path: Path, test_share: float | None = None, trust_labels: bool = False) -> DataSource:
    """The arrays of `from_arrays` from an .npz file with the same names; pickled objects are refused.

    A `test_share` of each class (0: none) makes a test part where the file has none. True labels are unknown, unless
    the file has `train_true_labels` (-1 or empty: unknown) or the user trusts the labels. `train_times`, numbers, allow
    a stream in the order of time.
    """
    arrays = read_arrays(path, TRAIN_KEYS, (*TEST_KEYS, TRUE_KEY, TIMES_KEY, NAMES_KEY))
    if not set(TEST_KEYS) <= set(arrays):
        if test_share is None:
            wanted = " and ".join(TEST_KEYS)
            raise DataError(f"{path} should hold {wanted}; --test-share 0.2 makes them of the train part")
        arrays |= {key: arrays[train][:0] for key, train in zip(TEST_KEYS, TRAIN_KEYS, strict=True)}
    elif test_share:
        raise ValueError(f"{path} has a test part of its own: leave the test share out")
    names, true, times = (arrays.pop(key, None) for key in (NAMES_KEY, TRUE_KEY, TIMES_KEY))
    try:
        source = from_arrays(**arrays, class_names=None if names is None else [*map(str, names)], name=path.stem)
        n = len(source.train)
        known: list[Label] = [UNKNOWN] * n if true is None else inputs.as_labels(true, n)
        truth = class_ids(known, source.class_names, (UNKNOWN, ""))
        train, test = replace(source.train, true=truth, times=_times(times, n)), source.test
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} does not hold usable arrays: {error}") from error
    if test_share:
        is_test = torch.from_numpy(base.choose_test_rows(train.labels.numpy(), test_share))
        images, labels, truth, when = train.images, train.labels, train.true_labels, train.times
        train, test = (
            ImageSet(images[rows], labels[rows], truth[rows], None if when is None else when[rows])
            for rows in (~is_test, is_test)
        )
        test = (test.trusted() if trust_labels else test).to_test_on()
    train = train.trusted() if trust_labels else train
    return replace(source, train=train, test=test, defaults=base.own_defaults(train.labels))


def _times(times: np.ndarray | None, n: int) -> Tensor | None:
    """When each of n images was taken, float64 (N,), for streams in the order of time."""
    if times is None:
        return None
    found = np.asarray(times, dtype=np.float64)
    if found.shape != (n,) or not np.isfinite(found).all():
        raise ValueError(f"{TIMES_KEY} should be {n} finite numbers, one for each train image, but got {found.shape}")
    return torch.from_numpy(found)


def read_arrays(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """The required arrays of an .npz file, and the optional ones that are there.

    Files may come from anybody: no pickles, regular files only, no more memory than the file deserves.
    """
    if not path.exists():
        raise DataError(f"there is no file {path}")
    with open_regular(path) as file:
        try:
            members = {m.filename.removesuffix(".npy"): m for m in zipfile.ZipFile(file).infolist()}
            wanted = [name for name in members if name in (*required, *optional)]
            unpacked = sum(members[name].file_size for name in wanted)
            packed = sum(members[name].compress_size for name in wanted)
            if unpacked > max(UNPACKED_BYTES, UNPACKED_TIMES * packed):
                raise ValueError(f"a decompression bomb, {packed:,} bytes that unpack to {unpacked:,}")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                found = {name: archive[name] for name in wanted}
        except Exception as error:  # zipfile and NumPy raise nearly everything at damaged bytes
            raise DataError(f"{path} is not a file of plain arrays, or is damaged: {first_line(error)}") from error
    if set(required) - set(found):
        raise DataError(f"{path} should hold {', '.join(required)}, but holds {few(members)}")
    return found
