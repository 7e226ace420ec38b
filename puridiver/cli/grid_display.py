"""What `puridiver grid` shows while it runs: bars on a terminal, else a line for each finished cell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from puridiver.grid.engines.base import Event


class GridDisplay:
    """One bar for the grid with the time left, and one for each cell that runs."""

    def __init__(self, console: Console, hidden: bool = False) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.console, self.hidden = console, hidden
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[text]}"), console=console, transient=True,
            disable=hidden or not console.is_terminal,
        )  # fmt: skip
        self.running: dict[str, TaskID] = {}
        self.shares: dict[str, float] = {}
        self.ended, self.waiting, self.started = 0, 0, time.monotonic()
        self.first_guess: float | None = None

    def __enter__(self) -> GridDisplay:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def begin(self, done: int, waiting: int, seconds: float | None) -> None:
        self.waiting, self.first_guess, self.started = waiting, seconds, time.monotonic()
        guess = f", about {duration(seconds)}" if seconds else ""
        self.note(f"{done} cells are done, {waiting} to run{guess}")
        self.total = self.bar.add_task("grid", total=max(waiting, 1), text="")

    def note(self, text: str) -> None:
        if not self.hidden:
            self.console.print(text, highlight=False, soft_wrap=True)

    def happened(self, event: Event, name: str) -> None:
        if event.kind == "started":
            self._forget(event.id)
            self.running[event.id] = self.bar.add_task(name, total=1, text="")
        elif event.kind == "advanced" and event.id in self.running:
            self.shares[event.id] = event.detail["share"]
            self.bar.update(
                self.running[event.id], completed=event.detail["share"], text=event.detail["text"].partition(":")[2]
            )
        elif event.kind == "lost":
            self._forget(event.id)
            self.note(f"{name} is tried again: {event.detail['error'].splitlines()[0]}")
        elif event.kind in ("finished", "failed"):
            self._forget(event.id)
            self.ended += 1
            self._tell_end(event, name)
        self.bar.update(self.total, completed=self._progress(), text=self._time_left())

    def _tell_end(self, event: Event, name: str) -> None:
        if event.kind == "failed":
            self.note(f"{name} failed: {event.detail['error'].splitlines()[0]}")
        elif not self.console.is_terminal:
            found = f"{event.detail['last_accuracy']:.1%} in {event.detail['seconds']:.1f} s"
            self.note(f"[{self.ended}/{self.waiting}] {name}: {found}; {self._time_left()}")

    def _forget(self, key: str) -> None:
        self.shares.pop(key, None)
        if key in self.running:
            self.bar.remove_task(self.running.pop(key))

    def _progress(self) -> float:
        return self.ended + sum(self.shares.values())

    def _time_left(self) -> str:
        """By the pace so far; at the very start by what the ledger says."""
        done, elapsed = self._progress(), time.monotonic() - self.started
        if done < 1:
            return f"about {duration(max(self.first_guess - elapsed, 0))} left" if self.first_guess else ""
        return f"about {duration(elapsed / done * (self.waiting - done))} left"


def duration(seconds: float) -> str:
    """Rounded as one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
