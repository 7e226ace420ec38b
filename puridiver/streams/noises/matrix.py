"""Label noise by a transition matrix: row the true class, column the label that is given, each row sums to 1.

Records name a matrix by its content, "matrix:" and the first digits of a hash: two files of one name are two noises,
and one file under two names is one.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.numpy_files import read_arrays
from puridiver.errors import DataError
from puridiver.files import open_regular
from puridiver.streams.checks import IntArray
from puridiver.streams.names import MATRIX_FILE
from puridiver.streams.noise import Matrix, Noise, NoiseSetting

DIGITS = 12  # of the hash, in a name
TOLERANCE = 1e-5  # of a row's sum: entries may have been stored as float32


class MatrixNoise(Noise):
    """Draw each label by the row of its class, in the exact shares of the row but for rounding.

    Of the n samples of a class, label j goes to n T[j] of them, up or down to a whole number. Chance decides which
    ones, and which labels are rounded up.
    """

    name = "matrix"
    title = "labels by a transition matrix of your own (.npy or .csv)"
    written = "matrix:FILE"
    has_rate = False

    def variant_kind(self, variant: str) -> str:
        return matrix_name(read_matrix(variant))

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        noisy = labels.copy()
        for true, row in enumerate(setting.matrix or ()):
            members = rng.permutation(np.flatnonzero(labels == true))
            noisy[members] = np.repeat(np.arange(len(row)), _whole_shares(np.array(row), len(members), rng))
        return noisy


def matrix_name(matrix: Matrix) -> str:
    """What records call the noise of a matrix: "matrix:" and a hash of its entries."""
    content = np.asarray(matrix, dtype="<f8").tobytes()
    return MATRIX_FILE + hashlib.sha256(content).hexdigest()[:DIGITS]


def check_matrix(kind: str, matrix: Matrix | None, n_classes: int) -> None:
    """Refuse a matrix that is not the one that the kind names."""
    if matrix is None:
        raise ValueError(f"the noise {kind!r} needs its matrix (noise_matrix)")
    if (found := matrix_name(as_matrix(matrix, n_classes))) != kind:
        raise ValueError(f"noise_matrix should be the matrix of {kind!r}, but is {found!r}")


def as_matrix(values: ArrayLike, n_classes: int | None = None, what: str = "the noise matrix") -> Matrix:
    """Checked entries as plain floats; `n_classes` is how many classes the data have, where that is known."""
    try:
        array = np.asarray(values, dtype=np.float64) + 0.0  # no minus before a zero: it would be another content
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} should be numbers of shape (classes, classes): {error}") from error
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"{what} should have the shape (classes, classes), but has {array.shape}")
    if n_classes is not None and len(array) != n_classes:
        raise ValueError(f"{what} is for {len(array)} classes, but the data have {n_classes}")
    wrong = np.argwhere(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"{what} should hold finite numbers from 0, but row {row}, column {column} is {array[row, column]:g}"
        )
    sums = array.sum(axis=1)
    if (abs(sums - 1) > TOLERANCE).any():
        row = int(np.argmax(abs(sums - 1)))
        columns = "; its columns do: transpose it" if np.allclose(array.sum(axis=0), 1, atol=TOLERANCE) else ""
        raise ValueError(
            f"each row of {what} (a true class) should sum to 1, but row {row} sums to {sums[row]:.6g}{columns}"
        )
    return tuple(map(tuple, array.tolist()))


def read_matrix(file: Path | str) -> Matrix:
    """The matrix of an .npy file, or of a .csv file of numbers without a heading."""
    path = Path(file).expanduser()
    if path.suffix not in (".npy", ".csv"):
        raise ValueError(f"a noise matrix should be a file that ends in .npy or .csv, but got {str(file)!r}")
    if not path.exists():
        raise DataError(f"there is no file {path} with a noise matrix")
    found = path.stat()
    return _read(path, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=32)
def _read(path: Path, changed: int, size: int) -> Matrix:
    """Cached, since a table asks for each of its rows; `changed` and `size` tell another content of the file."""
    if path.suffix == ".npy":
        values = read_arrays(path, ("matrix",), alone="matrix")["matrix"]
    else:
        with open_regular(path) as content:
            try:
                values = np.loadtxt(content, delimiter=",", ndmin=2, encoding="utf-8-sig")
            except ValueError as error:
                raise DataError(f"{path} should hold numbers between commas, and no heading: {error}") from error
    if values.dtype.kind not in "fiu":
        raise DataError(f"{path} should hold an array of numbers, but holds {values.dtype}")
    return as_matrix(values, what=f"the noise matrix of {path}")


def _whole_shares(chances: np.ndarray, total: int, rng: np.random.Generator) -> IntArray:
    """Whole numbers with this total: in proportion to the chances, each one more with the chance of its rest.

    Rounded by a rule, small classes would all prefer the same labels: of five samples and 40 % noise over 99 other
    classes, the two wrong ones would always be the first two.
    """
    wanted = np.round(chances / chances.sum() * total, 9)  # 24 as 23.999... is 24
    counts = np.floor(wanted).astype(np.int64)
    some = rng.permutation(np.flatnonzero(wanted > counts))
    ends = np.cumsum((wanted - counts)[some])
    ends[-1:] = total - counts.sum()  # but for rounding it is so already
    # Their rests in a row, of which marks at a distance of 1 hit some, each at most once.
    counts[some] += np.diff(np.floor(ends + rng.random()), prepend=0).astype(np.int64)
    return counts
