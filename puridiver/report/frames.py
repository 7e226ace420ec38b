"""A finished run as pandas tables, for analyses of your own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.metrics.history import sample_history
from puridiver.report.reading import load_run
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

# Lists of a split event, with one entry a sample, and the names of their columns.
SPLIT_COLUMNS = {
    "arrivals": "arrival", "losses": "loss", "uncertainties": "uncertainty", "sets": "set", "right": "right",
    "guess_right": "guess_right",
}  # fmt: skip


@dataclass(frozen=True)
class RunFrames:
    """A finished run, as `puridiver.read_run` returns it.

    `summary` is the run's summary, a dict. `metrics` has a row for each measurement (`event`: anytime, task or epoch);
    lists, such as accuracy by class, stay lists. `splits` has a row for each task and memory sample at its end.
    `trace` has a row for each sample that was ever in the memory, or is None if the run was not traced.
    """

    summary: dict[str, Any]
    metrics: DataFrame
    splits: DataFrame
    trace: DataFrame | None


def read_run(folder: Path | str) -> RunFrames:
    """Read the finished run that `puridiver run --out FOLDER` wrote."""
    import pandas as pd

    run = load_run(Path(folder))
    metrics = pd.DataFrame(run.of_kind("anytime", "task", "epoch"))
    metrics = metrics.astype({name: "Int64" for name in ("seen", "epoch") if name in metrics})  # also beside gaps
    splits = []
    for event in run.of_kind("split"):
        columns = {new: event[old] for old, new in SPLIT_COLUMNS.items() if old in event}
        splits.append(pd.DataFrame({"task": event["task"], **columns, "set": [SET_NAMES[c] for c in event["sets"]]}))
    trace = sample_history(run.class_names, run.events) if run.config.get("traced") else None
    return RunFrames(run.summary, metrics, pd.concat(splits, ignore_index=True) if splits else pd.DataFrame(), trace)
