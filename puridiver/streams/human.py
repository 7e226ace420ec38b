"""Labels that people gave to CIFAR: the files of CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022).

Each file is a dictionary of arrays in the order of CIFAR's train images, the clean labels among them; these are
compared with the data's, so that a file in another order is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.damage import DAMAGE
from puridiver.errors import DataError
from puridiver.streams.checks import IntArray, as_labels

CLEAN = "clean_label"


@dataclass(frozen=True)
class HumanSet:
    """One set of labels: what the published file calls it."""

    key: str
    description: str


HUMAN_SETS = {
    "aggregate": HumanSet("aggre_label", "what most of three people said (CIFAR-10N)"),
    "random1": HumanSet("random_label1", "what the first person said (CIFAR-10N)"),
    "random2": HumanSet("random_label2", "what the second person said (CIFAR-10N)"),
    "random3": HumanSet("random_label3", "what the third person said (CIFAR-10N)"),
    "worst": HumanSet("worse_label", "a wrong label if any of three people gave one (CIFAR-10N)"),
    "fine": HumanSet("noisy_label", "what one person said (CIFAR-100N)"),
}


def human(labels: IntArray, samples: IntArray, n_classes: int, name: str, file: Path | str | None) -> IntArray:
    """People's labels of `samples` (their rows in the train set), whose clean labels are `labels`."""
    if file is None:
        raise ValueError(f"human:{name} needs the published label file: say --noise-file PATH")
    arrays = read_label_file(Path(file), name)
    given, clean = (arrays.get(key) for key in (HUMAN_SETS[name].key, CLEAN))
    if given is None:
        raise DataError(
            f"{file} should hold {HUMAN_SETS[name].key}, but holds {', '.join(sorted(arrays)) or 'nothing'}"
        )
    for key, array in ((HUMAN_SETS[name].key, given), (CLEAN, clean)):
        if array is not None and (array.ndim != 1 or array.dtype.kind not in "iu" or len(array) <= samples.max()):
            raise DataError(
                f"{file}: {key} should be integers, one for each of the train images (more than {samples.max()}), "
                f"but is {array.dtype} of shape {array.shape}"
            )
    if clean is not None and (clean[samples] != labels).any():
        raise DataError(
            f"{file}: {np.mean(clean[samples] != labels):.1%} of its clean labels are not those of the data: it "
            "belongs to other data or lists them in another order (the files for TensorFlow do)"
        )
    try:
        return as_labels(given[samples], n_classes)
    except ValueError as error:
        raise DataError(f"{file}: {HUMAN_SETS[name].key}: {error}") from error


def read_label_file(file: Path, name: str) -> dict[str, np.ndarray]:
    """The arrays of a .pt or .npz file by name; those of an .npy file are the set that was asked for."""
    if file.suffix == ".pt":
        content: Any = _read_pt(file)
    elif file.suffix in (".npz", ".npy"):
        content = _read_numpy(file, name)
    else:
        raise ValueError(f"a label file should end in .pt, .npz or .npy, but got {file}")
    if not isinstance(content, dict):
        raise DataError(f"{file} should hold a dictionary of arrays, but holds a {type(content).__name__}")
    return {str(key): np.asarray(value) for key, value in content.items()}


def _read_pt(file: Path) -> Any:
    """Through torch's loader of plain data, which runs no code of the file; NumPy arrays are let through."""
    import torch

    rebuild: Any = np.empty(0).__reduce__()[0]  # NumPy's own, whose module is called differently in its versions
    kinds = [
        type(np.dtype(kind)) for kind in ("int64", "int32", "uint8", "int8", "int16", "uint16", "uint32", "uint64")
    ]
    allowed: list[Any] = [(rebuild, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    try:
        with torch.serialization.safe_globals([*allowed, np.ndarray, np.dtype, *kinds]):
            return torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise DataError(f"there is no file {file}") from None
    except Exception as error:  # torch raises many kinds at damaged bytes, and its own for what it will not load
        raise DataError(
            f"{file} cannot be read as plain arrays, or is damaged: {str(error).splitlines()[0]}"
        ) from error


def _read_numpy(file: Path, name: str) -> dict[str, np.ndarray]:
    try:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return {HUMAN_SETS[name].key: content}
        with content:
            return {key: content[key] for key in content.files}
    except FileNotFoundError:
        raise DataError(f"there is no file {file}") from None
    except DAMAGE as error:
        raise DataError(
            f"{file} cannot be read without unpickling, or is damaged ({error}); a pickled dictionary becomes plain "
            "with np.savez('labels.npz', **np.load(FILE, allow_pickle=True).item())"
        ) from error
