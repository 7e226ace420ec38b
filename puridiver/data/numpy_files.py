"""Reads .npy and .npz files from anybody: no pickles, regular files only, no more memory than the file deserves."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from puridiver.errors import DataError, first_line
from puridiver.files import open_regular

# What a file may unpack to: above the first limit no more than so many times its own size. Zip packs zeros 1000 : 1.
UNPACKED_BYTES, UNPACKED_TIMES = 256 << 20, 100


def read_arrays(path: Path, keys: Sequence[str] | None = None, alone: str = "array") -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name: all, or those of `keys` that are there. An .npy file's array is `alone`."""
    if not path.exists():
        raise DataError(f"there is no file {path}")
    with open_regular(path) as file:
        try:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return {alone: np.lib.format.read_array(file, allow_pickle=False)}
            sizes = {member.filename.removesuffix(".npy"): member for member in zipfile.ZipFile(file).infolist()}
            wanted = [key for key in sizes if keys is None or key in keys]
            unpacked = sum(sizes[key].file_size for key in wanted)
            packed = sum(sizes[key].compress_size for key in wanted)
            if unpacked > max(UNPACKED_BYTES, UNPACKED_TIMES * packed):
                raise ValueError(f"a decompression bomb, {packed:,} bytes that unpack to {unpacked:,}")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in wanted}
        except Exception as error:  # zipfile and NumPy raise nearly everything at damaged bytes
            raise DataError(
                f"{path} is not an .npy or .npz file of plain arrays, or is damaged: {first_line(error)}; a pickled "
                "dictionary becomes plain with np.savez('new.npz', **np.load(FILE, allow_pickle=True).item())"
            ) from error


def array_names(path: Path) -> list[str]:
    """The names of the arrays in an .npz file, sorted."""
    with open_regular(path) as file:
        try:
            return sorted(name.removesuffix(".npy") for name in zipfile.ZipFile(file).namelist())
        except Exception as error:
            raise DataError(f"{path} is not an .npz file, or is damaged: {first_line(error)}") from error
