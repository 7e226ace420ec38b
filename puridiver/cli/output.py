"""What commands print: lines, notes, tables and progress. Control characters in names never reach the terminal."""

import io
import re
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, Self

from rich import progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from puridiver import runs
from puridiver.files import to_json

# Control characters other than tab and newline, and those that turn the direction of text.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
WIDE = 160  # columns where there is no terminal
FIRST_SECONDS = 3.0  # of work, from which the time of the rest is judged


def plain(text: object) -> str:
    """The text with control characters spelt out: a class name must not move the cursor or set a colour."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def say(text: object) -> None:
    """Print a result."""
    print(plain(text))


def tell(text: object) -> None:
    """Print a message on standard error."""
    print(plain(text), file=sys.stderr)


def note(text: object) -> None:
    """Print a remark on standard error."""
    tell(f"note: {text}")


def say_json(value: Any) -> None:
    print(to_json(value, indent=1))


def say_table(rows: Iterable[Sequence[object]], headings: Sequence[str], title: str = "") -> None:
    """Print a table that fits the terminal. Columns whose heading ends in ">" are aligned right."""
    table = Table(title=Text(plain(title)) if title else None, title_justify="left", show_header=headings[0] != "")
    for heading in headings:
        justify: Any = "right" if heading.endswith(">") else "left"
        table.add_column(heading.rstrip(">"), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell).replace("\n", " ")) for cell in row))
    drawn = io.StringIO()
    Console(file=drawn, width=shutil.get_terminal_size((WIDE, 0)).columns).print(table)
    print(drawn.getvalue(), end="")


def say_problems(name: object, problems: Sequence[str]) -> int:
    """Print what a check found; 0 if that is nothing, else 1."""
    for problem in problems or ["good"]:
        say(f"{name}: {problem}")
    return int(bool(problems))


def percent(value: float | None) -> str:
    """One decimal, no minus before a zero, "-" for what is not known."""
    return "-" if value is None or value != value else f"{value:z.1%}"


class Progress(runs.Progress):
    """A progress bar with the time left, on a terminal; lines of text anywhere."""

    def __init__(self, hidden: bool = False) -> None:
        to, self.hidden = Console(stderr=True), hidden
        self.bar = progress.Progress(
            progress.TextColumn("{task.description:<36}", markup=False), progress.BarColumn(),
            progress.TaskProgressColumn(), progress.TimeElapsedColumn(), progress.TimeRemainingColumn(),
            console=to, transient=True, disable=hidden or not to.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("preparing", total=None)
        self.start(0)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def start(self, total: float, done: float = 0) -> None:
        """Begin work of this size, of which `done` was finished earlier."""
        self.total, self.done_before, self.done, self.began = total, done, done, time.monotonic()
        self.says_time = total > 0
        self.bar.reset(self.task, total=total or None, completed=int(done))

    def tell(self, text: str) -> None:
        """Print a line unless progress is hidden."""
        if not self.hidden:
            tell(text)

    def advance(self, amount: float, text: str) -> None:
        """Count work that was done; after the first seconds say once how long the rest will take."""
        self.done += amount
        self.bar.update(self.task, advance=amount, description=plain(text))
        if self.says_time and amount and time.monotonic() - self.began >= FIRST_SECONDS:
            self.says_time = False
            self.tell(f"{self.done / self.total:.0%} done, {self.time_left()}")

    def time_left(self) -> str:
        """How long the rest takes at the rate so far."""
        seconds = (time.monotonic() - self.began) * (self.total - self.done) / max(self.done - self.done_before, 1)
        minutes = round(seconds / 60)
        words = f"{minutes:,} minutes" if minutes > 1 else "a minute" if minutes else "less than a minute"
        return f"{'about ' * bool(minutes)}{words} left"

    def count(self, done: int, total: int | None) -> None:
        """Show how much of a long reading or download is done."""
        self.bar.update(self.task, completed=done, total=total, description="reading files")

    def event(self, event: dict[str, Any]) -> None:
        """Print the figures of a task that has ended."""
        accuracy, purity = percent(event["accuracy"]), percent(event["memory_purity"])
        left = f"; {self.time_left()}" if self.done < self.total else ""
        self.tell(f"after task {event['task'] + 1}: accuracy {accuracy}, memory purity {purity}{left}")
