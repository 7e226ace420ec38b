"""`puridiver merge`: the folders of a grid that several machines ran, put together into one."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from puridiver.cli.common import add_command

EXAMPLES = """\
Finished runs are copied with their folders, so that table, figure, plot and report show all of them, and
`puridiver grid ... --out ALL` goes on with what is left. The folders that are merged stay as they are. Where one run
has two results, or one cell was run by other code or with other settings, nothing is copied and the error names it.
After Ctrl-C or a full disk start the same command again.

examples:
  puridiver merge runs/part1 runs/part2 runs/part3 --out runs/table1
      after `puridiver grid table1 --shard 1/3 --out runs/part1` on one machine, 2/3 and 3/3 on two others;
      `puridiver table table1 runs/table1` is then the whole table
  puridiver merge runs/more --out runs/table1
      add to a folder that is there
  puridiver merge runs/old runs/new --out runs/both --keep-all
      also where both have a cell, by other code or with other settings
"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "merge", "put the folders of a grid that several machines ran into one", EXAMPLES)
    parser.add_argument(
        "places", nargs="+", metavar="FOLDER",
        help="folders of `puridiver grid`; a ledger alone gives rows for tables, and no figures",
    )  # fmt: skip
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where all runs go; may have some already")
    parser.add_argument(
        "--keep-all", action="store_true",
        help="also take runs of one cell by other code or settings; tables show those with most runs",
    )  # fmt: skip
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from pathlib import Path

    from puridiver.grid.merge import merge

    done = merge([Path(place) for place in args.places], Path(args.out), args.keep_all)
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{args.out}: {done.total} run{'s' * (done.total != 1)}, {done.added} of them new")
    return 0
