"""Labels that people gave to CIFAR: the files of CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022).

Each file is a dictionary of arrays in the order of CIFAR's train images, the clean labels among them. The clean labels
are compared with the data's, so that a file in another order is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from puridiver.errors import DataError
from puridiver.files import open_regular
from puridiver.streams.checks import IntArray, as_labels
from puridiver.streams.noise import Noise, NoiseSetting

CLEAN = "clean_label"
# Our name of a set -> its key in the published file, and what it holds.
HUMAN_SETS = {
    "aggregate": ("aggre_label", "what most of three people said (CIFAR-10N)"),
    "random1": ("random_label1", "what the first person said (CIFAR-10N)"),
    "random2": ("random_label2", "what the second person said (CIFAR-10N)"),
    "random3": ("random_label3", "what the third person said (CIFAR-10N)"),
    "worst": ("worse_label", "a wrong label if any of three people gave one (CIFAR-10N)"),
    "fine": ("noisy_label", "what one person said (CIFAR-100N)"),
}


class Human(Noise):
    """Labels of a published file."""

    name = "human"
    title = f"labels that people gave: {', '.join(f'{name} ({told})' for name, (_, told) in HUMAN_SETS.items())}"
    written = f"human:{'|'.join(HUMAN_SETS)}"
    has_rate = False
    from_file = True

    def variant_kind(self, variant: str) -> str:
        if variant not in HUMAN_SETS:
            raise ValueError(
                f"human noise should be human:SET with one of {', '.join(HUMAN_SETS)}, but got {variant!r}"
            )
        return f"{self.name}:{variant}"

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        if setting.noise_file is None:
            raise ValueError("human noise needs the published label file: say --noise-file PATH")
        file, key = Path(setting.noise_file), HUMAN_SETS[setting.variant][0]
        given, clean = _given_and_clean(file, key, int(setting.samples.max()))
        if clean is not None and (clean[setting.samples] != labels).any():
            raise DataError(
                f"{file}: {np.mean(clean[setting.samples] != labels):.1%} of its clean labels are not those of the "
                "data: it belongs to other data or lists them in another order (the files for TensorFlow do)"
            )
        try:
            return as_labels(given[setting.samples], setting.n_classes)
        except ValueError as error:
            raise DataError(f"{file}: {key}: {error}") from error


def _given_and_clean(file: Path, key: str, largest: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels of that key and the clean ones, both checked; row `largest` must exist."""
    if not file.exists():
        raise DataError(f"there is no file {file}")
    content = _read_pt(file)
    if not isinstance(content, dict):
        raise DataError(f"{file} should hold a dictionary of arrays, but holds a {type(content).__name__}")
    arrays = {name: np.asarray(content[name]) for name in (key, CLEAN) if name in content}
    if key not in arrays:
        raise DataError(f"{file} should hold {key}, but holds {', '.join(map(str, content)) or 'nothing'}")
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) <= largest:
            raise DataError(
                f"{file}: {name} should be integers, one for each of the train images (more than {largest}), "
                f"but is {array.dtype} of shape {array.shape}"
            )
    return arrays[key], arrays.get(CLEAN)


def _read_pt(file: Path) -> Any:
    """Through torch's loader of plain data, which runs no code of the file; NumPy arrays are let through."""
    import torch

    rebuild: Any = np.empty(0).__reduce__()[0]  # NumPy's own, whose module is called differently in its versions
    kinds = [type(np.dtype(f"{sign}int{bits}")) for sign in ("", "u") for bits in (8, 16, 32, 64)]
    allowed: list[Any] = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    with open_regular(file) as content:
        try:
            with torch.serialization.safe_globals([*allowed, np.ndarray, np.dtype, *kinds]):
                return torch.load(content, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds at damaged bytes, and its own for what it will not load
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"{file} cannot be read as plain arrays, or is damaged: {first}") from error
