"""Runs what is left of a grid: skips what the ledger has, records each result at once, survives what goes wrong."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from puridiver.grid.engines.base import Engine, Event, Job
from puridiver.grid.folder import GridFolder
from puridiver.grid.plan import Planned, done_rows

# Why a cell failed. Only an error of its own keeps it from being tried the next time.
ERROR, DISK_FULL, NOT_AS_PLANNED = "error", "disk full", "not as planned"


class Watcher(Protocol):
    """What a grid tells while it goes on."""

    def begin(self, done: int, waiting: Sequence[Planned], seconds: float | None) -> None: ...
    def happened(self, event: Event, planned: Planned) -> None: ...
    def note(self, text: str) -> None: ...
    def preparing(self, text: str) -> None: ...


class Silent:
    """A watcher that does not look."""

    def begin(self, done: int, waiting: Sequence[Planned], seconds: float | None) -> None: ...
    def happened(self, event: Event, planned: Planned) -> None: ...
    def note(self, text: str) -> None: ...
    def preparing(self, text: str) -> None: ...


@dataclass
class State:
    """Where a grid stands: rows of what is done, failures of what failed before, and what is left to run."""

    done: dict[str, dict[str, Any]]
    failed: dict[str, dict[str, Any]]
    waiting: list[Planned]


@dataclass
class Outcome:
    """What became of a grid: how many cells finished just now, what failed, what was not started."""

    finished: int = 0
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    left: int = 0
    disk_full: bool = False
    interrupted: bool = False


def look(planned: Sequence[Planned], folder: GridFolder, any_code: bool, retry_failed: bool) -> State:
    """Compare the plan with the folder. A cell that failed by an error of its own waits for --retry-failed."""
    done = done_rows(planned, folder.rows(), any_code)
    failures = {} if retry_failed else {entry["cell"]: entry for entry in folder.failures()}
    failed = {
        p.key: failures[p.key]
        for p in planned
        if p.key not in done and p.key in failures and failures[p.key]["reason"] == ERROR
    }
    waiting = [p for p in planned if p.key not in done and p.key not in failed]
    return State(done, failed, waiting)


def adopt(planned: Sequence[Planned], folder: GridFolder) -> int:
    """Put finished runs into the ledger whose row did not reach it; how many there were."""
    known = {row.get("cell") for row in folder.rows()}
    found = [folder.finished_summary(p) for p in planned if p.key not in known]
    for summary in filter(None, found):
        folder.record(summary)
    return sum(summary is not None for summary in found)


@dataclass
class Runner:
    """One go at a grid. The folder's lock must be held."""

    folder: GridFolder
    engine: Engine
    watcher: Watcher = field(default_factory=Silent)

    def run(self, waiting: Sequence[Planned], known_failures: Mapping[str, dict[str, Any]] | None = None) -> Outcome:
        """Run the waiting cells; Ctrl-C and a full disk end it early, with everything finished kept."""
        outcome = Outcome(failures=dict(known_failures or {}))
        by_key = {p.key: p for p in waiting}
        jobs = [self._job(p) for p in waiting]
        try:
            for event in self._events(jobs):
                self._take(event, by_key[event.key], outcome)
        except KeyboardInterrupt:
            outcome.interrupted = True
        ended = outcome.finished + sum(key in outcome.failures for key in by_key)
        outcome.left = len(waiting) - ended
        return outcome

    def _events(self, jobs: Sequence[Job]) -> Iterator[Event]:
        with closing(self.engine.events(jobs)) as events:
            yield from events

    def _job(self, planned: Planned) -> Job:
        config = planned.cell.config
        return Job(
            planned.key, planned.cell.name, config, self.folder.cell_folder(planned), self.engine.sharing(config)
        )

    def _take(self, event: Event, planned: Planned, outcome: Outcome) -> None:
        if event.kind == "finished":
            event = self._checked(event, planned)
        if event.kind == "finished":
            try:
                self.folder.record(event.detail)
                outcome.finished += 1
            except OSError as error:
                event = Event("failed", event.key, {"error": str(error), "traceback": "", "errno": error.errno})
        if event.kind == "failed":
            self._fail(event, planned, outcome)
        self.watcher.happened(event, planned)

    def _checked(self, event: Event, planned: Planned) -> Event:
        """A row must be of the run that was planned: a worker may have other code or another device."""
        if event.detail.get("cell") == planned.key:
            return event
        names = ("config_hash", "code_hash")
        other = [name for name in names if event.detail.get(name) != getattr(planned.identity, name)]
        error = (
            f"the worker ran something else than was planned: its {' and '.join(other) or 'stream'} differs. "
            "Was the code changed meanwhile, or is it another version or device there? Start the grid again"
        )
        return Event("failed", event.key, {"error": error, "traceback": "", "errno": None, "reason": NOT_AS_PLANNED})

    def _fail(self, event: Event, planned: Planned, outcome: Outcome) -> None:
        full = event.detail.get("errno") in (errno.ENOSPC, errno.EDQUOT)
        entry = {
            "cell": event.key,
            "name": planned.cell.name,
            "reason": DISK_FULL if full else event.detail.get("reason", ERROR),
            "error": event.detail["error"],
            "traceback": event.detail["traceback"],
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        outcome.failures[event.key] = entry
        if full and not outcome.disk_full:
            outcome.disk_full = True
            self.engine.drain()
            self.watcher.note("the disk is full: no further cells are started; what is finished stays")
        try:
            self.folder.record_failure(entry)
        except OSError as error:
            self.watcher.note(f"the failure of {planned.cell.name} could not be written down: {error}")
