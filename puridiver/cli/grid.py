"""`puridiver grid`: many runs, such as those of one of the paper's tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puridiver.cli.flags import Arg, Assignments, Opt, Plugins, Quiet, check_outside, options_of, settings_flags
from puridiver.cli.output import Progress, counted, duration, note, percent, say, say_table, tell
from puridiver.runs.config import SETTINGS

if TYPE_CHECKING:
    from puridiver.grid.engines.base import Event
    from puridiver.grid.run import GridRun

ENGINES = ("auto", "lanes", "processes", "ray")
Data = Annotated[list[str] | None, Opt("data sets (default: the paper's, or the file's); may be repeated", "DATA")]
Methods = Annotated[list[str] | None, Opt("only the rows of these titles; may be repeated", "TITLE")]
Noises = Annotated[list[str] | None, Opt("only these noises, such as sym-20,asym-40; may be repeated", "NOISES")]


def shard_of(text: str | None) -> tuple[int, int]:
    """ "1/3": the first of three."""
    number, _, of = (text or "1/1").partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"--shard should be I/N with I from 1 to N, such as 1/3, but got {text!r}")
    return int(number), int(of)


def listed(values: Sequence[str] | None) -> list[str]:
    """All of "a,b" "c": a list may be given at once or one by one."""
    return [word.strip() for value in values or () for word in value.split(",")]


@settings_flags([name for name, field in SETTINGS.items() if not field.axis], " (default: the preset's or the file's)")
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
    dry_run: Annotated[bool, Opt("show the runs and the time they may take, and run nothing")] = False,
    limit: Annotated[int | None, Opt("run at most N runs now", least=1)] = None,
    shard: Annotated[str | None, Opt("run only this part, such as 1/3 on one of three machines", "I/N")] = None,
    engine: Annotated[str, Opt("threads on a GPU, processes on a CPU, or a Ray cluster", choices=ENGINES)] = "auto",
    workers: Annotated[int | None, Opt("runs at a time (default: 8 on a GPU, else one for each core)", least=1)] = None,
    ray_address: Annotated[str | None, Opt("of a Ray cluster (default: $RAY_ADDRESS, or local)", "ADDRESS")] = None,
    gpus_per_run: Annotated[float | None, Opt("share of a GPU that a run gets on Ray (default: 1)")] = None,
    assignments: Assignments = None,
    quiet: Quiet = False,
    plugins: Plugins = None,
) -> int:
    """Run a table or a figure of the paper, or a grid of your own.

    A grid file is TOML: a table [grid] with the lists methods, data, streams, noises and seeds, and any setting of
    `puridiver run`. The folder keeps everything: after a crash or Ctrl-C start the same command again.

    Examples:
      puridiver grid --list
      puridiver grid table1 --data digits --dry-run
          its runs, which of them are done, and how long the rest may take
      puridiver grid table1 table3 --data cifar10 --splits splits/ --workers 8 --out runs/paper
          two tables on the published streams; a run that stands in both is made once
      puridiver grid my.toml --seeds 1,2,3 --methods RSV --methods PuriDivER
          some rows and seeds of a grid of your own
    """
    from puridiver.grid.engines import make_engine
    from puridiver.grid.run import LOGS, GridRun, failure_text
    from puridiver.grid.spec import find_grid, with_changes, with_methods, with_noises

    if show_list:
        return _print_presets()
    if not grids:
        raise ValueError("name a preset or a .toml file; `puridiver grid --list` shows the presets")
    numbers = [_seed(text) for text in listed(seeds)]
    found = [find_grid(name, data or [], numbers, official="splits" in settings) for name in grids]
    found = with_methods(found, methods) if methods else found
    found = with_noises(found, listed(noises)) if noises else found
    folder = out or Path("runs") / "+".join(dict.fromkeys(each.name for each in found))
    for place in {column.data for each in found for column in each.columns}:
        check_outside(place, folder)
    options = options_of(assignments)
    changes = {**settings, "options": options} if options else settings
    planned = GridRun([with_changes(each, changes) for each in found], folder, shard_of(shard))
    chosen = make_engine(
        engine, workers, device=settings.get("device", "auto"), sources=planned.sources, logs=folder / LOGS,
        ray_address=ray_address, gpus=gpus_per_run,
    )  # fmt: skip
    if dry_run:
        return _print_plan(planned, chosen.workers, limit)
    with GridProgress(hidden=quiet) as progress:
        progress.begin(planned, planned.waiting(limit), chosen.workers)
        outcome = planned.run(chosen, limit, progress.happened)
    if outcome.failures:
        note(failure_text(outcome, folder))
    if outcome.interrupted:
        tell(f"stopped: {counted(outcome.left, 'run')} left. To go on:\n  {shlex.join(['puridiver', *ctx.obj])}")
    _print_tables(planned)
    return 130 if outcome.interrupted else int(bool(outcome.failures))


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"--seeds should be whole numbers such as 1,2,3, but got {text!r}")
    return int(text)


class GridProgress(Progress):
    """A bar for the whole grid with the time left, and a line for each run that ends."""

    def begin(self, planned: GridRun, waiting: Sequence[str], workers: int) -> None:
        self.shares: dict[str, float] = dict.fromkeys(waiting, 0.0)
        self.ended = 0
        seconds = planned.expected_seconds(waiting, workers)
        guess = f", about {duration(seconds)}" if seconds else ""
        if not self.hidden:
            tell(f"{counted(len(planned.done()), 'run')} done, {len(waiting)} to run{guess}")
        self.start(max(len(waiting), 1))

    def happened(self, event: Event, name: str) -> None:
        """Show what happened to a run."""
        self.shares[event.id] = {"advanced": event.detail.get("share", 0.0), "finished": 1.0, "failed": 1.0}.get(
            event.kind, 0.0
        )
        self.bar.update(self.task, completed=sum(self.shares.values()), description=f"{len(self.shares)} runs")
        if event.kind == "finished":
            result = f"{percent(event.detail['last_accuracy'])} in {duration(event.detail['seconds'])}"
        elif event.kind in ("failed", "lost"):  # a lost one is tried again
            result = f"{event.kind}: {event.detail['error'].splitlines()[0]}"
        else:
            return
        self.ended += event.kind != "lost"
        if not self.hidden:
            tell(f"[{self.ended}/{len(self.shares)}] {name}: {result}")


def _print_tables(planned: GridRun) -> None:
    from puridiver.grid.table import build

    rows = planned.own_rows()
    for each in planned.grids:
        if own := [row for row in rows if row["grid"] == each.name]:
            say(build(own, each).to_text() + "\n")


def _print_plan(planned: GridRun, workers: int, limit: int | None) -> int:
    done, waiting = planned.done(), planned.waiting(limit)
    for id, cells in planned.runs.items():
        state = f"done    {percent(done[id]['last_accuracy']):>6}" if id in done else f"{'to run':<14}"
        say(f"{state}  {cells[0].slug}")
    seconds = planned.expected_seconds(waiting, workers)
    time = f"about {duration(seconds)}" if seconds is not None else "time unknown: --limit 1 runs and measures one"
    say(f"{counted(len(planned.runs), 'run')}: {len(done)} done, {len(waiting)} to run, {workers} at a time, {time}")
    return 0


def _print_presets() -> int:
    from puridiver.grid.presets import PRESETS
    from puridiver.grid.spec import cells, find_grid

    rows = [
        (name, preset.title, preset.recipe, ", ".join(preset.sizes), len(cells(find_grid(name, ["digits"]))))
        for name, preset in PRESETS.items()
    ]
    say_table(rows, ("name", "what it is", "recipe", "--data", "runs on digits>"))
    return 0
