"""`puridiver figure`: a figure of the paper from the runs of a grid."""

from __future__ import annotations

import argparse
import itertools
import shlex
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
    parser.add_argument("--any-code", action="store_true", help="also draw runs of other code")
    parser.add_argument("--out", metavar="FILE", help="picture: .png, .svg or .pdf (default: PRESET.png)")
    add_plugin_option(parser)
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    import importlib

    from puridiver.errors import DataError
    from puridiver.grid.presets import PRESETS

    names = [name for name, preset in PRESETS.items() if preset.figure]
    if args.preset not in names:
        raise ValueError(
            f"a figure should be one of {', '.join(names)}, but got {args.preset!r}; for a grid of your own: "
            "`puridiver plot FOLDER --figure tasks`"
        )
    out = Path(args.out or f"{args.preset}.png")
    if out.suffix not in ENDINGS:
        raise ValueError(f"a picture should end in {', '.join(ENDINGS)}, but got {out.name!r}")
    folders = runs_of(args.preset, Path(args.folder or f"runs/{args.preset}"), args.data, args.any_code)
    try:
        draw = importlib.import_module("puridiver.report.figures").draw
        print(draw(PRESETS[args.preset].figure, folders, out, tell=print_note))
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise DataError("figures need matplotlib: pip install 'puridiver[plot]'") from error
    return 0


def runs_of(preset: str, folder: Path, data: list[str], any_code: bool) -> list[Path]:
    """The run folders of a grid's folder that belong to the preset."""
    from puridiver.errors import DataError
    from puridiver.grid.results import read_results

    results = read_results(preset, [folder], data)
    found = results.run_folders(any_code)
    if not found:
        raise DataError(f"{folder} holds no finished runs of {preset}: run `puridiver grid {preset} --out {folder}`")
    if others := results.left_out(any_code):
        are = "run is" if others == 1 else "runs are"
        print_note(f"{others} finished {are} not drawn: of methods, noises, settings or code that are not {preset}'s")
    if absent := [*itertools.chain(*results.missing(any_code))]:
        sets = dict.fromkeys(column.data for column in results.grid.columns)
        again = shlex.join(["puridiver", "grid", preset, "--data", *sets, "--out", str(folder)])
        print_note(f"{preset} is not whole: no finished run of {', '.join(absent)}; `{again}` runs what is left")
    return found
