"""Images and the labels their source gives them: embedded digits, CIFAR, web images, or your own files or arrays."""

from puridiver.data.arrays import from_arrays, from_dataset, load_npz
from puridiver.data.base import UNKNOWN, DataSet, DataSource, FileOptions, ImageSet
from puridiver.data.sources import data_sets, default_root, find, load, own_kind, verify

__all__ = [
    "UNKNOWN", "DataSet", "DataSource", "FileOptions", "ImageSet", "data_sets", "default_root", "find", "from_arrays",
    "from_dataset", "load", "load_npz", "own_kind", "verify",
]  # fmt: skip
