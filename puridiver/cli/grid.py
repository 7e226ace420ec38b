"""`puridiver grid`: many runs, such as those of one of the paper's tables."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command, add_plugin_option, check_outside, print_note
from puridiver.cli.run_settings import flag_specs, is_place, parse_assignments

if TYPE_CHECKING:
    from rich.console import Console

    from puridiver.grid.run import GridRun, Outcome

EXAMPLES = """\
A grid file is TOML: one table [grid] with the lists methods, data, streams, noises and seeds, any further setting of
`puridiver run` (epochs, memory, recipe, ...) and a table [grid.options]; docs/GRIDS.md has an example.

The folder keeps everything: start the same command again after a crash, Ctrl-C or a full disk, and it goes on.

examples:
  puridiver grid --list                              the paper's tables and figures
  puridiver grid table1 --data digits                thirteen methods, five noises; some minutes on a laptop
  puridiver grid table1 --data digits --dry-run      its cells, which are done, and how long the rest may take
  puridiver grid table1 --data cifar10 --splits DIR --workers 8
      the published streams, eight runs at a time on a GPU
  puridiver grid my.toml --out runs/my --seeds 1 2 3
  puridiver grid table1 --data digits --methods RSV "RSV + DivideMix" PuriDivER
      some rows of a table
  puridiver grid table1 table3 table4 --data cifar10 --splits DIR --workers 8 --out runs/paper
      several tables as one: a run that stands in more than one is made once
  puridiver grid table1 --shard 1/3 --out runs/part1
      a third of its cells; 2/3 and 3/3 on other machines, `puridiver table` reads all folders together
  puridiver grid table4 --data cifar10 --engine ray --gpus-per-run 0.25
      on a Ray cluster (pip install 'puridiver[ray]')
"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "grid", "run the cells of a table or figure of the paper, or of a file", EXAMPLES)
    parser.add_argument(
        "grids", nargs="*", metavar="PRESET|FILE",
        help="a name from --list, or a .toml file, or a part of one; several are run as one, in this order",
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="show the presets")
    parser.add_argument("--out", metavar="FOLDER", help="where results go (default: runs/NAME, or runs/NAME+NAME)")
    parser.add_argument("--data", nargs="+", default=[], help="data sets (default: those of the paper, or of the file)")
    parser.add_argument("--methods", nargs="+", default=[], metavar="TITLE", help="only these rows (default: all)")
    parser.add_argument("--noises", nargs="+", default=[], metavar="NOISE", help="only these columns (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[], metavar="N", help="seeds (default: the preset's)")
    parser.add_argument("--dry-run", action="store_true", help="show the cells and the time they may take; run nothing")
    parser.add_argument("--limit", type=int, metavar="N", help="run at most N cells")
    parser.add_argument(
        "--shard", type=_shard, metavar="I/N",
        help="run only this part of the cells, such as 1/3: the same on every machine, and no two parts overlap; "
        "`puridiver table` reads all folders together",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _add_engine_flags(parser)
    from puridiver.grid.spec import shared_settings

    specs = flag_specs()
    for name in shared_settings():
        flag = "--" + name.replace("_", "-")
        usual = f" (default: {specs[flag]['default']})"  # of one run
        text = specs[flag]["help"].replace(usual, " (default: the preset's or the file's)")
        spec = specs[flag] | {"default": None, "help": text}
        parser.add_argument(flag, **spec)
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", dest="assignments",
        help="replace an option of the recipe in every cell whose method does not set it itself; may be repeated",
    )  # fmt: skip
    add_plugin_option(parser)
    parser.set_defaults(handler=handle)


def _shard(text: str) -> tuple[int, int]:
    """ "1/3": the first of three."""
    number, slash, of = text.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"should be I/N with I from 1 to N, such as 1/3, but got {text!r}")
    return int(number), int(of)


def _add_engine_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=("auto", "lanes", "processes", "ray"), default="auto",
        help="lanes: threads on one GPU; processes: on a CPU; ray: a cluster (default: auto, by the device)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=int, metavar="N", help="cells at a time (default: 8 on a GPU, or cores)"
    )
    parser.add_argument("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a local one)")
    parser.add_argument(
        "--gpus-per-run", type=float, metavar="SHARE", help="of each run on Ray, such as 0.25 (default: 1 if any)"
    )


