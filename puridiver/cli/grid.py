"""`puridiver grid`: many runs, such as those of one of the paper's tables."""

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, percent, say, say_table, tell
from puridiver.errors import counted
from puridiver.grid.engines import Engine, EngineName, make_engine
from puridiver.grid.presets import PRESETS
from puridiver.grid.run import LOGS, GridRun, failure_text
from puridiver.grid.spec import find_grid, only, with_changes
from puridiver.grid.table import build
from puridiver.runs.config import SETTINGS

Data = Annotated[list[str] | None, Opt("data sets (default: the paper's, or the file's); may be repeated", "DATA")]
Methods = Annotated[list[str] | None, Opt("only the rows of these titles; may be repeated", "TITLE")]
Noises = Annotated[list[str] | None, Opt("only these noises, such as sym-20,asym-40; may be repeated", "NOISES")]


def listed(values: Sequence[str] | None) -> list[str]:
    """All of "a,b" "c": a list may be given at once or one by one."""
    return [word.strip() for value in values or () for word in value.split(",")]


@flags.settings_flags([name for name, field in SETTINGS.items() if not field.axis], "the grid's")
def grid(
    ctx: typer.Context,
    settings: dict[str, Any],
    grids: Annotated[list[str] | None, Arg("GRID", "a name from --list, or a .toml file; several run as one")] = None,
    show_list: Annotated[bool, Opt("show the presets: the paper's tables and figures", name="--list")] = False,
    out: Annotated[Path | None, Opt("where results go (default: runs/NAME)", "FOLDER")] = None,
    data: Data = None,
    methods: Methods = None,
    noises: Noises = None,
    seeds: Annotated[list[str] | None, Opt("seeds, such as 1,2,3 (default: the preset's)", "SEEDS")] = None,
    dry_run: Annotated[bool, Opt("only show which runs are done and which are left", name="--dry-run")] = False,
    limit: Annotated[int | None, Opt("run at most N runs now", least=1)] = None,
    engine: Annotated[EngineName, Opt("threads on a GPU, processes on a CPU, or Ray")] = "auto",
    workers: Annotated[int | None, Opt("runs at a time (default: 8 on a GPU, else one for each core)", least=1)] = None,
    gpus_per_run: Annotated[float | None, Opt("share of a GPU that a run gets on Ray (default: 1)", "X")] = None,
    assignments: flags.Assignments = None,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
) -> int:
    """Run a table or a figure of the paper, or a grid of your own.

    A grid file is TOML: a table [grid] with the lists methods, data, streams, noises and seeds, and any setting of
    `puridiver run`. After a crash or Ctrl-C repeat the command.

    Examples:
      puridiver grid table1 --data digits --dry-run    which runs are done, and which are left
      puridiver grid table1 table3 --data cifar10 --splits splits/ --workers 8 --out runs/paper
      puridiver grid my.toml --seeds 1,2,3 --methods RSV --methods PuriDivER
    """
    if show_list:
        presets = [(name, preset.title, ", ".join(preset.sizes)) for name, preset in PRESETS.items()]
        say_table(presets, ("name", "what it is", "--data"))
        return 0
    if not grids:
        raise ValueError("name a preset or a .toml file; `puridiver grid --list` shows the presets")
    found = [find_grid(name, data or [], _numbers(seeds), official="splits" in settings) for name in grids]
    found = only(found, methods or (), listed(noises))
    folder = out or Path("runs") / "+".join(dict.fromkeys(each.name for each in found))
    for place in {column.data for each in found for column in each.columns}:
        flags.check_outside(place, folder)
    options = flags.options_of(assignments)
    changes = {**settings, "options": options} if options else settings
    planned = GridRun([with_changes(each, changes) for each in found], folder)
    waiting = planned.waiting()
    now = waiting[:limit]
    state = f"{counted(len(planned.runs), 'run')}: {len(planned.runs) - len(waiting)} done, {len(now)} to run"
    if dry_run:
        slugs = [(id in waiting, cells[0].slug) for id, cells in planned.runs.items()]
        say("\n".join([*(f"{'to run' if left else 'done':<8} {slug}" for left, slug in slugs), state]))
        return 0
    device, logs = settings.get("device", "auto"), folder / LOGS
    chosen = make_engine(engine, workers, device=device, load=planned.load, logs=logs, gpus=gpus_per_run)
    with Progress(hidden=quiet) as progress:
        progress.tell(state)
        failures, left = _run(planned, chosen, now, progress)
    if failures:
        note(failure_text(failures, folder))
    if left:
        tell(f"stopped: {counted(left, 'run')} left. To go on:\n  {shlex.join(['puridiver', *ctx.obj])}")
    _say_tables(planned)
    return 130 if left else int(bool(failures))


def _run(planned: GridRun, engine: Engine, now: Sequence[str], progress: Progress) -> tuple[list[dict[str, Any]], int]:
    """Run what is left; the failures, and how many runs Ctrl-C has left."""
    ended = itertools.count(1)

    def tell_end(name: str, result: dict[str, Any]) -> None:
        told = f"failed: {result['error']}" if "error" in result else percent(result["last_accuracy"])
        progress.tell(f"[{next(ended)}/{len(now)}] {name}: {told.splitlines()[0]}")
        progress.advance(1, counted(len(now), "run"))

    progress.start(max(len(now), 1))
    try:
        return planned.run(engine, len(now), tell_end), 0
    except KeyboardInterrupt:
        return [], len(planned.waiting())


def _say_tables(planned: GridRun) -> None:
    for each in planned.grids:
        if rows := [row for row in planned.own_rows() if row["grid"] == each.name]:
            say(build(rows, each).to_text() + "\n")


def _numbers(seeds: Sequence[str] | None) -> list[int]:
    if wrong := [text for text in listed(seeds) if not text.isdecimal()]:
        raise ValueError(f"--seeds should be whole numbers such as 1,2,3, but got {wrong[0]!r}")
    return [int(text) for text in listed(seeds)]
