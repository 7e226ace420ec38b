"""What the sub-commands share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class CommandParser(argparse.ArgumentParser):
    """Lets options stand between words that are no options: `puridiver table GRID --plugin FILE FOLDER`.

    argparse itself takes all such words at the first of them, and does not know those that come after an option.
    """

    _mixing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        words = sys.argv[1:] if args is None else list(args)
        if self._mixing or "--" in words or not self._takes_a_list():  # (the two passes would lose the sign)
            return super().parse_known_args(words, namespace)
        self._mixing = True  # what follows may come back here, for the options first and then for the words
        try:
            return self.parse_known_intermixed_args(words, namespace)
        finally:
            self._mixing = False

    def _takes_a_list(self) -> bool:
        """Whether some words may be missing or repeated, and none of them is a sub-command with options of its own."""
        counts = [action.nargs for action in self._get_positional_actions()]
        return argparse.PARSER not in counts and any(count in ("*", "+", "?") for count in counts)


def add_command(subparsers: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    """A sub-command whose --help ends with examples."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_plugin_option(parser: argparse.ArgumentParser) -> None:
    """`--plugin`, which `main` obeys before the command's handler runs."""
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE", dest="plugins",
        help="a Python file (or module) with methods or networks of your own; may be repeated (docs/METHODS.md)",
    )  # fmt: skip


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Sub-parsers for the actions of a command; the command alone shows its help, as a wrong use."""

    def show_help(args: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return 2

    parser.set_defaults(handler=show_help)
    return parser.add_subparsers(dest="action", metavar="ACTION")


def check_outside(data: Path, out: Path) -> None:
    """An error where results would lie in a folder of data, whose folders are taken for classes or parts.

    By the names as they are and by what links lead to: either way there would be one folder more among the data.
    """
    from puridiver.errors import DataError

    if not data.is_dir():
        return
    for found in (os.path.abspath, os.path.realpath):
        if Path(found(out)).is_relative_to(found(data)):
            place = os.path.realpath(data)
            beside = f"{place}-{'out' if os.path.realpath(out) == place else Path(os.path.abspath(out)).name}"
            raise DataError(
                f"--out {out} lies in the folder of the data ({data}), where folders are taken for classes: name a "
                f"folder outside of it, such as {beside} (to go on with what {out} holds, move it there first)"
            )


def print_note(text: str) -> None:
    """On standard error, so that what is printed for programs stays as it is."""
    print(f"note: {text}", file=sys.stderr)


@contextmanager
def told_afterwards(tell: Callable[[], None]) -> Iterator[None]:
    """Do what must not be lost, then `tell` of it; where it fails, that nobody listens must not hide the error."""
    try:
        yield
    except BaseException:
        with suppress(BrokenPipeError):
            tell()
        raise
    tell()


def forget_stdout() -> None:
    """Once its reader has left: what is still to be flushed would be an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console(**settings: Any) -> Console:
    """One for standard output that lets a closed pipe be told apart: rich's own ends the program with an error."""
    from rich.console import Console

    class Patient(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `main` knows what to do

    return Patient(**settings)


@contextmanager
def decoding_progress() -> Iterator[Callable[[int, int], None]]:
    """A bar while image files are decoded, on a terminal; on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("decoding images", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