def handle(args: argparse.Namespace) -> int:
    from rich.console import Console

    if args.list:
        _print_presets()
        return 0
    if not args.grids:
        raise ValueError("name a preset or a .toml file; `puridiver grid --list` shows the presets")
    return run(args, Console(stderr=True))


def run(args: argparse.Namespace, console: Console) -> int:
    from puridiver.cli.grid_display import GridDisplay
    from puridiver.grid.engines import make_engine
    from puridiver.grid.run import LOGS, GridRun
    from puridiver.grid.spec import find_grid, with_changes, with_methods, with_noises

    grids = [find_grid(name, args.data, args.seeds, official=args.splits is not None) for name in args.grids]
    grids = with_methods(grids, args.methods) if args.methods else grids
    grids = with_noises(grids, args.noises) if args.noises else grids
    folder = Path(args.out or "runs/" + "+".join(dict.fromkeys(grid.name for grid in grids)))
    for data in {column.data for grid in grids for column in grid.columns if is_place("data", column.data)}:
        check_outside(Path(data), folder)
    planned = GridRun([with_changes(grid, changes_of(args)) for grid in grids], folder, args.shard or (1, 1))
    engine = make_engine(
        args.engine, args.workers, device=args.device or "auto", sources=planned.sources, logs=folder / LOGS,
        ray_address=args.ray_address, gpus=args.gpus_per_run,
    )  # fmt: skip
    if args.dry_run:
        _print_plan(planned, engine.workers, args.limit)
        return 0
    waiting = planned.waiting(args.limit)
    with GridDisplay(console, hidden=args.quiet) as display:
        display.begin(len(planned.done()), len(waiting), planned.expected_seconds(waiting, engine.workers))
        outcome = planned.run(engine, args.limit, display.happened)
    _print_outcome(outcome, folder, console, args.command_line)
    _print_tables(planned)
    return 130 if outcome.interrupted else int(bool(outcome.failures))


def changes_of(args: argparse.Namespace) -> dict[str, Any]:
    from puridiver.grid.spec import shared_settings

    found = {name: getattr(args, name) for name in shared_settings() if getattr(args, name) is not None}
    options = parse_assignments(args.assignments)
    return {**found, "options": options} if options else found


def _print_outcome(outcome: Outcome, folder: Path, console: Console, command_line: Sequence[str]) -> None:
    from puridiver.grid.run import failure_text

    if outcome.failures:
        print_note(failure_text(outcome, folder))
    if outcome.interrupted:
        command = shlex.join(["puridiver", *command_line])
        console.print(f"stopped: {outcome.left} runs are left. To go on:\n  {command}", highlight=False, soft_wrap=True)


def _print_tables(planned: GridRun) -> None:
    from puridiver.grid.table import build

    rows = planned.own_rows()
    if rows:
        tables = [build([row for row in rows if row["grid"] == grid.name], grid) for grid in planned.grids]
        sys.stdout.write("\n\n".join(table.to_text() for table in tables) + "\n")


def _print_plan(planned: GridRun, workers: int, limit: int | None) -> None:
    from puridiver.cli.grid_display import duration

    done, waiting = planned.done(), planned.waiting(limit)
    for id, shared in planned.runs.items():
        figure = f" {done[id]['last_accuracy']:.1%}" if id in done else ""
        print(f"{'done' if id in done else 'to run':<7} {shared[0].slug}{figure}")
    seconds = planned.expected_seconds(waiting, workers)
    time = f"about {duration(seconds)}" if seconds is not None else "time unknown: --limit 1 runs and measures one"
    print(f"{len(planned.runs)} runs: {len(done)} done, {len(waiting)} to run, {workers} at a time, {time}")


def _print_presets() -> None:
    from puridiver.grid.presets import PRESETS
    from puridiver.grid.spec import cells, find_grid

    widest = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
        runs = len(cells(find_grid(name, ["digits"])))
        print(f"{name:<{widest}}  {preset.title}")
        print(f"{'':<{widest}}  recipe {preset.recipe}; --data {', '.join(preset.sizes)} ({runs} runs on digits)")
