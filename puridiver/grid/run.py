"""Runs what is left of one or more grids into a folder, which keeps everything.

ledger.jsonl      one line a finished run, with the names of its grid, method and column
failures.jsonl    one line a failed attempt, with its traceback
cells/            a run folder for each run, named after the cell and the run's id
logs/             what worker processes write
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from puridiver import data as data_sets
from puridiver.errors import DataError, PuridiverError, counted, few
from puridiver.files import file_lock
from puridiver.grid.engines import Engine, Job, Result, make_engine
from puridiver.grid.spec import Cell, Grid, cells, find_grid, grid_of_table, only, with_changes
from puridiver.runs import folder as runs
from puridiver.runs.config import Role
from puridiver.runs.ledger import LEDGER, append_row, read_ledgers
from puridiver.runs.resolve import data_of, resolve, resolve_run_stream, run_id

FAILURES, LOGS, LOCK = "failures.jsonl", "logs", "grid.lock"
OF_STREAM = (Role.SOURCE, Role.STREAM, Role.PLACE)  # with the seed they decide a stream


class GridRun:
    """Grids and the folder that their runs go to. `runs` has the cells of each run by its id: grids may share runs."""

    def __init__(self, grids: Sequence[Grid], folder: str | Path) -> None:
        self.grids, self.folder, self.load = list(grids), Path(folder), functools.cache(data_sets.load)
        self.runs: dict[str, list[Cell]] = {}
        hashes: dict[tuple[Any, ...], str] = {}  # many cells share a stream
        for cell in (cell for grid in grids for cell in cells(grid)):
            config, source = cell.config, self.load(*data_of(cell.config))
            stream = (*config.values(*OF_STREAM).values(), config.seed)
            try:
                found = resolve(config, source)
            except ValueError as error:
                raise ValueError(f"{cell.method!r} of grid {cell.grid}: {error}") from error
            if stream not in hashes:
                hashes[stream] = resolve_run_stream(config, found, source).content_hash
            self.runs.setdefault(run_id(config, found, hashes[stream]), []).append(cell)

    def rows(self) -> list[dict[str, Any]]:
        """The ledger's rows of these runs, of whichever grid."""
        path = self.folder / LEDGER
        return [row for row in read_ledgers([path]) if row["id"] in self.runs] if path.exists() else []

    def waiting(self) -> list[str]:
        """The ids of the runs that are left, in the order of the grids."""
        done = {row["id"] for row in self.rows()}
        return [id for id in self.runs if id not in done]

    def own_rows(self) -> list[dict[str, Any]]:
        """The rows of the grids' cells, in the order of the grids."""
        found = {(row["id"], row["grid"], row["method"], row["column"]): row for row in self.rows()}
        keys = [(id, cell.grid, cell.method, cell.column) for id, shared in self.runs.items() for cell in shared]
        return [found[key] for key in keys if key in found]

    def job(self, id: str, lanes: int = 1) -> Job:
        """The job of a run."""
        cell = self.runs[id][0]
        return Job(id, cell.config, self.folder / runs.GRID_CELLS / f"{cell.slug}-{id}", lanes)

    def run(
        self, engine: Engine, limit: int | None = None, on_end: Callable[[str, Result], object] = lambda name, result: 0
    ) -> list[dict[str, Any]]:
        """Run what is left and return the failures; `on_end` hears the name of each run that ends, and its result."""
        if (self.folder / runs.CONFIG).exists() or self.folder.is_file():
            raise DataError(f"{self.folder} is a run or a file; choose another folder for the grid")
        self.folder.mkdir(parents=True, exist_ok=True)
        failures = []
        with file_lock(self.folder / LOCK, wait_seconds=0, what=f"the grid in {self.folder}"):
            there = self.rows()
            for row in there:  # cells of a new grid may share runs with an old one
                self._record(row["id"], row, there)
            jobs = [self.job(id, engine.lanes) for id in self.waiting()[:limit]]
            with contextlib.closing(engine.run(jobs)) as ended:
                for job, result in ended:
                    if "error" in result:
                        when = datetime.now(UTC).isoformat(timespec="seconds")
                        failures.append({"id": job.id, **self.runs[job.id][0].names, **result, "when": when})
                        append_row(self.folder / FAILURES, failures[-1])
                    else:
                        self._record(job.id, result, [])
                    on_end(self.runs[job.id][0].slug, result)
        return failures

    def _record(self, id: str, row: Mapping[str, Any], there: Sequence[Mapping[str, Any]]) -> None:
        """Append a row for each cell of a run that has none yet."""
        held = [other for other in there if other["id"] == id]
        for cell in self.runs[id]:
            if not any(cell.names.items() <= other.items() for other in held):
                append_row(self.folder / LEDGER, {**row, **cell.names})


def run_grid(
    grid: str | Path | Mapping[str, Any], out: str | Path, *, data: Sequence[str] = (), seeds: Sequence[int] = (),
    methods: Sequence[str] = (), noises: Sequence[str] = (), engine: str = "auto", workers: int | None = None,
    on_row: Callable[[dict[str, Any]], object] | None = None, **changes: Any,
) -> list[dict[str, Any]]:  # fmt: skip
    """Run what is left of a grid and return the rows of its finished runs, as `puridiver grid` does.

    `grid` is a preset ("table1"), a .toml file, or what such a file holds: {"methods": ["rsv+plain"], "seeds": [0, 1],
    "memory": 100, ...}. `out` is its folder; what the ledger there has is not run again. `data` to `workers` are as the
    options of `puridiver grid`. `on_row` hears the summary of each run as it finishes. `changes` replaces settings of
    all runs: epochs=15, options={"eta": 0.5}.

    Methods that the program registers itself need engine="lanes": other engines start processes, which load the
    plugins of $PURIDIVER_PLUGINS. If cells fail, a `PuridiverError` says so once all others are done and in the folder.
    """
    if isinstance(grid, Mapping):
        chosen = grid_of_table(grid, data=data, seeds=seeds)
    else:
        chosen = find_grid(grid, data, seeds, official=changes.get("splits") is not None)
    run = GridRun([with_changes(each, changes) for each in only([chosen], methods, noises)], out)
    device = str(changes.get("device") or "auto")
    runner = make_engine(engine, workers, device=device, load=run.load, logs=run.folder / LOGS)
    failures = run.run(runner, on_end=lambda name, result: on_row and "error" not in result and on_row(result))
    if failures:
        raise PuridiverError(failure_text(failures, run.folder))
    return run.own_rows()


def failure_text(failures: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """One sentence that names the failed runs."""
    told = "{method}, {column}, seed {seed}: {error}"
    named = [told.format_map(failure).splitlines()[0] for failure in failures]
    return f"{counted(len(named), 'run')} of the grid failed ({few(named, 3)}); {folder / FAILURES} has the tracebacks"
