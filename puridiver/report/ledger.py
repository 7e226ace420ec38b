"""The ledger as tables read it: every row checked to hold what they need."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.runs.folder import SUMMARY, RunFolder, ledger_lines, read_ledger

NUMBER = (int, float)
WANTED: dict[str, tuple[type, ...]] = {
    "data": (str,), "stream": (str,), "noise": (str,), "noise_rate": NUMBER, "sampler": (str,), "trainer": (str,),
    "recipe": (str,), "options_changed": (dict,), "memory": (int,), "network": (str,), "epochs": (int,),
    "seed": (int,), "told_noise": (bool,), "evaluated_on": (str,), "shortened": (bool,), "last_accuracy": NUMBER,
    "average_accuracy": NUMBER, "memory_purity": (*NUMBER, type(None)), "seconds": NUMBER, "task_accuracy": (list,),
}  # fmt: skip
# What a row may lack; figures may also be null, and so may the commit of code that is in no repository, and the code of
# a run that was begun with another one (`began_with`).
NULL = type(None)
FIGURE, FIGURES = (*NUMBER, NULL), (list, NULL)
OPTIONAL: dict[str, tuple[type, ...]] = {
    "anytime_area": FIGURE, "forgetting": FIGURE, "memory_diversity": FIGURE, "best_epoch_accuracy": FIGURE,
    "average_seen_accuracy": FIGURE, "anytime_seen_area": FIGURE, "backward_transfer": FIGURE,
    "alpha": FIGURE, "stream_noise": FIGURE, "task_purity": FIGURES, "class_accuracy": FIGURES,
    "memory_per_class": FIGURES,
    "phase_seconds": (dict,), "versions": (dict,), "default_changes": (dict,), "lanes": (int,), "graphs": (bool,),
    "precision": (str,), "device": (str,), "stream_hash": (str,), "code_hash": (str, NULL), "settings_hash": (str,),
    "config_hash": (str,), "cell": (str, NULL), "commit": (str, NULL), "command": (str,),
    "multiprocessors": (int,),
}  # fmt: skip


def read_rows(ledger: Path) -> list[dict[str, Any]]:
    """All rows of a ledger; a `DataError` names the line that is no finished run, and what it lacks."""
    rows = read_ledger(ledger)
    numbers = [number for number, line in enumerate(ledger_lines(ledger), start=1) if line.strip()]
    for number, row in zip(numbers, rows, strict=False):  # another process may have added a row meanwhile
        problem = problem_of(row)
        if problem:
            raise DataError(
                f"{ledger}, line {number}, is not the row of a finished run: {problem}; "
                "remove the line, or run it again with `puridiver run --ledger` or `puridiver grid`"
            )
    return rows


def row_of_run(folder: Path) -> dict[str, Any] | None:
    """What the ledger would have of the finished run that a folder holds; None where it holds none."""
    row = RunFolder(folder).read(SUMMARY) if folder.is_dir() else None
    if row is not None and (problem := problem_of(row)):
        raise DataError(f"{folder / SUMMARY} is not that of a finished run of this version: {problem}")
    return row


def problem_of(row: Any) -> str:
    """What is wrong with the row of a finished run; empty where nothing is."""
    if not isinstance(row, dict):
        return f"it should hold an object, but holds {row!r}"
    missing = [name for name in WANTED if name not in row]
    if missing:
        return f"it lacks {', '.join(missing)}"
    for name, kinds in {**WANTED, **{name: OPTIONAL[name] for name in OPTIONAL.keys() & row.keys()}}.items():
        if type(row[name]) not in kinds:
            return f"{name} should be {' or '.join(_word(kind) for kind in kinds)}, but is {row[name]!r}"
        values = row[name] if isinstance(row[name], list) else [row[name]] if float in kinds else []
        if wrong := [value for value in values if not _is_figure(value)]:
            return f"{name} should have finite numbers, but has {wrong[0]!r}"
    if not 0 <= row["noise_rate"] <= 1:
        return f"noise_rate should be from 0 to 1, but is {row['noise_rate']}"
    return ""


def _word(kind: type) -> str:
    return "null" if kind is NULL else kind.__name__


def _is_figure(value: Any) -> bool:
    """A finite number, or null where there is nothing to tell, as of purity without true labels."""
    return value is None or (type(value) in NUMBER and math.isfinite(value))


SEVERAL = "several"  # the code of a run that was begun with one and ended with another


def of_several_codes(row: Any) -> bool:
    return "code_hash" in row and row["code_hash"] is None


def code_of(row: Any) -> str:
    """The code a row is of; of versions that did not hash it, the commit. No two runs of several share theirs."""
    if of_several_codes(row):
        which = json.dumps([row.get(name) for name in ("began_with", "commit", "seed", "started")], sort_keys=True)
        return f"{SEVERAL} {hashlib.sha256(which.encode()).hexdigest()}"
    return str(row.get("code_hash") or row.get("commit") or "")


def device_type(row: Any) -> str:
    """cpu or cuda, from the device's description."""
    return "cpu" if "CPU" in str(row.get("device", "CPU")) else "cuda"
