"""Images and the labels their source gives them: embedded digits, CIFAR, web images, or your own files or arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puridiver.data.base import UNKNOWN, Archive, DataSet, DataSource, FileOptions, ImageSet
from puridiver.data.sources import SOURCES, cache_folder, default_root, fetch_source, find, load, verify

if TYPE_CHECKING:
    from puridiver.data.arrays import from_arrays, load_npz
    from puridiver.data.findings import Findings, look_into

__all__ = [
    "SOURCES",
    "UNKNOWN",
    "Archive",
    "DataSet",
    "DataSource",
    "FileOptions",
    "Findings",
    "ImageSet",
    "cache_folder",
    "default_root",
    "fetch_source",
    "find",
    "from_arrays",
    "load",
    "load_npz",
    "look_into",
    "verify",
]

# What only data of one's own need is imported when it is asked for.
_LATE = {
    "Findings": "puridiver.data.findings",
    "from_arrays": "puridiver.data.arrays",
    "load_npz": "puridiver.data.arrays",
    "look_into": "puridiver.data.findings",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_LATE[name]), name)
