"""What became of each sample that was ever in the memory: the events that tell it, and the table made of them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from puridiver.data.base import UNKNOWN
from puridiver.errors import DataError
from puridiver.files import check_writable, write_atomically
from puridiver.metrics.base import Event
from puridiver.metrics.recorder import Recorder
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("arrival", "image", "name", "given_label", "true_label", "entered_at", "evicted_at")
NUMBERS = ("arrival", "image", "entered_at", "evicted_at")


class TracingRecorder(Recorder):
    """Also emits which samples enter and leave the memory, and what each memory training made of them.

    Only for a traced run, since a GPU has to wait for it. Events "memory": `entered` (arrivals), and of each the row of
    its `images` among the train images, its `given` and `true` label (class ids; null where nobody knows) and, where
    data are of files, its file in `names`; `left`. Events "sets": `arrivals`, `sets` and `suggested`, the set of each
    sample in the last epoch of a consolidation and the label that it suggests.
    """

    held: frozenset[int] = frozenset()  # arrivals in the memory, as the events have told

    def observed(self, task: int) -> None:
        super().observed(task)
        self._compare(task)

    def epoch(self, task: int, epoch: int, number: int, evaluate: bool, last: bool) -> None:
        self._compare(task)  # samples that waited may have entered as the consolidation began
        super().epoch(task, epoch, number, evaluate, last)
        if last and (sets := self.learner.trainer.sets) is not None:
            given = self.truth.given[sets.arrivals]
            suggested = torch.where(sets.codes == SET_NAMES.index("clean"), given, sets.guesses).tolist()
            event = {"event": "sets", "task": task, "seen": self.learner.seen, "arrivals": sets.arrivals.tolist()}
            self.emit({**event, "sets": sets.codes.tolist(), "suggested": suggested})

    def load_state(self, figures: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().load_state(figures, tensors)
        self.held = frozenset(self.learner.memory.samples.arrivals.tolist())

    def _compare(self, task: int) -> None:
        """Emit what has changed since the last call."""
        before, self.held = self.held, frozenset(self.learner.memory.samples.arrivals.tolist())
        entered, left = sorted(self.held - before), sorted(before - self.held)
        if not entered and not left:
            return
        at = torch.tensor(entered, dtype=torch.int64)
        rows, names = self.truth.rows[at].tolist(), self.truth.names
        self.emit({
            "event": "memory", "task": task, "seen": self.learner.seen, "entered": entered,
            "images": rows, "given": self.truth.given[at].tolist(),
            "true": [None if label == UNKNOWN else label for label in self.truth.true[at].tolist()], "left": left,
            **({} if names is None else {"names": [names[row] for row in rows]}),
        })  # fmt: skip


def sample_history(class_names: Sequence[str], events: Iterable[Event]) -> DataFrame:
    """One row for each sample that was ever in the memory, in the order they entered, from the events of a traced run.

    Columns: `arrival` (how many samples came before it), `image` (its row among the train images), `name` (its file,
    where the data are of files), `given_label` and `true_label` (None where nobody knows), `entered_at` and
    `evicted_at` (how many samples had come by then; None: it was kept), and for the n-th consolidation `set_n` and
    `suggested_n` (None where it was not in the memory then).
    """
    import pandas

    rows: dict[int, dict[str, Any]] = {}
    columns = list(COLUMNS)
    for event in events:
        if event["event"] == "memory":
            names = event.get("names") or [None] * len(event["entered"])
            entered = (event["entered"], event["images"], names, event["given"], event["true"])
            for arrival, image, name, given, true in zip(*entered, strict=True):
                labels = (class_names[given], None if true is None else class_names[true])
                rows[arrival] = dict(zip(COLUMNS, (arrival, image, name, *labels, event["seen"], None), strict=True))
            for arrival in event["left"]:
                rows[arrival]["evicted_at"] = event["seen"]
        elif event["event"] == "sets":
            n = 1 + (len(columns) - len(COLUMNS)) // 2
            columns += [f"set_{n}", f"suggested_{n}"]
            for arrival, code, suggested in zip(event["arrivals"], event["sets"], event["suggested"], strict=True):
                rows[arrival] |= {f"set_{n}": SET_NAMES[code], f"suggested_{n}": class_names[suggested]}
    found = pandas.DataFrame(list(rows.values()), columns=columns)
    found = found.astype(dict.fromkeys(NUMBERS, "Int64"))  # whole numbers stay whole where some are missing
    return found.drop(columns="name") if found["name"].isna().all() else found


def check_trace_file(path: Path) -> None:
    """Raise an error, before the work, where the history could not be written."""
    if path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"a trace should be a .csv or .parquet file, but got {str(path)!r}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file for the trace")
    check_writable(path)
    try:
        importlib.import_module("pyarrow.parquet" if path.suffix == ".parquet" else "pandas")
    except ImportError as error:
        raise DataError("a trace as .parquet needs pyarrow: pip install 'puridiver[parquet]', or say .csv") from error


def write_trace(path: Path, class_names: Sequence[str], events: Iterable[Event]) -> None:
    """Write CSV (empty where there is nothing to tell) or Parquet, by the file's name."""
    frame, parquet = sample_history(class_names, events), path.suffix == ".parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, frame.to_parquet(index=False) if parquet else frame.to_csv(index=False).encode())
