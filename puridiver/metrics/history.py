"""What became of each sample that was ever in the memory, put together from a run's events; as CSV or Parquet."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import check_writable, write_atomically
from puridiver.trainers import SET_NAMES

COLUMNS = ("arrival", "image", "given_label", "true_label", "entered_at", "evicted_at")
SUFFIXES = (".csv", ".parquet")


class SampleHistory:
    """One row a sample, in the order in which they entered. A listener of a run that is traced.

    Columns: `arrival` (how many samples came before it), `image` (its row among the train images), `name` (its file,
    where the data are of files), `given_label` and
    `true_label` (None where nobody knows), `entered_at` and `evicted_at` (how many samples had come by then; None: it
    was kept), and for the n-th consolidation `set_n` and `suggested_n` (None where it was not in the memory then).
    """

    def __init__(self, class_names: Sequence[str]) -> None:
        self.class_names = class_names
        self.samples: dict[int, dict[str, Any]] = {}
        self.consolidations, self._named = 0, False

    @classmethod
    def of_events(cls, class_names: Sequence[str], events: Iterable[dict[str, Any]]) -> SampleHistory:
        history = cls(class_names)
        for event in events:
            history.add(event)
        return history

    def add(self, event: dict[str, Any]) -> None:
        """An event of the run, in its turn; those of other kinds say nothing of single samples."""
        if event["event"] == "memory":
            self._add_changes(event)
        elif event["event"] == "sets":
            self._add_sets(event)

    def _add_changes(self, event: dict[str, Any]) -> None:
        for arrival, image, given, true in zip(
            event["entered"], event["images"], event["given"], event["true"], strict=True
        ):
            labels = (self.class_names[given], None if true is None else self.class_names[true])
            values = (arrival, image, *labels, event["seen"], None)
            self.samples[arrival] = dict(zip(COLUMNS, values, strict=True))
        for arrival, name in zip(event["entered"], event.get("names", ()), strict=False):
            self.samples[arrival]["name"] = name
            self._named = True
        for arrival in event["left"]:
            self.samples[arrival]["evicted_at"] = event["seen"]

    def _add_sets(self, event: dict[str, Any]) -> None:
        self.consolidations += 1
        n = self.consolidations
        for arrival, code, suggested in zip(event["arrivals"], event["sets"], event["suggested"], strict=True):
            found = {f"set_{n}": SET_NAMES[code], f"suggested_{n}": self.class_names[suggested]}
            self.samples[arrival] |= found

    def recall(self, metrics: Path) -> None:
        """Add the events of a run's `metrics.jsonl`, if there is one yet."""
        if metrics.exists():
            with metrics.open(encoding="utf-8") as file:
                for line in file:
                    self.add(json.loads(line))

    @property
    def columns(self) -> list[str]:
        numbers = range(1, self.consolidations + 1)
        first = [*COLUMNS[:2], *(["name"] if self._named else []), *COLUMNS[2:]]
        return [*first, *(f"{name}_{n}" for n in numbers for name in ("set", "suggested"))]

    def rows(self) -> list[dict[str, Any]]:
        """All columns of each sample; None where there is nothing to tell."""
        return [{name: sample.get(name) for name in self.columns} for sample in self.samples.values()]

    def write(self, path: Path) -> None:
        """CSV (empty where there is nothing to tell) or Parquet, by the file's name."""
        check_trace_file(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _as_parquet(self) if path.suffix == ".parquet" else _as_csv(self))


def _as_csv(history: SampleHistory) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, history.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history.rows())
    return text.getvalue().encode()


def _as_parquet(history: SampleHistory) -> bytes:
    import pyarrow
    import pyarrow.parquet

    numbers = ("arrival", "image", "entered_at", "evicted_at")
    kinds = [(name, pyarrow.int64() if name in numbers else pyarrow.string()) for name in history.columns]
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(history.rows(), pyarrow.schema(kinds)), sink)
    return bytes(sink.getvalue())


def check_trace_file(path: Path) -> None:
    """An error, before the work, where the history could not be written."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"a trace should be a .csv or .parquet file, but got {str(path)!r}")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file for the trace")
    check_writable(path)
    if path.suffix == ".parquet":
        try:
            importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise DataError(
                "a trace as .parquet needs pyarrow: pip install 'puridiver[parquet]', or say .csv"
            ) from error
