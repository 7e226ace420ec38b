"""The ledger as tables read it: every row checked to hold what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.runs import SUMMARY, RunFolder, ledger_lines, read_ledger

NUMBER = (int, float)
WANTED: dict[str, tuple[type, ...]] = {
    "data": (str,), "stream": (str,), "noise": (str,), "noise_rate": NUMBER, "sampler": (str,), "trainer": (str,),
    "recipe": (str,), "options_changed": (dict,), "memory": (int,), "network": (str,), "epochs": (int,),
    "seed": (int,), "told_noise": (bool,), "evaluated_on": (str,), "shortened": (bool,), "last_accuracy": NUMBER,
    "average_accuracy": NUMBER, "memory_purity": (*NUMBER, type(None)), "seconds": NUMBER, "task_accuracy": (list,),
}  # fmt: skip


def read_rows(ledger: Path) -> list[dict[str, Any]]:
    """All rows of a ledger; a `DataError` names the line that is no finished run, and what it lacks."""
    rows = read_ledger(ledger)
    numbers = [number for number, line in enumerate(ledger_lines(ledger), start=1) if line.strip()]
    for number, row in zip(numbers, rows, strict=False):  # another process may have added a row meanwhile
        problem = _problem(row)
        if problem:
            raise DataError(
                f"{ledger}, line {number}, is not the row of a finished run: {problem}; "
                "remove the line, or run it again with `puridiver run --ledger` or `puridiver grid`"
            )
    return rows


def row_of_run(folder: Path) -> dict[str, Any] | None:
    """What the ledger would have of the finished run that a folder holds; None where it holds none."""
    row = RunFolder(folder).read(SUMMARY) if folder.is_dir() else None
    if row is not None and (problem := _problem(row)):
        raise DataError(f"{folder / SUMMARY} is not that of a finished run of this version: {problem}")
    return row


def _problem(row: Any) -> str:
    if not isinstance(row, dict):
        return f"it should hold an object, but holds {row!r}"
    missing = [name for name in WANTED if name not in row]
    if missing:
        return f"it lacks {', '.join(missing)}"
    for name, kinds in WANTED.items():
        if type(row[name]) not in kinds:
            return f"{name} should be {' or '.join(kind.__name__ for kind in kinds)}, but is {row[name]!r}"
    return ""


def code_of(row: Any) -> str:
    """The code a row is of; of versions that did not hash it, the commit."""
    return str(row.get("code_hash") or row.get("commit") or "")


def device_type(row: Any) -> str:
    """cpu or cuda, from the device's description."""
    return "cpu" if "CPU" in str(row.get("device", "CPU")) else "cuda"
