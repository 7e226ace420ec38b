"""Images and the labels their source gives them: embedded digits, CIFAR, web images, or your own files or arrays."""

from puridiver.data.archive import unpack
from puridiver.data.arrays import from_arrays, load_npz
from puridiver.data.base import UNKNOWN, DataSource, ImageSet
from puridiver.data.download import fetch
from puridiver.data.files import FileOptions
from puridiver.data.findings import Findings, look_into
from puridiver.data.sources import (
    SOURCES,
    Archive,
    Source,
    cache_folder,
    default_root,
    fetch_source,
    find,
    load,
    verify,
)

__all__ = [
    "SOURCES",
    "UNKNOWN",
    "Archive",
    "DataSource",
    "FileOptions",
    "Findings",
    "ImageSet",
    "Source",
    "cache_folder",
    "default_root",
    "fetch",
    "fetch_source",
    "find",
    "from_arrays",
    "load",
    "load_npz",
    "look_into",
    "unpack",
    "verify",
]
