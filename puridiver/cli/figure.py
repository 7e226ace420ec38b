"""`puridiver figure`: a figure of the paper from the runs of a grid."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from puridiver.cli.common import add_command, add_plugin_option, print_note

EXAMPLES = """\
examples:
  puridiver figure figure-tasks                                    after `puridiver grid figure-tasks`
  puridiver figure figure-tasks runs/tasks --out tasks.png
  puridiver figure figure-alpha runs/alpha --data cifar10 --out alpha.pdf
"""
ENDINGS = (".png", ".svg", ".pdf")


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "figure", "draw a figure of the paper from the runs of a grid", EXAMPLES)
    parser.add_argument("preset", metavar="PRESET", help="a figure-... name from `puridiver grid --list`")
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="the grid's folder (default: runs/PRESET)")
    parser.add_argument("--data", nargs="+", default=[], help="data sets to draw (default: those the folder has)")
    parser.add_argument("--out", metavar="FILE", help="picture: .png, .svg or .pdf (default: PRESET.png)")
    add_plugin_option(parser)
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from puridiver.grid.presets import PRESETS
    from puridiver.report.figures import draw, save
    from puridiver.report.reading import find_runs

    names = [name for name, preset in PRESETS.items() if preset.figure]
    if args.preset not in names:
        raise ValueError(
            f"a figure should be one of {', '.join(names)}, but got {args.preset!r}; for a grid of your own: "
            "`puridiver plot FOLDER --figure tasks`"
        )
    out = Path(args.out or f"{args.preset}.png")
    if out.suffix not in ENDINGS:
        raise ValueError(f"a picture should end in {', '.join(ENDINGS)}, but got {out.name!r}")
    folders = runs_of(args.preset, Path(args.folder or f"runs/{args.preset}"), args.data)
    drawing = draw(PRESETS[args.preset].figure, find_runs(folders)[0])
    if drawing.note:
        print_note(drawing.note)
    print(save(drawing, out))
    return 0


def runs_of(preset: str, folder: Path, data: list[str]) -> list[Path]:
    """The run folders in a grid's folder that belong to the preset, in the order of its methods."""
    from puridiver.errors import DataError
    from puridiver.grid.presets import PRESETS
    from puridiver.grid.spec import cells, find_grid
    from puridiver.grid.table import read

    rows = read([folder])
    rows = rows[rows["grid"] == preset]
    present = [name for name in PRESETS[preset].sizes if name in set(rows["data"])]
    ids = {(row["method"], row["column"], row["seed"]): row["id"] for row in rows.to_dict("records")}
    found = []
    for cell in cells(find_grid(preset, data or present)) if present else []:
        id = ids.get((cell.method, cell.column, cell.config.seed))
        found += [] if id is None else folder.glob(f"cells/*-{id[:10]}")
    if not found:
        raise DataError(f"{folder} holds no finished runs of {preset}: run `puridiver grid {preset} --out {folder}`")
    return found
