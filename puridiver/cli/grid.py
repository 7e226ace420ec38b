"""`puridiver grid`: many runs, such as those of one of the paper's tables."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command, add_plugin_option, check_outside
from puridiver.cli.run_settings import flag_specs, is_place, parse_assignments
from puridiver.grid.cells import CHANGES

if TYPE_CHECKING:
    from rich.console import Console

    from puridiver.grid.campaign import Campaign
    from puridiver.grid.cells import Grid
    from puridiver.grid.engines.base import Engine
    from puridiver.grid.folder import GridFolder
    from puridiver.grid.plan import Planned
    from puridiver.grid.runner import Outcome, State
    from puridiver.grid.select import Asked

EXAMPLES = """\
A grid file is TOML: one table [grid] with the lists methods, data, streams, noises and seeds, any further setting of
`puridiver run` (epochs, memory, recipe, ...) and a table [grid.options]; docs/GRIDS.md has an example.

The folder keeps everything: start the same command again after a crash, Ctrl-C or a full disk, and it goes on.

examples:
  puridiver grid --list                              the paper's tables and figures
  puridiver grid table1 --data digits                thirteen methods, five noises; some minutes on a laptop
  puridiver grid table1 --data digits --dry-run      its cells, which are done, and how long the rest may take
  puridiver grid table1 --data cifar10 --splits DIR --lanes 8
      the published streams, eight runs at a time on a GPU
  puridiver grid my.toml --out runs/my --seeds 1 2 3
  puridiver grid table1 --data digits --methods RSV "RSV + DivideMix" PuriDivER
      some rows of a table
  puridiver grid table1 table3 table4 --data cifar10 --splits DIR --lanes 8 --out runs/paper
      several tables as one: a run that stands in more than one is made once
  puridiver grid "table4?noises=sym-40&seeds=1" "table1?methods=RSV|RM&recipe=paper" --data cifar10 --out runs/some
      a part of each, chosen by methods, noises, seeds and recipe
  puridiver grid table1 --shard 1/3 --out runs/part1
      a third of its cells; 2/3 and 3/3 on other machines, `puridiver table` reads all folders together
  puridiver grid table4 --data cifar10 --engine ray --lanes 8 --gpus-per-worker 1
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
    parser.add_argument("--retry-failed", action="store_true", help="also run cells that failed before")
    parser.add_argument(
        "--any-code", action="store_true",
        help="let runs of other code count as done (the table says so), for long campaigns over small commits",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress")
    _add_engine_flags(parser)
    specs = flag_specs()
    for name in CHANGES:
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
    parser.add_argument("--lanes", type=int, metavar="N", help="runs at a time on a GPU (default: 8; in Ray 1)")
    parser.add_argument(
        "--processes", type=int, metavar="N", help="worker processes, or Ray workers (default: as many as fit)"
    )
    parser.add_argument("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a local one)")
    parser.add_argument(
        "--gpus-per-worker", type=float, metavar="SHARE", help="of each Ray worker, such as 0.5 (default: 1 if any)"
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
    from puridiver.grid.campaign import Campaign
    from puridiver.grid.chosen import chosen_grid
    from puridiver.grid.define import with_methods, with_noises
    from puridiver.grid.engines.choose import Wishes
    from puridiver.grid.folder import GridFolder

    found = [chosen_grid(name, args.data, args.seeds, official=args.splits is not None) for name in args.grids]
    grids = with_methods(found, args.methods) if args.methods else found
    grids = with_noises(grids, args.noises) if args.noises else grids
    folder = GridFolder(Path(args.out or "runs/" + "+".join(dict.fromkeys(grid.name for grid in grids))))
    for data in {column.data for grid in grids for column in grid.columns if is_place("data", column.data)}:
        check_outside(Path(data), folder.path)
    wishes = Wishes(
        args.engine, args.lanes, args.processes, ray_address=args.ray_address, gpus_per_worker=args.gpus_per_worker
    )
    campaign = Campaign(grids, folder, changes_of(args), wishes, args.any_code, args.retry_failed, args.limit)
    with campaign.prepared() as (engine, of_whole_grid):
        planned = _part_to_run(of_whole_grid, args, console)
        if args.dry_run:
            _print_plan(planned, folder, engine.workers, args)
            return 0
        return _run_locked(args, campaign, engine, planned, console)


def _print_notes(notes: Iterable[str], args: argparse.Namespace, console: Console) -> None:
    for note in [] if args.quiet else dict.fromkeys(notes):
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)


def _part_to_run(planned: Sequence[Planned], args: argparse.Namespace, console: Console) -> Sequence[Planned]:
    from puridiver.grid.plan import shard

    if args.shard is None:
        return planned
    part = shard(planned, *args.shard)
    told = f"shard {args.shard[0]}/{args.shard[1]}: {len(part)} of the grid's {len(planned)} cells"
    _print_notes([told], args, console)
    return part


def changes_of(args: argparse.Namespace) -> dict[str, Any]:
    found = {name: getattr(args, name) for name in CHANGES if getattr(args, name) is not None}
    options = parse_assignments(args.assignments)
    return {**found, "options": options} if options else found


def _run_locked(
    args: argparse.Namespace, campaign: Campaign, engine: Engine, planned: Sequence[Planned], console: Console
) -> int:
    from puridiver.cli.grid_display import GridDisplay
    from puridiver.grid.select import Asked

    asked = Asked(campaign.changes, engine.runtime, campaign.sources)
    with campaign.folder.locked():
        state = campaign.look(planned)
        _print_other_code(state, planned, console)
        with GridDisplay(console, hidden=args.quiet) as display:
            outcome = campaign.go(engine, state, display)
        _print_outcome(outcome, campaign.folder, console, args.command_line)
        _print_tables(campaign.grids, campaign.folder, args, planned, asked)
    return 130 if outcome.interrupted else int(bool(outcome.failures))


def _print_other_code(state: State, planned: Sequence[Planned], console: Console) -> None:
    other = sum(p.key in state.done and state.done[p.key]["cell"] != p.key for p in planned)
    if other:
        console.print(f"note: {other} of the runs that count as done are of other code (--any-code)", highlight=False)


def _print_outcome(outcome: Outcome, folder: GridFolder, console: Console, command_line: Sequence[str]) -> None:
    from rich.table import Table

    if outcome.failures:
        table = Table(title="failed", title_justify="left", header_style="bold", title_style="bold")
        for heading in ("cell", "error"):
            table.add_column(heading, overflow="fold")
        for entry in outcome.failures.values():
            table.add_row(entry["name"], entry["error"].splitlines()[0])
        console.print(table, highlight=False)
        if any(entry["reason"] == "error" for entry in outcome.failures.values()):
            text = f"tracebacks: {folder.path}/failures.jsonl; --retry-failed runs these cells again"
            console.print(text, highlight=False, soft_wrap=True)
    if outcome.interrupted or outcome.disk_full:
        why = "the disk is full" if outcome.disk_full else "stopped"
        command = shlex.join(["puridiver", *command_line])
        full = sum(entry["reason"] == "disk full" for entry in outcome.failures.values())
        text = f"{why}: {outcome.finished} cells finished now, {outcome.left + full} are left. To go on:\n  {command}"
        console.print(text, highlight=False, soft_wrap=True)


def _print_tables(
    grids: Sequence[Grid], folder: GridFolder, args: argparse.Namespace, planned: Sequence[Planned], asked: Asked
) -> None:
    """The tables of what the folder holds of these settings and this code; shortened runs are no results.

    Of several grids each has its own seeds alone.
    """
    from puridiver.grid.table import as_text, make_table

    keys = {p.identity.code_hash for p in planned}
    code = None if args.any_code or len(keys) != 1 else keys.pop()
    rows = folder.rows()
    if all(row["shortened"] for row in rows):
        if rows:
            print(
                "Shortened runs (--stream-limit or --test-limit) do not enter the table; "
                f"`puridiver table {folder.path}` lists them."
            )
        return
    tables = []
    for grid in grids:
        seeds = {seed for column in grid.columns for seed in column.seeds}
        asked_for = [row for row in rows if row["seed"] in seeds or len(grids) == 1]
        tables.append(as_text(make_table(grid, asked_for, args.any_code, code, asked)) + "\n")
    sys.stdout.write("\n".join(tables))


def _print_plan(planned: Sequence[Planned], folder: GridFolder, workers: int, args: argparse.Namespace) -> None:
    from puridiver.cli.grid_display import duration
    from puridiver.grid.plan import estimated_seconds
    from puridiver.grid.runner import look

    rows = folder.rows()
    state = look(planned, folder, args.any_code, args.retry_failed)
    for p in planned:
        word = "done" if p.key in state.done else "failed" if p.key in state.failed else "to run"
        figure = f"{state.done[p.key]['last_accuracy']:.1%}" if p.key in state.done else ""
        print(f"{word:<7} {p.folder_name} {figure}".rstrip())
    waiting = state.waiting[: args.limit]
    seconds = estimated_seconds(waiting, rows, workers)
    time = f"about {duration(seconds)}" if seconds is not None else "time unknown: --limit 1 runs and measures one"
    counts = f"{len(planned)} cells: {len(state.done)} done, {len(state.failed)} failed, {len(waiting)} to run"
    print(f"{counts}, {workers} at a time, {time}")


def _print_presets() -> None:
    from puridiver.grid.presets import PRESETS

    widest = max(map(len, PRESETS))
    for name, preset in PRESETS.items():
        size = preset.sizes["digits"]
        methods = sum(bool(method.sampler) for method in preset.methods)
        runs = methods * len(size.noises or preset.noises) * len(size.seeds)
        print(f"{name:<{widest}}  {preset.title}")
        print(f"{'':<{widest}}  recipe {preset.recipe}; --data {', '.join(preset.sizes)} ({runs} runs on digits)")
