"""`puridiver grid`: many runs, such as those of one of the paper's tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, counted, duration, note, percent, say, say_table, tell
from puridiver.runs.config import SETTINGS

if TYPE_CHECKING:
    from puridiver.grid.engines import Event

ENGINES = ("auto", "lanes", "processes", "ray")
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
    dry_run: Annotated[bool, Opt("only show the runs and the time they may take", name="--dry-run")] = False,
    limit: Annotated[int | None, Opt("run at most N runs now", least=1)] = None,
    shard: Annotated[str, Opt("run only this part, such as 1/3 on one of three machines", "I/N")] = "1/1",
    engine: Annotated[str, Opt("threads on a GPU, processes on a CPU, or a Ray cluster", choices=ENGINES)] = "auto",
    workers: Annotated[int | None, Opt("runs at a time (default: 8 on a GPU, else one for each core)", least=1)] = None,
    ray_address: Annotated[str | None, Opt("of a Ray cluster (default: $RAY_ADDRESS, or local)", "ADDRESS")] = None,
    gpus_per_run: Annotated[float | None, Opt("share of a GPU that a run gets on Ray (default: 1)", "X")] = None,
    assignments: flags.Assignments = None,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
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
    from puridiver.grid.spec import find_grid, only, with_changes
    from puridiver.grid.table import build

    if show_list:
        return _print_presets()
    if not grids:
        raise ValueError("name a preset or a .toml file; `puridiver grid --list` shows the presets")
    if wrong := [text for text in listed(seeds) if not text.isdecimal()]:
        raise ValueError(f"--seeds should be whole numbers such as 1,2,3, but got {wrong[0]!r}")
    part, _, of = shard.partition("/")
    if not (part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of)):
        raise ValueError(f"--shard should be I/N with I from 1 to N, such as 1/3, but got {shard!r}")
    found = [find_grid(name, data or [], [*map(int, listed(seeds))], official="splits" in settings) for name in grids]
    found = only(found, methods or (), listed(noises))
    folder = out or Path("runs") / "+".join(dict.fromkeys(each.name for each in found))
    for place in {column.data for each in found for column in each.columns}:
        flags.check_outside(place, folder)
    options = flags.options_of(assignments)
    changes = {**settings, "options": options} if options else settings
    planned = GridRun([with_changes(each, changes) for each in found], folder, (int(part), int(of)))
    chosen = make_engine(
        engine, workers, device=settings.get("device", "auto"), sources=planned.sources, logs=folder / LOGS,
        ray_address=ray_address, gpus=gpus_per_run,
    )  # fmt: skip
    done, waiting = planned.done(), planned.waiting(limit)
    time = duration(planned.expected_seconds(waiting, chosen.workers))
    state = f"{counted(len(planned.runs), 'run')}: {len(done)} done, {len(waiting)} to run, {time}"
    if dry_run:
        for id, cells in planned.runs.items():
            word = f"done {percent(done[id]['last_accuracy'])}" if id in done else "to run"
            say(f"{word:<12} {cells[0].slug}")
        say(state)
        return 0
    with GridProgress(hidden=quiet) as progress:
        progress.begin(waiting, state)
        outcome = planned.run(chosen, limit, progress.happened)
    if outcome.failures:
        note(failure_text(outcome, folder))
    if outcome.interrupted:
        tell(f"stopped: {counted(outcome.left, 'run')} left. To go on:\n  {shlex.join(['puridiver', *ctx.obj])}")
    for each in planned.grids:
        if rows := [row for row in planned.own_rows() if row["grid"] == each.name]:
            say(build(rows, each).to_text() + "\n")
    return 130 if outcome.interrupted else int(bool(outcome.failures))


class GridProgress(Progress):
    """A bar for the whole grid with the time left, and a line for each run that ends."""

    def begin(self, waiting: Sequence[str], state: str) -> None:
        self.shares, self.ended = dict.fromkeys(waiting, 0.0), 0
        self.start(max(len(waiting), 1))
        if not self.hidden:
            tell(state)

    def happened(self, event: Event, name: str) -> None:
        """Show what happened to a run."""
        over = event.kind in ("finished", "failed")
        self.ended += over
        self.shares[event.id] = 1.0 if over else event.detail.get("share", 0.0)
        self.bar.update(self.task, completed=sum(self.shares.values()), description=f"{len(self.shares)} runs")
        if not self.hidden and event.kind in ("finished", "failed", "lost"):
            error = f"{event.kind}: {str(event.detail.get('error')).splitlines()[0]}"
            result = percent(event.detail["last_accuracy"]) if event.kind == "finished" else error
            tell(f"[{self.ended}/{len(self.shares)}] {name}: {result}")


def _print_presets() -> int:
    from puridiver.grid.presets import PRESETS
    from puridiver.grid.spec import cells, find_grid

    rows = [
        (name, preset.title, ", ".join(preset.sizes), len(cells(find_grid(name, ["digits"]))))
        for name, preset in PRESETS.items()
    ]
    say_table(rows, ("name", "what it is", "--data", "runs on digits>"))
    return 0
