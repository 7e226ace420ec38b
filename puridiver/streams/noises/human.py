"""Labels that people gave to CIFAR: the files of CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022).

Each file is a dictionary of arrays in the order of CIFAR's train images. The clean labels among them are compared with
the data's, so that a file in another order is refused.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.errors import DataError, first_line
from puridiver.files import open_regular
from puridiver.streams.checks import IntArray, as_ids, require
from puridiver.streams.noise import Noise, NoiseSetting

CLEAN = "clean_label"
# Our name of a set -> its key in the published file.
HUMAN_SETS = {
    "aggregate": "aggre_label",  # what most of three people said (CIFAR-10N)
    "random1": "random_label1",  # what the first person said; so the next two
    "random2": "random_label2",
    "random3": "random_label3",
    "worst": "worse_label",  # a wrong label if any of three people gave one
    "fine": "noisy_label",  # what one person said (CIFAR-100N)
}


class Human(Noise):
    """Labels of a published file."""

    name = "human"
    written = f"human:{'|'.join(HUMAN_SETS)}"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        if setting.noise_file is None:
            raise ValueError("human noise needs the published label file: say --noise-file PATH")
        file, key = Path(setting.noise_file), HUMAN_SETS[self.variant]
        content = _read_pt(file)
        try:
            require(isinstance(content, dict) and key in content, "the content", f"a dictionary with {key}", "another")
            given, clean = (as_ids(name, content.get(name, []), setting.n_classes) for name in (key, CLEAN))
            given, clean = given[setting.samples], clean[setting.samples]
        except (IndexError, ValueError) as error:
            raise DataError(f"{file} should hold one label for each of the train images: {error}") from error
        if wrong := np.mean(clean != labels):
            causes = "other data, or another order (as in the files for TensorFlow)"
            raise DataError(f"{file}: {wrong:.1%} of its clean labels are not those of the data: {causes}")
        return given


def _read_pt(file: Path) -> Any:
    """Read through torch's loader of plain data, which runs no code of the file; NumPy arrays are let through."""
    rebuild: Any = np.empty(0).__reduce__()[0]  # NumPy's own, whose module is called differently in its versions
    kinds = [type(np.dtype(f"{sign}int{bits}")) for sign in ("", "u") for bits in (8, 16, 32, 64)]
    allowed: list[Any] = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    with open_regular(file) as content:
        try:
            with torch.serialization.safe_globals([*allowed, np.ndarray, np.dtype, *kinds]):
                return torch.load(content, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds at damaged bytes, and its own for what it will not load
            raise DataError(f"{file} cannot be read as plain arrays, or is damaged: {first_line(error)}") from error
