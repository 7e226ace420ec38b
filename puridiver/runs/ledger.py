"""The ledger: a JSON-lines file with one flat row for each finished run; and the check of such a row."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import append_line, check_json, check_writable, parse_json, read_regular, to_json
from puridiver.metrics import METRICS
from puridiver.trainers import SET_NAMES

Row = dict[str, Any]
LEDGER = "ledger.jsonl"  # of a grid, in its folder

# What a row must have, and what some rows have; the same run in two grids makes two rows with the same id.
TEXTS = (
    "id", "method", "column", "data", "stream", "noise", "sampler", "trainer", "recipe", "network", "evaluated_on",
    "device",
)  # fmt: skip
NEEDED: dict[str, Any] = {
    **dict.fromkeys(TEXTS, str), "grid": (str, None),  # null for a run of `puridiver run`
    **dict.fromkeys(("seed", "memory", "epochs"), int), **dict.fromkeys(("noise_rate", "seconds"), float),
    **dict.fromkeys(("stream_noise", "last_accuracy"), (float, None)), "options": {}, "shortened": bool,
}  # fmt: skip
FIELDS: dict[str, Any] = {
    **dict.fromkeys((*METRICS, "alpha"), (float, None)),
    **dict.fromkeys(("task_accuracy", "task_purity", "class_accuracy"), ([(float, None), None], None)),
    **dict.fromkeys(("stream_hash", "precision", "command", "started", "commit", "title"), (str, None)),
    "memory_per_class": ([int, None], None), **dict.fromkeys(("consolidations", "lanes"), (int, None)),
    **dict.fromkeys(("told_noise", "graphs"), (bool, None)),
    **dict.fromkeys(("versions", "phase_seconds", "began_with"), ({}, None)),
    **NEEDED,
}  # fmt: skip


def append_row(ledger: Path, row: Row, once: bool = False) -> None:
    """Add a finished run as one line; with `once`, not a row that the ledger has already."""
    if once and ledger.exists() and json.loads(to_json(row)) in read_lines(ledger):
        return
    ledger.parent.mkdir(parents=True, exist_ok=True)
    append_line(ledger, to_json(row))


def check_ledger(ledger: Path) -> None:
    """Raise an error, before the work, if the ledger cannot be written."""
    check_writable(ledger)
    if ledger.exists():
        read_lines(ledger)


def read_ledgers(paths: Iterable[Path]) -> list[Row]:
    """All rows of several ledgers; a `DataError` names the file, the line and the field that is wrong."""
    return [checked(row, f"{path}, line {n}") for path in paths for n, row in enumerate(read_lines(path), start=1)]


def read_lines(path: Path) -> list[Row]:
    """All objects of a JSON-lines file, unchecked; a `DataError` names a damaged line."""
    try:  # line ends are those of the file alone: what text calls a line may stand inside a row
        lines = read_regular(path).decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise DataError(f"there is no ledger {path}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a ledger: {error}") from error
    told = [(line, f"{path}, line {n},") for n, line in enumerate(lines, start=1) if line.strip()]
    return [check_json(parse_json(line, where), {}, where) for line, where in told]


def shown_method(row: Mapping[str, Any]) -> str:
    """What tables and pages call the method of a row: its name in a grid, or the titles of sampler and trainer."""
    names, title = f"{row['sampler']} + {row['trainer']}", row.get("title")
    return row["method"].replace(names, title, 1) if isinstance(title, str) else row["method"]


def checked(row: Row, where: str) -> Row:
    """The row of a finished run, if it is one; else a `DataError` that names the place and the field."""
    if missing := [name for name in NEEDED if name not in row]:
        raise DataError(f"{where} is not the row of a finished run: it lacks {', '.join(missing)}")
    sets = {f"{name}_{what}": (float, None) for name in SET_NAMES for what in ("size", "precision")}  # of some trainers
    return check_json(row, FIELDS | sets, where)
