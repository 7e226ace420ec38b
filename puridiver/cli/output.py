"""What commands print: lines, notes, tables and progress. No control code of a name reaches the terminal."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import Console

# Control characters other than tab and newline, and those that turn the direction of text.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(text: object) -> str:
    """The text with control characters spelt out: a class name must not move the cursor or set a colour."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def say(text: object = "") -> None:
    """Print a result, on standard output."""
    print(plain(text))


def note(text: object) -> None:
    """Print a remark on standard error, so that programs can read the results alone."""
    print(f"note: {plain(text)}", file=sys.stderr)


def tell(text: object) -> None:
    """Print on standard error what is neither a result nor a remark."""
    print(plain(text), file=sys.stderr)


def say_json(value: Any) -> None:
    """Print a value as JSON; what JSON does not know (nan, arrays) as run folders write it."""
    from puridiver.files import to_json

    print(to_json(value, indent=1))


def say_table(rows: Iterable[Sequence[object]], headings: Sequence[str] = (), title: str = "") -> None:
    """Print a table that fits the terminal. Columns whose heading ends in ">" are aligned right."""
    from rich.table import Table
    from rich.text import Text

    lines = [[Text(plain(cell).replace("\n", " ")) for cell in row] for row in rows]
    table = Table(title=Text(plain(title), style="bold") if title else None, title_justify="left", header_style="bold")
    table.show_header = any(heading.rstrip(">") for heading in headings)
    for heading in headings:
        right = heading.endswith(">")
        table.add_column(heading.rstrip(">"), justify="right" if right else "left", overflow="fold")
    for line in lines:
        table.add_row(*line)
    console(sys.stdout).print(table, highlight=False)


def console(file: Any = None) -> Console:
    """A console for standard error, or for a file; a pipe has no edge to wrap at."""
    from rich.console import Console

    class PipeAware(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the program; `main` handles it

    made = PipeAware(file=file or sys.stderr)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 160
    return made


def forget_stdout() -> None:
    """Let nothing fail that is still to be printed: the reader has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def percent(value: float | None) -> str:
    """One decimal, no minus before a zero, "-" for what is not known."""
    return "-" if value is None or value != value else f"{value:z.1%}"


def meant(word: str, known: Iterable[str]) -> str:
    """What an unknown word may stand for, as the end of a message."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def counted(number: int, noun: str) -> str:
    """ "1 file", "2 files"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Rounded as one would say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """A bar with the time left, on a terminal; nothing elsewhere."""

    def __init__(self, hidden: bool = False) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        to = console()
        self.hidden = hidden
        self.bar = Bar(
            TextColumn("{task.description:<36}", markup=False), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"),
            console=to, transient=True, disable=hidden or not to.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("preparing", total=None)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def start(self, total: float) -> None:
        self.bar.update(self.task, total=total)

    def advance(self, amount: float, text: str) -> None:
        self.bar.update(self.task, advance=amount, description=plain(text))

    def decoding(self, done: int, total: int) -> None:
        """Show how many image files are decoded."""
        self.bar.update(self.task, completed=done, total=total, description="decoding images")

    def downloading(self, done: int, total: int | None) -> None:
        self.bar.update(self.task, completed=done, total=total, description=f"downloading, {done / 1e6:.0f} MB")

    def event(self, event: dict[str, Any]) -> None:
        """Print the figures of a task that has ended."""
        if not self.hidden:
            purity = percent(event["memory_purity"])
            tell(f"after task {event['task'] + 1}: accuracy {event['accuracy']:6.1%}, memory purity {purity:>6}")
