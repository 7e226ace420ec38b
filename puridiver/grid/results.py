"""Finished runs of a grid, read from grid folders or ledgers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.grid.cells import Grid
from puridiver.grid.chosen import base_of, chosen_grid, of_one_recipe, seeds_of
from puridiver.grid.folder import CELLS, LEDGER
from puridiver.grid.measures import METRICS
from puridiver.grid.presets import PRESETS
from puridiver.grid.select import select
from puridiver.grid.table import GridTable, make_table
from puridiver.report.ledger import read_rows
from puridiver.runs import folder as runs


@dataclass(frozen=True)
class Results:
    """A grid and the rows that may belong to it, with the folders they were read from."""

    grid: Grid
    rows: list[dict[str, Any]]
    places: list[Path]

    def table(self, any_code: bool = False, metric: str = "last") -> GridTable:
        return make_table(self.grid, self.rows, any_code, metric=METRICS[metric])

    def run_folders(self, any_code: bool = False) -> list[Path]:
        """Folders of the runs that the table would show."""
        chosen = sorted(select(self.grid, self.rows, any_code).rows.items())  # by method, then by column
        wanted = {row.get("cell"): number for number, row in enumerate(row for _, rows in chosen for row in rows)}
        folders = [path.parent for place in self.places for path in sorted(place.glob(f"{CELLS}/*/{runs.SUMMARY}"))]
        shown = [(wanted[cell], folder) for folder in folders if (cell := _cell_of(folder)) in wanted]
        return [folder for _, folder in sorted(shown)]

    def left_out(self, any_code: bool = False) -> int:
        """How many finished runs on the grid's data are in none of its cells."""
        data = {column.data for column in self.grid.columns}
        chosen = select(self.grid, self.rows, any_code).rows.values()
        shown = {row.get("cell") for rows in chosen for row in rows}
        return len({row.get("cell") for row in self.rows if row["data"] in data} - shown)

    def missing(self, any_code: bool = False) -> tuple[list[str], list[str]]:
        """The methods, and the noises, of which no cell has a finished run; methods that cannot be run are not."""
        places = select(self.grid, self.rows, any_code).rows
        rows, columns = {m for m, _ in places}, {c for _, c in places}
        methods = [each.title for m, each in enumerate(self.grid.methods) if each.sampler and m not in rows]
        shown = {each.noise for c, each in enumerate(self.grid.columns) if c in columns}
        return methods, [noise for noise in dict.fromkeys(c.noise for c in self.grid.columns) if noise not in shown]


def read_results(name: str, places: Sequence[Path], data: Sequence[str] = ()) -> Results:
    """The results of a preset, grid file or part of one in folders or ledgers; without `data`, on all they have."""
    rows = [row for place in places for row in read_rows(ledger_at(place))]
    if not data and base_of(name) in PRESETS:
        have = {row["data"] for row in rows}
        data = [source for source in PRESETS[base_of(name)].sizes if source in have]
    grid, seeds = of_one_recipe(name, chosen_grid(name, data)), seeds_of(name)
    return Results(grid, [row for row in rows if not seeds or row["seed"] in seeds], list(places))


def ledger_at(place: Path) -> Path:
    """A ledger, or that of a grid's folder."""
    ledger = place / LEDGER if place.is_dir() else place
    if not ledger.exists():
        raise DataError(_missing(place, ledger))
    return ledger


def _missing(place: Path, ledger: Path) -> str:
    """Why there is no ledger, and what to do."""
    if (place / runs.SUMMARY).exists():
        return f"{place} is a single run and no grid: `puridiver report {place}` and `puridiver plot {place}` show it"
    if (place / runs.CONFIG).exists():
        return f"{place} is a run that has not finished: `puridiver run --out {place} --resume` goes on with it"
    if place.name in PRESETS and not place.exists():
        return f"{place} is not there: run `puridiver grid {place.name}` first, or name the folder of its runs"
    near = [] if place.exists() else difflib.get_close_matches(place.name, PRESETS, 1, 0.75)
    if near:
        return f"{place} is not there; did you mean the preset {near[0]}?"
    first = "`puridiver run --ledger` writes it" if place.suffix == ".jsonl" else "run `puridiver grid` first"
    return f"{ledger} is not there: {first}"


def _cell_of(folder: Path) -> str | None:
    import json

    found = json.loads((folder / runs.SUMMARY).read_text()).get("cell")
    return None if found is None else str(found)
