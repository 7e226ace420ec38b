"""Label noise by a transition matrix: row the true class, column the label that is given, each row sums to 1.

In records a matrix goes by its content, "matrix:" and the first digits of a hash of it, so that two files of one name
are two noises and one file under two names is one.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from puridiver.data.damage import DAMAGE
from puridiver.errors import DataError
from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.names import MATRIX_FILE

MATRIX, PREFIX = "matrix", MATRIX_FILE
SUFFIXES = (".npy", ".csv")
DIGITS = 12  # of the hash, in a name
TOLERANCE = 1e-5  # of a row's sum: entries may have been stored as float32

Matrix = tuple[tuple[float, ...], ...]


def matrix_name(matrix: Matrix) -> str:
    """What records call the noise of a matrix: "matrix:" and a hash of its entries."""
    content = np.asarray(matrix, dtype="<f8").tobytes()
    return PREFIX + hashlib.sha256(content).hexdigest()[:DIGITS]


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
    if not np.isfinite(array).all():
        raise ValueError(f"{what} should hold finite numbers, but some are nan or infinite")
    if (array < 0).any():
        row, column = np.argwhere(array < 0)[0]
        raise ValueError(
            f"{what} should hold no negative numbers, but row {row}, column {column} is {array[row, column]:g}"
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
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a noise matrix should be a file that ends in .npy or .csv, but got {str(file)!r}")
    try:
        found = path.stat()
    except FileNotFoundError:
        raise DataError(f"there is no file {path} with a noise matrix") from None
    return _read(path, found.st_mtime_ns, found.st_size)


@functools.lru_cache(maxsize=32)
def _read(path: Path, changed: int, size: int) -> Matrix:
    """Kept, since a table asks for each of its rows; `changed` and `size` tell another content of the file."""
    try:
        values: Any = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _read_csv(path)
    except DAMAGE as error:
        wanted = "an array of numbers" if path.suffix == ".npy" else "numbers between commas, and no heading"
        raise DataError(f"{path} should hold {wanted}: {error}") from error
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
        raise DataError(f"{path} should hold an array of numbers, but holds {getattr(values, 'dtype', type(values))}")
    return as_matrix(values, what=f"the noise matrix of {path}")


def _read_csv(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8-sig")


def by_matrix(labels: IntArray, matrix: Matrix, rng: np.random.Generator) -> IntArray:
    """Labels drawn by the row of each one's class, in the very shares of the row, but for rounding.

    Of the n samples of a class, label j goes to n T[j] of them, up or down to a whole number; which ones, and which
    labels are rounded up, is chance.
    """
    noisy = as_labels(labels, len(matrix))
    for true, row in enumerate(matrix):
        members = rng.permutation(np.flatnonzero(labels == true))
        noisy[members] = np.repeat(np.arange(len(row)), _whole_shares(np.array(row), len(members), rng))
    return noisy


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


def refuse_as_map(spec: str) -> None:
    """A matrix is no class map: say where it belongs."""
    if spec.endswith((*SUFFIXES, ".npz")):
        raise ValueError(
            f'a noise map goes from class to class (a JSON file such as {{"cat": "dog"}}), but got {spec!r}; '
            f"a transition matrix (.npy or .csv) is a noise of its own: --noise matrix:{spec} without --noise-map"
        )
