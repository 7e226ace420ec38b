"""Images and the labels their source gives them: embedded digits, CIFAR, web images, or your own files or arrays."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from puridiver.data.base import UNKNOWN, Archive, DataSet, DataSource, FileOptions, ImageSet
from puridiver.data.sources import SOURCES, cache_folder, default_root, fetch_source, find, load, verify

if TYPE_CHECKING:
    from puridiver.data.arrays import from_arrays, load_npz
    from puridiver.data.findings import describe, look_into

# Only your own data need these: they are imported on demand.
_LATE = {"describe": "findings", "from_arrays": "arrays", "load_npz": "arrays", "look_into": "findings"}

__all__ = [
    "SOURCES", "UNKNOWN", "Archive", "DataSet", "DataSource", "FileOptions", "ImageSet", "cache_folder",
    "default_root", "describe", "fetch_source", "find", "from_arrays", "load", "load_npz", "look_into", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
