"""Images and the labels their source gives them: embedded digits, CIFAR, or arrays of your own."""

from puridiver.data.archive import unpack
from puridiver.data.arrays import from_arrays, load_npz
from puridiver.data.base import DataSource, ImageSet
from puridiver.data.download import fetch
from puridiver.data.sources import SOURCES, Archive, Source, default_root, fetch_source, find, load, verify

__all__ = [
    "SOURCES",
    "Archive",
    "DataSource",
    "ImageSet",
    "Source",
    "default_root",
    "fetch",
    "fetch_source",
    "find",
    "from_arrays",
    "load",
    "load_npz",
    "unpack",
    "verify",
]
