"""Parses the command line, runs the sub-command, turns errors into exit codes.

Exit codes: 0 success; 1 a check found a difference (`verify`), a cell failed (`grid`), a run could not keep its
learner, or a plugin raised; 2 wrong usage, bad input or missing data; 3 out of memory; 130 interrupted with Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import re
import sys
import traceback
from collections.abc import Sequence

from puridiver._version import __version__
from puridiver.cli.common import CommandParser, forget_stdout
from puridiver.errors import PuridiverError

# Each module has `add_parser(subparsers)`; heavy imports (torch) happen only in its handler, so that --help is quick.
COMMANDS = ("figure", "report")

EMPTY_OPTION = re.compile(r"--[a-z-]+=\s*")

EXAMPLES = """\
examples:
  puridiver run                                  PuriDivER on digits, blurry-10, 40 % wrong labels
  puridiver run --sampler rsv --trainer plain    the plainest baseline on the same stream
  puridiver predict runs/mine new-pictures/      what a finished run's learner takes images for
  puridiver learn runs/mine february.csv --out learners/now    the learner goes on with new images
  puridiver audit my-images.npz --out audit      which labels of your own data look wrong
  puridiver grid table1 --data digits            the paper's Table 1, on digits
  puridiver methods                              every sampler, trainer and recipe
  puridiver data list                            data sets and whether they are here
  puridiver stream make --help                   contaminated, blurry streams of your own
"""


def build_parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="puridiver",
        description="Learn online from an image stream whose labels are partly wrong and whose classes drift.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"puridiver {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of an error")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"puridiver.cli.{name}").add_parser(subparsers)
    return parser


def _unknown(parser: argparse.ArgumentParser, chosen: list[str], words: list[str]) -> str:
    """What is wrong with words that the `chosen` command does not know, and which of its options are nearly that."""
    inner = parser
    for name in chosen:
        (inner,) = (action.choices[name] for action in inner._actions if isinstance(action, argparse._SubParsersAction))
    options = [option for action in inner._actions for option in action.option_strings]
    near = [match for word in words for match in difflib.get_close_matches(word.partition("=")[0], options, 1, 0.75)]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"unrecognized arguments: {' '.join(words)}{meant} (`{inner.prog} --help` lists what there is)"


def main(argv: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal or a pipe cannot show should not end the work
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = build_parser()
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(2)
    if any(not word.strip() or EMPTY_OPTION.fullmatch(word) for word in words):
        parser.error("an argument is empty: is a variable of the shell not set?")
    if os.environ.get("COLUMNS", "").strip() == "0":  # said by some shells without a terminal; nothing would be shown
        del os.environ["COLUMNS"]
    args, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(
            _unknown(parser, [name for name in (args.command, getattr(args, "action", None)) if name], unknown)
        )
    args.command_line = words  # to tell how an interrupted command goes on
    try:
        _load(getattr(args, "plugins", []))
        return int(args.handler(args) or 0)
    except KeyboardInterrupt:
        print("puridiver: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `puridiver ... | head`: the reader left, which is no error of ours
        forget_stdout()
        return 0
    except Exception as error:
        if (plugin := _plugin_in(error)) is None:
            return _told(error, args.debug)
        traceback.print_exc()  # its author needs to see where
        told = f"the plugin {plugin} raised {type(error).__name__}: {_in_words(error)}"
        print(f"puridiver: error: {told} (above is where)", file=sys.stderr)
        return 1


def _told(error: Exception, debug: bool) -> int:
    """Says in a line what is the user's to mend, and gives its exit code; raises what is a fault of our own."""
    if isinstance(error, PuridiverError | ValueError | OSError):
        code, told = 2, _in_words(error)
    elif isinstance(error, RecursionError):
        code, told = 2, "a file is nested too deeply to be read (--debug shows which)"
    # torch.OutOfMemoryError, which is not imported here for the sake of --help
    elif isinstance(error, RuntimeError) and not debug and "out of memory" in str(error).lower():
        code, told = 3, "out of memory: try a smaller --memory or --network, or --device cpu"
    else:
        raise error
    if debug:
        traceback.print_exc()
    print(f"puridiver: error: {told}", file=sys.stderr)
    return code


def _plugin_in(error: Exception) -> str | None:
    """The file of the plugin that an error came from; None where it came from elsewhere, or was meant for the user."""
    if isinstance(error, PuridiverError):
        return None
    files = [
        str(frame.f_globals.get("__file__"))
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith("puridiver_plugin_")
    ]
    return files[-1] if files else None


def _load(places: Sequence[str]) -> None:
    if places:
        from puridiver import plugins

        for place in places:
            plugins.add(place)


def _in_words(error: Exception) -> str:
    """The error's message; the system's own without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)
