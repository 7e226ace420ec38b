"""`puridiver table`: finished runs as tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from puridiver.cli.common import add_command, add_plugin_option

EXAMPLES = """\
examples:
  puridiver table runs/ledger.jsonl                  everything that a ledger has, by method and column
  puridiver table table1 runs/table1                 the paper's Table 1 from a grid's folder, beside its figures
  puridiver table table1 runs/a runs/b --format latex    several ledgers are read as one
  puridiver table mine.toml --against "rsv + plain"  differences seed by seed, with an interval and p
  puridiver table table1 --against paper             against the paper's figures
  puridiver table table1 --metric memory_purity      another figure of the runs
"""


def add_parser(subparsers: Any) -> None:
    table = add_command(subparsers, "table", "print finished runs with mean and deviation over seeds", EXAMPLES)
    table.add_argument(
        "words", nargs="+", metavar="[GRID] LEDGER",
        help="ledgers, or folders of `puridiver grid`; a preset's name or a grid file before them asks for its table "
        "(alone: from runs/NAME)",
    )  # fmt: skip
    table.add_argument("--format", choices=("text", "markdown", "csv", "latex"), default="text", help="(default: text)")
    table.add_argument("--data", nargs="+", default=[], help="data sets of a preset's table (default: those there are)")
    table.add_argument("--methods", nargs="+", default=[], metavar="TITLE", help="of a grid's table only these rows")
    table.add_argument("--noises", nargs="+", default=[], metavar="NOISE", help="of a grid's table only these columns")
    table.add_argument(
        "--against", metavar="METHOD",
        help="compare every method with this one, seed by seed, or with the paper: difference, 95 %% interval, p",
    )  # fmt: skip
    table.add_argument("--metric", default="last_accuracy", help="the figure to show (default: last_accuracy)")
    add_plugin_option(table)
    table.set_defaults(handler=handle_table)


def handle_table(args: argparse.Namespace) -> int:
    from puridiver.grid.presets import PRESETS
    from puridiver.grid.spec import find_grid, with_methods, with_noises
    from puridiver.grid.table import build, read

    name, *places = args.words
    if name in PRESETS or name.endswith(".toml"):
        rows = read(places or [f"runs/{Path(name).stem}"])
        sizes = PRESETS[name].sizes if name in PRESETS else {}
        grids = [find_grid(name, args.data or [data for data in sizes if data in set(rows["data"])])]
        grids = with_methods(grids, [*args.methods, *filter(None, [args.against])]) if args.methods else grids
        grids = with_noises(grids, args.noises) if args.noises else grids
        table = build(rows, grids[0], args.metric, args.against)
    else:
        table = build(read(args.words), None, args.metric, args.against)
    sys.stdout.write(getattr(table, f"to_{args.format}")().rstrip("\n") + "\n")
    return 0
