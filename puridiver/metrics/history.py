"""What became of each sample that was ever in the memory: the events that tell it, and the table made of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from puridiver.errors import DataError
from puridiver.files import check_writable, write_atomically
from puridiver.learner.learner import Learner
from puridiver.metrics.base import Event
from puridiver.metrics.memory_snapshot import UNKNOWN
from puridiver.streams import TrueLabels
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

COLUMNS = ("arrival", "image", "name", "given_label", "true_label", "entered_at", "evicted_at")
NUMBERS = ("arrival", "image", "entered_at", "evicted_at")


class MemoryWatch:
    """Emits which samples enter and leave the memory, and what each memory training made of them.

    Only a traced run has one, since a GPU has to wait for it. Events "memory": `entered` (arrivals), and of each the
    row of its `images` among the train images, its `given` and `true` label (class ids; null where nobody knows) and,
    where data are of files, its file in `names`; `left`. Events "sets": `arrivals`, `sets` and `suggested`, the set of
    each sample in the last epoch of a consolidation and the label that it suggests.
    """

    def __init__(self, truth: TrueLabels, emit: Callable[[Event], None]) -> None:
        self.truth, self.emit = truth, emit
        self._samples: Any = None
        self._held: set[int] = set()

    def begin(self, learner: Learner) -> None:
        """Start from what the memory holds: the events of a resumed run have told it before."""
        self._samples = learner.memory.samples
        self._held = set(self._samples.arrivals.tolist())

    def compare(self, learner: Learner, task: int, positions: Callable[[Tensor], Tensor]) -> None:
        """Emit what has changed since the last call; `positions` maps arrivals to positions in the stream."""
        if learner.memory.samples is self._samples:
            return
        before = self._held
        self.begin(learner)
        entered, left = sorted(self._held - before), sorted(before - self._held)
        if entered or left:
            at = positions(torch.tensor(entered, dtype=torch.int64))
            names = self.truth.names_at(at)
            self.emit({
                "event": "memory", "task": task, "seen": learner.seen, "entered": entered,
                "images": self.truth.rows_at(at).tolist(), "given": self.truth.given_at(at).tolist(),
                "true": [None if label == UNKNOWN else label for label in self.truth.of(at).tolist()], "left": left,
                **({} if names is None else {"names": names}),
            })  # fmt: skip

    def consolidated(self, learner: Learner, task: int, positions: Callable[[Tensor], Tensor]) -> None:
        """Emit how the last epoch divided the memory, if the trainer divides it at all."""
        if (sets := learner.trainer.sets) is None:
            return
        given = self.truth.given_at(positions(sets.arrivals)).cpu()
        suggested = torch.where(sets.codes == SET_NAMES.index("clean"), given, sets.guesses).tolist()
        event = {"event": "sets", "task": task, "seen": learner.seen, "arrivals": sets.arrivals.tolist()}
        self.emit({**event, "sets": sets.codes.tolist(), "suggested": suggested})


class SampleHistory:
    """A listener that keeps one row for each sample that was ever in the memory, in the order they entered.

    Columns: `arrival` (how many samples came before it), `image` (its row among the train images), `name` (its file,
    where the data are of files), `given_label` and `true_label` (None where nobody knows), `entered_at` and
    `evicted_at` (how many samples had come by then; None: it was kept), and for the n-th consolidation `set_n` and
    `suggested_n` (None where it was not in the memory then).
    """

    needs_memory_events = True  # a run emits them only for listeners that say so, from its beginning

    def __init__(self, class_names: Sequence[str], events: Iterable[Event] = ()) -> None:
        self.class_names, self.consolidations = class_names, 0
        self.samples: dict[int, dict[str, Any]] = {}
        for event in events:
            self(event)

    def __call__(self, event: Event) -> None:
        """Take an event of the run, in its turn; those of other kinds say nothing of single samples."""
        if event["event"] == "memory":
            names = event.get("names") or [None] * len(event["entered"])
            columns = (event["entered"], event["images"], names, event["given"], event["true"])
            for arrival, image, name, given, true in zip(*columns, strict=True):
                labels = (self.class_names[given], None if true is None else self.class_names[true])
                values = (arrival, image, name, *labels, event["seen"], None)
                self.samples[arrival] = dict(zip(COLUMNS, values, strict=True))
            for arrival in event["left"]:
                self.samples[arrival]["evicted_at"] = event["seen"]
        elif event["event"] == "sets":
            self.consolidations = n = self.consolidations + 1
            for arrival, code, suggested in zip(event["arrivals"], event["sets"], event["suggested"], strict=True):
                found = {f"set_{n}": SET_NAMES[code], f"suggested_{n}": self.class_names[suggested]}
                self.samples[arrival] |= found

    def frame(self) -> DataFrame:
        """The rows as a pandas table; whole numbers stay whole where some are missing."""
        import pandas

        sets = [f"{name}_{n}" for n in range(1, self.consolidations + 1) for name in ("set", "suggested")]
        found = pandas.DataFrame(list(self.samples.values()), columns=[*COLUMNS, *sets])
        found = found.astype(dict.fromkeys(NUMBERS, "Int64"))
        return found.drop(columns="name") if found["name"].isna().all() else found

    def write(self, path: Path) -> None:
        """Write CSV (empty where there is nothing to tell) or Parquet, by the file's name."""
        path.parent.mkdir(parents=True, exist_ok=True)
        frame, parquet = self.frame(), path.suffix == ".parquet"
        write_atomically(path, frame.to_parquet(index=False) if parquet else frame.to_csv(index=False).encode())


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
