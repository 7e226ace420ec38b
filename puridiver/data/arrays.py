"""A data source from your own arrays, in memory or in an .npz file."""

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
from puridiver.data.images import image_batch
from puridiver.errors import DataError, few, first_line
from puridiver.files import open_regular
from puridiver.learner import datasets, inputs

TRAIN_KEYS, TEST_KEYS = ("train_images", "train_labels"), ("test_images", "test_labels")
TRUE_KEY, TIMES_KEY, NAMES_KEY = "train_true_labels", "train_times", "class_names"
# A file may unpack to the first limit, or to so many times its own size. Zip packs zeros 1000 : 1.
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

    Images are (N, H, W), (N, H, W, 1 or 3) or (N, 1 or 3, H, W), uint8 or floats from 0 to 1; or they are vectors,
    floats (N, d). Labels are (N,) class ids from 0; those of the train part count as true. Without `class_names` the
    classes are called "0", "1", ... up to the largest label.
    """
    limit = inputs.MOST_CLASSES if class_names is None else len(class_names)
    train, test = _part("train", train_images, train_labels, limit), _part("test", test_images, test_labels, limit)
    if not len(train) or train.images.shape[1:] != test.images.shape[1:]:
        shapes = f"{tuple(train.images.shape)} and {tuple(test.images.shape)}"
        raise ValueError(f"there should be train images, and test images of the same shape, but got {shapes}")
    largest = int(torch.cat([train.labels, test.labels]).max())
    names = tuple(map(str, range(largest + 1)) if class_names is None else class_names)
    base.check_class_names(names)
    return DataSource(name, names, train, test)


def from_dataset(
    train: Any,
    test: Any,
    keys: Sequence[str] = datasets.KEYS,
    input_shape: tuple[int, ...] | None = None,
    class_names: Sequence[str] | None = None,
    name: str = "dataset",
) -> DataSource:
    """A data source from torch Datasets or DataLoaders or Hugging Face Datasets, read once and held in memory.

    Items are (image, label) or dicts with these `keys`; labels are class ids, and those of the train part count as
    true. Images keep their size and stay grey or RGB, unless `input_shape` asks for another (`image_batch`).
    """
    parts = []
    for source in (train, test):
        if input_shape is None:
            parts.append(datasets.collected(source, keys))
        else:
            pictures, labels = zip(*datasets.items(source, keys), strict=True)
            parts.append((image_batch(pictures, input_shape), list(labels)))
    names = class_names or datasets.class_names(train, keys)
    return from_arrays(*parts[0], *parts[1], class_names=names, name=name)


def _part(part: str, images: Any, labels: Any, limit: int) -> ImageSet:
    """Images as uint8 (N, H, W, C), or vectors as float32 (N, d), with N class ids below a limit."""
    if isinstance(images, Tensor):
        inputs.check_dense(images, f"{part}_images")
        images = images.float() if images.is_floating_point() else images
    try:
        shape = inputs.shape_of(images)
        kind = torch.float32 if len(shape) == 1 else torch.uint8
        pixels = inputs.as_batch(images, shape) if len(images) else torch.zeros((0, *shape), dtype=kind)
    except ValueError as error:  # which begins with "images"
        raise ValueError(f"{part}_{error}") from error
    return ImageSet(pixels.cpu().clone(), class_ids(labels, len(pixels), range(limit), f"{part}_labels"))


def class_ids(labels: Any, n: int, allowed: range, what: str) -> Tensor:
    """Class ids, int64 (N,)."""
    found = inputs.as_labels(labels, n, what)
    if wrong := [label for label in found if label not in allowed]:
        wanted = f"class ids from {allowed.start} to {allowed.stop - 1}"
        raise ValueError(f"{what} should be {wanted}, but there is {str(wrong[0])[:40]!r}")
    return torch.tensor(found, dtype=torch.int64)


def load_npz(path: Path, test_share: float | None = None) -> DataSource:
    """The arrays of `from_arrays` from an .npz file with the same names; pickled objects are refused.

    A `test_share` of each class (0: none) makes a test part where the file has none. True labels are unknown, unless
    the file has `train_true_labels` (-1: unknown). `train_times`, numbers, allow a stream in the order of time.
    """
    arrays = read_arrays(path, TRAIN_KEYS, (*TEST_KEYS, TRUE_KEY, TIMES_KEY, NAMES_KEY))
    base.check_test_share(path, set(TEST_KEYS) <= set(arrays), test_share)
    for key, train_key in zip(TEST_KEYS, TRAIN_KEYS, strict=True):
        arrays.setdefault(key, np.atleast_1d(arrays[train_key])[:0])
    names, told, times = (arrays.pop(key, None) for key in (NAMES_KEY, TRUE_KEY, TIMES_KEY))
    try:
        source = from_arrays(**arrays, class_names=None if names is None else [*map(str, names)], name=path.stem)
        known, n = range(UNKNOWN, len(source.class_names)), len(source.train)
        true = class_ids([UNKNOWN] * n if told is None else told, n, known, TRUE_KEY)
        train, test = replace(source.train, true=true, times=_times(times, n)), source.test
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} does not hold usable arrays: {error}") from error
    if test_share:
        is_test = torch.from_numpy(base.choose_test_rows(train.labels.numpy(), test_share))
        train, test = train.part(~is_test), train.part(is_test).to_test_on()
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
