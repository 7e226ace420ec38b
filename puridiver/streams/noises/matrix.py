"""Label noise by a transition matrix: row the true class, column the label that is given, each row sums to 1.

Records name a matrix by its content, "matrix:" and the first digits of a hash: two files of one name are two noises,
and one file under two names is one.
"""

import hashlib
from pathlib import Path

import numpy as np

from puridiver.errors import DataError
from puridiver.files import open_regular
from puridiver.streams.checks import IntArray, require
from puridiver.streams.noise import MATRIX_FILE, Matrix, Noise, NoiseSetting

TOLERANCE = 1e-5  # of a row's sum: entries may have been stored as float32


class MatrixNoise(Noise):
    """Draw the label of each sample from the row of its class."""

    name = "matrix"
    written = "matrix:FILE"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        ends = np.cumsum(setting.matrix or [], axis=1)[labels]  # (N, classes)
        return (ends[:, :-1] <= rng.random(len(labels))[:, None] * ends[:, -1:]).sum(axis=1)


def matrix_name(matrix: Matrix) -> str:
    """What records call the noise of a matrix: "matrix:" and a hash of its entries."""
    return MATRIX_FILE + hashlib.sha256(np.asarray(matrix, dtype="<f8").tobytes()).hexdigest()[:12]


def read_matrix(file: Path | str, n_classes: int) -> Matrix:
    """The numbers of a CSV file without a heading, checked."""
    path, shape = Path(file).expanduser(), (n_classes, n_classes)
    require(path.suffix == ".csv", "a noise matrix", "a file that ends in .csv", repr(str(file)))
    with open_regular(path) as content:
        try:
            array = np.loadtxt(content, delimiter=",", ndmin=2, encoding="utf-8-sig")
        except ValueError as error:
            raise DataError(f"{path} should hold numbers between commas, and no heading: {error}") from error
    array += 0.0  # no minus before a zero: it would be another content
    require(array.shape == shape, "the noise matrix", f"of shape (classes, classes), {shape}", array.shape)
    sums = array.sum(axis=1)
    fine = np.isfinite(array).all() and array.min() >= 0 and abs(sums - 1).max() <= TOLERANCE
    found = f"entries from {array.min():g} and sums from {sums.min():.6g} to {sums.max():.6g}"
    require(fine, "each row of the noise matrix, a true class,", "finite numbers from 0 with the sum 1", found)
    return tuple(map(tuple, array.tolist()))
