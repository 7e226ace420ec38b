"""Reads .npy and .npz files from anybody: no pickles, regular files only, no more memory than the file deserves."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from puridiver.errors import DataError, few, first_line
from puridiver.files import open_regular

# What a file may unpack to: above the first limit no more than so many times its own size. Zip packs zeros 1000 : 1.
UNPACKED_BYTES, UNPACKED_TIMES = 256 << 20, 100


def read_arrays(
    path: Path, required: Sequence[str], optional: Sequence[str] = (), alone: str = "array"
) -> dict[str, np.ndarray]:
    """The required arrays of an .npz file, and the optional ones that are there; an .npy file's array is `alone`."""
    if not path.exists():
        raise DataError(f"there is no file {path}")
    with open_regular(path) as file:
        try:
            zipped = zipfile.is_zipfile(file)
            file.seek(0)
            members = {m.filename.removesuffix(".npy"): m for m in zipfile.ZipFile(file).infolist()} if zipped else {}
            names = sorted(members) if zipped else [alone]
            if set(required) - set(names):
                raise DataError(f"{path} should hold {', '.join(required)}, but holds {few(names) or 'nothing'}")
            file.seek(0)
            if not zipped:
                return {alone: np.lib.format.read_array(file, allow_pickle=False)}
            wanted = [name for name in names if name in (*required, *optional)]
            unpacked = sum(members[name].file_size for name in wanted)
            packed = sum(members[name].compress_size for name in wanted)
            if unpacked > max(UNPACKED_BYTES, UNPACKED_TIMES * packed):
                raise ValueError(f"a decompression bomb, {packed:,} bytes that unpack to {unpacked:,}")
            with np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in wanted}
        except DataError:
            raise
        except Exception as error:  # zipfile and NumPy raise nearly everything at damaged bytes
            raise DataError(
                f"{path} is not an .npy or .npz file of plain arrays, or is damaged: {first_line(error)}; a pickled "
                "dictionary becomes plain with np.savez('new.npz', **np.load(FILE, allow_pickle=True).item())"
            ) from error
