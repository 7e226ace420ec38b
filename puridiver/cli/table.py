"""`puridiver table`: finished runs as tables."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command, add_plugin_option, print_note
from puridiver.streams.names import ORDERS, has_order

if TYPE_CHECKING:
    from puridiver.grid.cells import Grid

EXAMPLES = """\
examples:
  puridiver table results/digits.jsonl               what `puridiver run --ledger results/digits.jsonl` put there
  puridiver table runs/a runs/b                      runs by their folders
  puridiver table table1 runs/table1                 the paper's Table 1 from a grid's folder, beside its figures
  puridiver table table1 results/cifar10.jsonl --any-code --format latex
  puridiver table mine.toml --against "rsv + plain"  differences seed by seed, with an interval and p
  puridiver table "table1?noises=sym-40&seeds=1&recipe=paper" results/cifar10.jsonl --any-code
      a part of it: some noises, methods (ONE|OTHER) or seeds, or the runs of one recipe
  puridiver table results/digits.jsonl --format markdown --into README.md --marker digits
      write the table between <!-- digits:begin --> and <!-- digits:end --> of a page
"""


def add_parser(subparsers: Any) -> None:
    table = add_command(
        subparsers,
        "table",
        "print finished runs with mean and deviation over seeds: of a ledger, or as a table of the paper",
        EXAMPLES,
    )
    table.add_argument(
        "ledger", nargs="+", metavar="LEDGER",
        help="JSON-lines files written by `puridiver run --ledger`, or folders of `puridiver run --out` or of "
        "`puridiver grid`; a preset's name or "
        "a grid file (.toml) before them, or a part of one, asks for its table (alone: from runs/NAME)",
    )  # fmt: skip
    table.add_argument("--format", choices=("text", "markdown", "csv", "latex"), default="text", help="(default: text)")
    table.add_argument("--data", nargs="+", default=[], help="data sets of a preset's table (default: those there are)")
    table.add_argument("--any-code", action="store_true", help="let a preset's table mix runs of different code")
    table.add_argument(
        "--order", choices=ORDERS,
        help="of runs on published streams those in this order alone: tasks shuffled, or as the files list them "
        "(default: for a preset's table the one with more runs)",
    )  # fmt: skip
    table.add_argument(
        "--long", action="store_true",
        help="a preset's table with a line a cell: best epoch, an independent rerun's figure, purity, diversity, time",
    )  # fmt: skip
    table.add_argument("--methods", nargs="+", default=[], metavar="TITLE", help="of a preset's table only these rows")
    table.add_argument(
        "--noises", nargs="+", default=[], metavar="NOISE", help="of a preset's table only these columns"
    )
    table.add_argument(
        "--against", metavar="TITLE",
        help="every method of a preset's table against this one, seed by seed: difference, 95 %% interval, p",
    )  # fmt: skip
    table.add_argument(
        "--metric",
        choices=(
            "last", "average", "average-seen", "anytime", "anytime-seen", "forgetting", "bwt", "purity", "diversity",
        ),
        help="what a preset's table shows, and --against compares (default: last accuracy); -seen: on the classes that "
        "have come by then; bwt: backward transfer",
    )  # fmt: skip
    table.add_argument("--into", metavar="PAGE", help="write the table into this page instead of printing it")
    table.add_argument("--marker", default="table", help="name of the markers in the page (default: table)")
    add_plugin_option(table)
    table.set_defaults(handler=handle_table)


def handle_table(args: argparse.Namespace) -> int:
    from pathlib import Path

    from puridiver.report import insert_between_markers

    if not _names_grid(args.ledger[0]):
        _refuse_options_of_grids(args)
    if args.metric and args.long:
        raise ValueError("--long has a column for each metric: leave --metric out")
    if args.long and args.against:
        raise ValueError("--long and --against are two tables: say one of them")
    text = _grid_table(args) if _names_grid(args.ledger[0]) else _ledger_table(args)
    if args.into:
        insert_between_markers(Path(args.into), args.marker, text)
    else:
        sys.stdout.write(text + "\n")
    return 0


def _refuse_options_of_grids(args: argparse.Namespace) -> None:
    """What a table of a ledger alone would not heed."""
    options = ("long", "against", "metric", "methods", "noises", "data", "any_code")
    if needy := [name for name in options if getattr(args, name)]:
        option = "--" + needy[0].replace("_", "-")
        raise ValueError(f"{option} needs a preset's name or a grid file before the ledger, such as table1")


def _names_grid(word: str) -> bool:
    """Whether the first word is a preset or a grid file; a file that is there is a ledger whatever its name."""

    from puridiver.grid.chosen import base_of
    from puridiver.grid.presets import PRESETS

    base = base_of(word)
    return base.endswith(".toml") or (
        base in PRESETS and not os.path.isfile(word)
    )  # (pathlib's raises where the word is too long)


def _grid_table(args: argparse.Namespace) -> str:
    from pathlib import Path

    from puridiver import report
    from puridiver.grid.against import CSV_HEADINGS, against
    from puridiver.grid.against import HEADINGS as AGAINST
    from puridiver.grid.chosen import base_of
    from puridiver.grid.detail import CSV_HEADINGS as LONG_CSV_HEADINGS
    from puridiver.grid.detail import HEADINGS, detail, detail_numbers
    from puridiver.grid.results import read_results
    from puridiver.grid.table import FORMATS
    from puridiver.report.table import as_sentence, latex_label, latex_table

    name, *places = args.ledger
    if more := [place for place in places if _names_grid(place)]:
        raise ValueError(f"name one grid, then where its runs are; {more[0]} is another: print its table by itself")
    results = read_results(name, [Path(place) for place in places or [f"runs/{Path(base_of(name)).stem}"]], args.data)
    results = dataclasses.replace(results, rows=_in_order(results.rows, args.order))
    results = dataclasses.replace(results, grid=_part(results.grid, args))
    if args.against:
        compared, notes = against(results.grid, results.rows, args.against, args.metric or "last", args.any_code)
        if args.format == "csv":
            return report.FORMATS["csv"]([line.numbers() for line in compared], CSV_HEADINGS)
        lines, headings = [line.text() for line in compared], list(AGAINST)
    elif args.long and args.format == "csv":
        return report.FORMATS["csv"](detail_numbers(results.grid, results.rows, args.any_code), LONG_CSV_HEADINGS)
    elif args.long:
        (lines, notes), headings = detail(results.grid, results.rows, args.any_code), list(HEADINGS)
    else:
        return FORMATS[args.format](results.table(args.any_code, args.metric or "last"))
    if args.format == "latex":
        which = ("against", args.against, args.metric or "") if args.against else ("long",)
        caption, note = as_sentence(results.grid.title), as_sentence("; ".join(notes))
        return latex_table(headings, lines, caption, latex_label(results.grid.name, *which), note)
    return f"{report.FORMATS[args.format](lines, headings)}\n\n{_notes(notes, args.format)}."


def _part(grid: Grid, args: argparse.Namespace) -> Grid:
    """The rows and columns that were asked for; the one to compare with is always there."""
    from puridiver.grid.define import with_methods, with_noises

    titles = [*args.methods, *([args.against] if args.against else [])] if args.methods else []
    grids = with_methods([grid], titles) if titles else [grid]
    return (with_noises(grids, args.noises) if args.noises else grids)[0]


def _ledger_table(args: argparse.Namespace) -> str:
    from pathlib import Path

    from puridiver.grid.results import ledger_at
    from puridiver.report import FORMATS
    from puridiver.report.ledger import read_rows, row_of_run
    from puridiver.report.numbers import summary_numbers
    from puridiver.report.table import summarise_titled, summary_notes
    from puridiver.report.titles import Title, titles_beside

    rows: list[dict[str, Any]] = []
    titles: dict[str, Title] = {}
    for place in map(Path, args.ledger):
        run = row_of_run(place)
        rows += read_rows(ledger_at(place)) if run is None else [run]
        titles |= titles_beside(place)
    rows = _in_order(rows, args.order)
    if short := sum(row["shortened"] for row in rows):
        print_note(
            f"{short} of {len(rows)} runs are shortened (--stream-limit, --test-limit): they are for a quick look, and "
            "enter no table of a grid, only this list"
        )
    if args.format == "csv":
        return FORMATS["csv"](*summary_numbers(rows, titles))
    text, notes = FORMATS[args.format](*summarise_titled(rows, titles)), _notes(summary_notes(rows), args.format)
    if not notes:
        return text
    return f"{text}\n% {notes}" if args.format == "latex" else f"{text}\n\n{notes}."


def _notes(notes: Sequence[str], form: str) -> str:
    from puridiver.report.table import markdown_text

    text = "; ".join(notes)
    return markdown_text(text) if form == "markdown" else text


def _in_order(rows: Sequence[dict[str, Any]], order: str | None) -> list[dict[str, Any]]:
    return [row for row in rows if order is None or has_order(str(row["stream"]), order)]
