"""A finished run as pandas tables, for analyses of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.metrics import SampleHistory
from puridiver.report import reading
from puridiver.report.style import check_installed
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

MEASURING = ("anytime", "task", "epoch")  # events that are figures of one moment
# Lists of a split, an entry a sample, and what a column of single entries is called.
OF_A_SAMPLE = {
    "arrivals": "arrival", "losses": "loss", "uncertainties": "uncertainty", "sets": "set", "right": "right",
    "guess_right": "guess_right",
}  # fmt: skip


@dataclass(frozen=True)
class RunFrames:
    """What `puridiver.read_run` gives.

    `summary` is the run's summary, a dict. `metrics` has a row for each measurement along the run (`event`: anytime,
    task or epoch), lists, such as accuracy by class, as they are. `splits` has a row for each task and memory sample
    at its end. `trace` has a row for each sample that was ever in the memory; None of a run that was not traced.
    """

    summary: dict[str, Any]
    metrics: DataFrame
    splits: DataFrame
    trace: DataFrame | None


def read_run(folder: Path | str) -> RunFrames:
    """The finished run that `puridiver run --out FOLDER` left, as pandas tables."""
    check_installed("frames", "pandas")
    import pandas

    run = reading.read_run(Path(folder))
    measured = [event for event in run.events if event["event"] in MEASURING]
    history = SampleHistory.of_events(run.manifest["class_names"], run.events)
    return RunFrames(
        run.summary,
        _whole(pandas.DataFrame(measured), "seen", "epoch"),
        pandas.DataFrame([row for event in run.of_kind("split") for row in _split_rows(event)]),
        _trace(history) if run.config.get("traced") else None,
    )


def _split_rows(event: dict[str, Any]) -> list[dict[str, Any]]:
    """A row a sample; runs of older versions do not tell its arrival."""
    there = {name: column for name, column in OF_A_SAMPLE.items() if name in event}
    lists = zip(*(event[name] for name in there), strict=True)
    rows = [dict(zip(there.values(), values, strict=True)) for values in lists]
    return [{"task": event["task"], **row, "set": SET_NAMES[row["set"]]} for row in rows]


def _trace(history: SampleHistory) -> DataFrame:
    import pandas

    return _whole(pandas.DataFrame(history.rows(), columns=history.columns), "evicted_at")


def _whole(frame: DataFrame, *names: str) -> DataFrame:
    """With whole numbers in these columns, also where some rows have none."""
    return frame.astype({name: "Int64" for name in names if name in frame})
