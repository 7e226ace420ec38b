"""The folder of a grid: its ledger, its failures, the run folders of its cells, and a lock.

ledger.jsonl      one line a finished run
failures.jsonl    one line a failed attempt, with its traceback
titles.json       what the grid calls the method of each run
cells/            a run folder for each cell, named after the cell and its identity
logs/             what worker processes say
grid.lock         held by the process that runs the grid; grid.pid says which one that is
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import file_lock
from puridiver.grid.cells import Method
from puridiver.grid.plan import Planned
from puridiver.report.ledger import read_rows
from puridiver.report.titles import Title, read_titles, write_titles
from puridiver.runs import folder as runs

LEDGER, FAILURES, LOGS, LOCK, PID = "ledger.jsonl", "failures.jsonl", "logs", "grid.lock", "grid.pid"
CELLS = runs.GRID_CELLS


class GridFolder:
    """Where a grid writes. Only the process that holds the lock may."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[dict[str, Any]]:
        return read_rows(self.path / LEDGER) if (self.path / LEDGER).exists() else []

    def failures(self) -> list[dict[str, Any]]:
        return runs.read_ledger(self.path / FAILURES) if (self.path / FAILURES).exists() else []

    def record(self, row: dict[str, Any]) -> None:
        runs.append_line(self.path / LEDGER, row)

    def record_failure(self, entry: dict[str, Any]) -> None:
        runs.append_line(self.path / FAILURES, entry)

    def keep_titles(
        self, planned: Sequence[Planned], done: Mapping[str, Mapping[str, Any]], known: Container[str] = ()
    ) -> None:
        """Write down what the grid calls its methods; `done` has the rows that count for planned runs, by key.

        `known` are the titles of all methods of the grid, those included that are not run now.
        """
        before = read_titles(self.path)
        now: dict[str, Title] = {}
        for p in planned:
            cell, title = done.get(p.key, {}).get("cell", p.key), Title(p.cell.method.title, _stands_for(p.cell.method))
            # A run may be that of several methods: the title that stands for more of it stays.
            others = [now.get(cell), before.get(cell) if before.get(cell, title).text in known else None]
            now[cell] = next((old for old in others if old and set(old.options) > set(title.options)), title)
        if {**before, **now} != before:
            write_titles(self.path, {**before, **now})

    def cell_folder(self, planned: Planned) -> Path:
        return self.path / CELLS / planned.folder_name

    def finished_summary(self, planned: Planned) -> dict[str, Any] | None:
        """The summary that a run left whose row did not reach the ledger: the process ended in between."""
        try:
            summary = json.loads((self.cell_folder(planned) / runs.SUMMARY).read_text())
        except (OSError, ValueError):
            return None
        return summary if summary.get("cell") == planned.key else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder; a `DataError` names the process that holds it already."""
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f"{self.path} is a file; name a folder for the grid")
        if (self.path / runs.CONFIG).exists():
            raise DataError(f"{self.path} holds a run of `puridiver run`; name another --out for the grid")
        self.path.mkdir(parents=True, exist_ok=True)
        with _held(self.path):
            for name in (LEDGER, FAILURES):
                drop_torn_line(self.path / name)
            yield


@contextmanager
def _held(path: Path) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            # The system drops the lock when its process dies, so that a stale one never stands in the way.
            stack.enter_context(file_lock(path / LOCK, wait_seconds=0))
        except DataError:
            raise DataError(
                f"{path} is in use by another grid, process {_pid(path)}: wait for it, stop it, or choose another --out"
            ) from None
        stack.callback((path / PID).unlink, missing_ok=True)
        (path / PID).write_text(f"{os.getpid()}\n")
        yield


def _pid(path: Path) -> str:
    try:
        return (path / PID).read_text().strip() or "unknown"
    except OSError:
        return "unknown"


def drop_torn_line(path: Path) -> None:
    """Remove a last line that lacks its end and is not whole: the power went while it was written."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole == len(content) or _is_json(content[whole:]):
        return
    with path.open("r+b") as file:
        file.truncate(whole)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _stands_for(method: Method) -> tuple[str, ...]:
    """What of a run the method's title says already; a summary calls `tell_noise` `told_noise`."""
    settings = ("told_noise" if name == "tell_noise" else name for name in method.settings)
    return tuple(sorted((*method.options, *settings)))
