"""What the data say beside images and labels, so that the table an audit writes can take their place."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.data.base import UNKNOWN, DataSource, ImageSet

logger = logging.getLogger(__name__)

PARTS = ("train", "test")


@dataclass(frozen=True)
class Carried:
    """Further columns of the audited samples, and the samples of the other part: their names, labels and columns."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    other_names: list[str] = field(default_factory=list)
    other_labels: list[Any] = field(default_factory=list)
    other_columns: dict[str, list[Any]] = field(default_factory=dict)


def carried(source: DataSource, split: str, rows: np.ndarray, folder: Path) -> Carried:
    """Of a source of files in a folder, of which these rows of one part are audited: true labels, times, the split.

    Where some rows alone are audited nothing is said of the other part: the table is no data set then.
    """
    part, (other_split,) = getattr(source, split), set(PARTS) - {split}
    other: ImageSet = getattr(source, other_split)
    columns = _columns(part, source.class_names, rows)
    if len(rows) < len(part) or not len(other) or other.names is None:
        return Carried(columns)
    found = _with_files(other.names, folder)
    others = _columns(other, source.class_names, found)
    names = dict.fromkeys([*columns, *others])
    return Carried(
        {name: columns.get(name, [""] * len(rows)) for name in names} | {"split": [split] * len(rows)},
        [other.names[row] for row in found],
        [source.class_names[label] for label in other.labels[torch.from_numpy(found)].tolist()],
        {name: others.get(name, [""] * len(found)) for name in names} | {"split": [other_split] * len(found)},
    )


def _with_files(names: Sequence[str], folder: Path) -> np.ndarray:
    """Rows of the names by which a file can be found: one that is no UTF-8 was written down as what can be printed."""
    found = np.array([row for row, name in enumerate(names) if (folder / name).exists()], dtype=np.int64)
    if len(found) < len(names):
        logger.warning("left out of the table of labels, since their names are no UTF-8: %d", len(names) - len(found))
    return found


def _columns(part: ImageSet, classes: Sequence[str], rows: np.ndarray) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    if part.true is not None and part.truth_known:
        names = [*classes, ""]  # UNKNOWN is -1, the last
        assert UNKNOWN == -1
        found["true_label"] = [names[label] for label in part.true.numpy()[rows].tolist()]
    if part.times is not None:
        found["timestamp"] = part.times.numpy()[rows].tolist()
    return found
