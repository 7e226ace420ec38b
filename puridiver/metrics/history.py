"""What became of each sample that was ever in the memory: a table of the events of a traced run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from puridiver.errors import DataError
from puridiver.files import check_writable, write_atomically
from puridiver.metrics import Event
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

# Columns of the table, and what they are called in "memory" events.
ENTERED = {
    "arrival": "entered", "image": "images", "name": "names", "given_label": "given", "true_label": "true",
}  # fmt: skip


def sample_history(class_names: Sequence[str], events: Iterable[Event]) -> DataFrame:
    """One row for each sample that was ever in the memory, in the order they entered, from the events of a traced run.

    Columns: `arrival` (how many samples came before it), `image` (its row among the train images), `name` (its file,
    where the data are of files), `given_label` and `true_label` (None where nobody knows), `entered_at` and
    `evicted_at` (how many samples had come by then; None: it was kept), and for the n-th consolidation `set_n` and
    `suggested_n` (None where it was not in the memory then).
    """
    import pandas

    kinds: dict[str, list[Event]] = {"memory": [], "sets": []}
    for event in events:
        kinds.get(event["event"], []).append(event)
    told = pandas.DataFrame(kinds["memory"], columns=["seen", "left", *ENTERED.values()])
    told["names"] = [event.get("names") or [None] * len(event["entered"]) for event in kinds["memory"]]
    found = told.explode(list(ENTERED.values())).dropna(subset="entered").set_index("entered", drop=False)
    found = found.rename(columns={event: column for column, event in ENTERED.items()} | {"seen": "entered_at"})
    found["evicted_at"] = told[["left", "seen"]].explode("left").dropna().set_index("left")["seen"]
    found = found[[*ENTERED, "entered_at", "evicted_at"]]
    for column in ("given_label", "true_label"):
        found[column] = found[column].map(dict(enumerate(class_names)))
    for n, event in enumerate(kinds["sets"], start=1):
        sets, suggested = np.array(SET_NAMES)[event["sets"]], np.array(class_names)[event["suggested"]]
        found = found.join(pandas.DataFrame({f"set_{n}": sets, f"suggested_{n}": suggested}, event["arrivals"]))
    # Whole numbers stay whole where some are missing.
    found = found.astype(dict.fromkeys(("arrival", "image", "entered_at", "evicted_at"), "Int64"))
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
