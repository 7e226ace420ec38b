"""`puridiver table`: finished runs as tables."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from puridiver.cli.common import add_command

EXAMPLES = """\
examples:
  puridiver run --ledger results/digits.jsonl        add a run to a ledger
  puridiver table results/digits.jsonl               mean ± standard deviation over seeds
  puridiver table results/digits.jsonl --format markdown --into README.md --marker digits
      write the table between <!-- digits:begin --> and <!-- digits:end --> of a page
"""


def add_parser(subparsers: Any) -> None:
    table = add_command(
        subparsers,
        "table",
        "print the finished runs of a ledger, with mean and deviation over seeds",
        EXAMPLES,
    )
    table.add_argument("ledger", nargs="+", help="JSON-lines file(s) written by `puridiver run --ledger`")
    table.add_argument("--format", choices=("text", "markdown", "csv"), default="text", help="(default: text)")
    table.add_argument("--into", metavar="PAGE", help="write the table into this page instead of printing it")
    table.add_argument("--marker", default="table", help="name of the markers in the page (default: table)")
    table.set_defaults(handler=handle_table)


def handle_table(args: argparse.Namespace) -> int:
    from pathlib import Path

    from puridiver.report import FORMATS, insert_between_markers, summarise
    from puridiver.runs import read_ledger

    rows = [row for ledger in args.ledger for row in read_ledger(Path(ledger))]
    text = FORMATS[args.format](summarise(rows))
    if args.into:
        insert_between_markers(Path(args.into), args.marker, text)
    else:
        sys.stdout.write(text + "\n")
    return 0
