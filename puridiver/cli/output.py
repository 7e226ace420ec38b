"""What commands print: lines, notes, tables and progress. No control code of a name reaches the terminal."""

from __future__ import annotations

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


def say(text: object) -> None:
    """Print a result."""
    print(plain(text))


def tell(text: object) -> None:
    """Print on standard error what is no result."""
    print(plain(text), file=sys.stderr)


def note(text: object) -> None:
    """Print a remark on standard error."""
    tell(f"note: {text}")


def say_json(value: Any) -> None:
    from puridiver.files import to_json

    print(to_json(value, indent=1))


def say_table(rows: Iterable[Sequence[object]], headings: Sequence[str], title: str = "") -> None:
    """Print a table that fits the terminal. Columns whose heading ends in ">" are aligned right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title), style="bold") if title else None, title_justify="left")
    table.show_header = headings[0] != ""
    for heading in headings:
        justify: Any = "right" if heading.endswith(">") else "left"
        table.add_column(heading.rstrip(">"), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell).replace("\n", " ")) for cell in row))
    console(sys.stdout).print(table, highlight=False)


def console(file: Any) -> Console:
    """A console that lets `main` handle a closed pipe; a pipe has no edge to wrap at."""
    from rich.console import Console

    class PipeAware(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    made = PipeAware(file=file)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 160
    return made


def forget_stdout() -> None:
    """Let nothing fail that is still to be printed: the reader has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def percent(value: float | None) -> str:
    """One decimal, no minus before a zero, "-" for what is not known."""
    return "-" if value is None or value != value else f"{value:z.1%}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


class Progress:
    """A bar with the time left, on a terminal; nothing elsewhere."""

    def __init__(self, hidden: bool = False) -> None:
        from rich import progress

        to, self.hidden = console(sys.stderr), hidden
        self.bar = progress.Progress(
            progress.TextColumn("{task.description:<36}", markup=False), progress.BarColumn(),
            progress.TaskProgressColumn(), progress.TimeElapsedColumn(), progress.TimeRemainingColumn(),
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

    def count(self, done: int, total: int | None) -> None:
        """Show how much of a long reading or download is done."""
        self.bar.update(self.task, completed=done, total=total, description="reading files")

    def event(self, event: dict[str, Any]) -> None:
        """Print the figures of a task that has ended."""
        if not self.hidden:
            accuracy, purity = percent(event["accuracy"]), percent(event["memory_purity"])
            tell(f"after task {event['task'] + 1}: accuracy {accuracy}, memory purity {purity}")
