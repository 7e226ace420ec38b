"""Which rows of a ledger stand in which table of the results page.

The tables are of whole runs on the published streams (the supplement's: on disjoint tasks), judged on the test set, in
bfloat16 on a GPU; runs in the order of the files have tables of their own. Rows are compared by what they tell, not by
hashes that need the data: so a ledger gives the same page on every machine. What is in no table is kept for the rest of
the page.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from puridiver.data.base import DataSource
from puridiver.data.cifar import CIFAR10_DEFAULTS, CIFAR100_DEFAULTS
from puridiver.errors import DataError
from puridiver.grid.cells import Column, Grid, Method
from puridiver.grid.define import find_grid
from puridiver.grid.fidelity import without_effect
from puridiver.grid.plan import Sources
from puridiver.grid.presets import PRESETS, PURIDIVER, SPR
from puridiver.grid.select import Asked, select
from puridiver.grid.variants import Row, row_kind
from puridiver.plugins import unread_options
from puridiver.recipes import DEFAULT, RECIPES, default_changes
from puridiver.recipes import PUBLISHED as BASE
from puridiver.runs.config import RunConfig
from puridiver.runtime.device import Runtime
from puridiver.streams.names import LISTED_KIND, PUBLISHED_KINDS, WORD

NETWORKS = {"cifar10": CIFAR10_DEFAULTS["network"], "cifar100": CIFAR100_DEFAULTS["network"]}
MEASURED_ON = Runtime(torch.device("cuda"), "bfloat16", graphs=True)
BESIDE = (
    Method("GBS by GDumb's own rule (row 20)", "gbs", "plain"),
    Method("NTD", "ntd", "plain"),
)  # the paper has no figures of them
TOLD = ", told the noise"
# PuriDivER as `official` with what it does not follow of the released program (docs/FIDELITY.md), in parts and in all.
RELEASED_STEP = {"cutmix_sets": "clean", "relabel_view": "in_step"}
RELEASED: dict[str, dict[str, Any]] = {
    "rows 21 and 22": RELEASED_STEP,
    "rows 21, 22, 24, 25 and 26": {
        **RELEASED_STEP, "last_batch": "trained", "weak": "crop_flip", "strong": "autoaugment_grey",
    },
    "row 27": {"shortcut_relu": True},
    "rows 28 and 29": {"relabel_weight": "unsorted_loss_by_share", "set_batches": "clean_full_by_share"},
}  # fmt: skip
FIDELITY = ("fidelity-official", "fidelity-paper")
START = {FIDELITY[0]: "official", FIDELITY[1]: "paper"}  # the recipe of which each switches rows
# Options that decide nothing the tables show: only what predicts between two memory trainings. (Anytime accuracy, which
# feels it, must not join `sections.FIGURES`.)
UNFELT = ("online_prediction",)


@dataclass(frozen=True)
class CellRuns:
    """The runs of one cell: one a seed that counts, and older ones of the same settings."""

    column: Column
    rows: Sequence[Row]
    older: Sequence[Row]


@dataclass(frozen=True)
class Line:
    """A method, by its title here and as the paper's figures know it."""

    title: str
    method: Method
    cells: tuple[CellRuns, ...]
    same_as: str = ""  # the line that it is by another name

    @property
    def was_run(self) -> bool:
        return any(cell.rows for cell in self.cells)

    @property
    def stands_for(self) -> str:
        """The line whose figures are this one's too, so that it needs no runs; empty for all others.

        Co-teaching that is not told the noise drops nothing: its first network learns as with plain training.
        """
        untold = self.method.trainer == "coteaching" and self.title == self.method.title
        return self.title.removesuffix(" + Co-teaching") if untold else self.same_as

    @property
    def n_runs(self) -> int:
        return sum(len(cell.rows) for cell in self.cells)


@dataclass(frozen=True)
class Table:
    """A table of the page; `paper` names the paper's figures beside it."""

    preset: str
    title: str
    paper: str
    lines: tuple[Line, ...]

    @property
    def noises(self) -> list[str]:
        return [cell.column.noise for cell in self.lines[0].cells]

    @property
    def listed(self) -> bool:
        """Whether its streams came in the order of their files."""
        return self.lines[0].cells[0].column.stream == LISTED_KIND

    def of_what_was_run(self) -> Table:
        """The table without the lines that have no runs, but with that which the others are compared with."""
        base = self.lines[0] if self.preset in FIDELITY else None
        return dataclasses.replace(self, lines=tuple(line for line in self.lines if line.was_run or line is base))

    def line(self, title: str) -> Line:
        """The line of a title that every table of this preset has."""
        found = self.find(title)
        if found is None:
            raise KeyError(f"{self.title} has no line {title!r}")
        return found

    def find(self, title: str) -> Line | None:
        """None where it is there only if it was run: what was told the noise."""
        return next((line for line in self.lines if line.title == title), None)


class Group(NamedTuple):
    """The tables of one data set, on published streams in one order: "official" or "official:listed"."""

    data: str
    order: str

    @property
    def listed(self) -> bool:
        return self.order == LISTED_KIND


@dataclass(frozen=True)
class Contents:
    """Every row of the ledgers: in a table, set aside for a later run, on validation data, or anything else."""

    rows: Sequence[Row]
    tables: Mapping[Group, Sequence[Table]]
    older: Sequence[Row]
    validation: Sequence[Row]
    other: Sequence[Row]

    @property
    def in_tables(self) -> bool:
        """Whether any row is in a table; where there are no rows at all the tables say so."""
        lines = (line for tables in self.tables.values() for table in tables for line in table.lines)
        return not self.rows or any(line.was_run for line in lines)

    def tables_of(self, data: str, preset: str) -> list[Table]:
        """The tables of a preset, one for each order of the streams that was run: the released program's first."""
        found = [tables for group, tables in self.tables.items() if group.data == data]
        return [table for tables in found for table in tables if table.preset == preset]


def sort_rows(rows: Sequence[Row]) -> Contents:
    """The tables that the rows give, and the rows that are in none."""
    spelt = [spelt_out(row) for row in rows]
    groups = groups_of(rows)
    firsts = {group.data: group for group in reversed(groups)}
    tables = {group: make_tables(group, spelt, firsts[group.data] is group) for group in groups}
    cells = [cell for found in tables.values() for table in found for line in table.lines for cell in line.cells]
    counted = {id(row) for cell in cells for row in cell.rows}
    older = {id(row) for cell in cells for row in cell.older} - counted
    left = [(row, other) for row, other in zip(rows, spelt, strict=True) if id(other) not in counted | older]
    return Contents(
        rows,
        tables,
        [row for row, other in zip(rows, spelt, strict=True) if id(other) in older],
        [other for _, other in left if other["evaluated_on"] == "validation"],
        [row for row, _ in left if row["evaluated_on"] != "validation"],
    )


def groups_of(rows: Sequence[Row]) -> list[Group]:
    """The groups that the rows have; CIFAR-10 even without any. In the order of the files only where it was run so."""
    have = {Group(row["data"], row_kind(row)) for row in rows}
    found = []
    for data in NETWORKS:
        orders = [kind for kind in PUBLISHED_KINDS if Group(data, kind) in have]
        anything = data == "cifar10" or any(group.data == data for group in have)
        found += [Group(data, order) for order in orders or [WORD] * anything]
    return found


def spelt_out(row: Row) -> Row:
    """The row with the default recipe as what it changed of `official`, and without options that it cannot feel.

    Rows that do not tell what the default was are of when it was `official` itself.
    """
    changed = dict(row["options_changed"])
    if row["recipe"] == DEFAULT:
        changed = {**row.get("default_changes", {}), **changed}
    changed = _read(row, felt(_of_base(row["recipe"], changed)))
    return {**row, "recipe": BASE if row["recipe"] == DEFAULT else row["recipe"], "options_changed": changed}


def felt(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the tables' figures may depend on."""
    return {name: value for name, value in options.items() if name not in UNFELT}


def _read(row: Row, changed: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the row's methods look at."""
    unread = set(unread_options(row["sampler"], row["trainer"], changed.get("arrival_weight", 0.0)))
    if "spr" not in (row["sampler"], row["trainer"]):  # nor does a plugin
        unread |= {name for name in changed if name.startswith(("spr_", "finetune_"))}
    return {name: value for name, value in changed.items() if name not in unread}


def _of_base(recipe: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of the default recipe as changes of `official`: without what is as that has it."""
    base = vars(RECIPES[BASE])
    return {name: value for name, value in changed.items() if recipe != DEFAULT or value != base.get(name)}


# The tables --------------------------------------------------------------------------------------------------------


def make_tables(group: Group, rows: Sequence[Row], generated: bool) -> list[Table]:
    """Every table of a data set that the paper or this package has runs for; of generated streams if asked for."""
    makers = {"table1": _table1_lines, "table3": _ablation_lines, "table4": _ablation_lines, "disjoint": _spr_lines}
    if not generated:
        del makers["disjoint"]
    found = [
        _table(name, tuple(make(_grid(name, group), rows)))
        for name, make in makers.items()
        if group.data in PRESETS[name].sizes
    ]
    fidelity = [
        _table(name, tuple(_fidelity_lines(_grid(name, group), rows, START[name])))
        for name in FIDELITY
        if group.data in PRESETS[name].sizes
    ]
    return [*found, *fidelity]


def _grid(name: str, group: Group) -> Grid:
    """A preset's grid on the group's streams, where they are published ones."""
    grid = find_grid(name, [group.data], official=True)
    columns = (dataclasses.replace(c, stream=group.order) if c.stream == WORD else c for c in grid.columns)
    return dataclasses.replace(grid, columns=tuple(columns))


def _table(name: str, lines: tuple[Line, ...]) -> Table:
    return Table(name, PRESETS[name].title, PRESETS[name].paper, lines)


class NoSources(Sources):
    """No data set, wherever it may lie."""

    def of(self, config: RunConfig) -> DataSource:
        raise DataError(f"the results page does without {config.data}")


def find_lines(grid: Grid, rows: Sequence[Row], changes: Mapping[str, Any], suffix: str = "") -> list[Line]:
    """The lines of a grid whose runs were all made with some changes."""
    network = {"network": NETWORKS[grid.columns[0].data]}
    asked = Asked({**network, **changes}, lambda config: MEASURED_ON, NoSources())
    found = select(grid, rows, any_code=True, asked=asked)
    return [
        Line(
            method.title + suffix,
            method,
            tuple(
                CellRuns(column, found.rows.get((m, c), []), found.older.get((m, c), []))
                for c, column in enumerate(grid.columns)
            ),
        )
        for m, method in enumerate(grid.methods)
    ]


def _other_recipes(grid: Grid, rows: Sequence[Row]) -> Iterator[list[Line]]:
    """The lines of the recipe `paper`, and of the default where it is not `official`."""
    yield find_lines(grid, rows, {"recipe": "paper"}, ", recipe paper")
    if changes := felt(default_changes()):
        yield find_lines(grid, rows, {"recipe": BASE, "options": changes}, f", recipe {DEFAULT}")


def _table1_lines(grid: Grid, rows: Sequence[Row]) -> Iterator[Line]:
    """Baselines, those that may be told the noise twice; PuriDivER by each recipe; what the paper has not."""
    official = {"recipe": BASE}
    told = {line.method.title: line for line in find_lines(grid, rows, {**official, "tell_noise": True}, TOLD)}
    for line in find_lines(grid, rows, official):
        if line.method.title == PURIDIVER.title:
            yield dataclasses.replace(line, title=f"{line.title}, recipe {BASE}")
            alone = dataclasses.replace(grid, methods=(PURIDIVER,))
            for name, options in RELEASED.items():
                (released,) = find_lines(alone, rows, {**official, "options": options})
                yield dataclasses.replace(released, title=released_title(name))
            for lines in _other_recipes(alone, rows):
                yield from lines
        else:
            yield line
        twin = told[line.method.title]
        if line.method.trainer == "coteaching" or twin.was_run:
            yield twin
    yield from find_lines(dataclasses.replace(grid, methods=BESIDE), rows, official)


def released_title(rows: str) -> str:
    return f"PuriDivER, recipe {BASE} with {rows}"


def _ablation_lines(grid: Grid, rows: Sequence[Row]) -> Iterator[Line]:
    """The ablation of `official`, and of other recipes that were run with something changed."""
    yield from find_lines(grid, rows, {"recipe": BASE})
    for lines in _other_recipes(grid, rows):
        if any(line.was_run for line in lines[:-1]):  # the last is the recipe as it is, which Table 1 has
            yield from lines


def _fidelity_lines(grid: Grid, rows: Sequence[Row], recipe: str) -> Iterator[Line]:
    """The recipe as it is, and each row alone; those that change nothing need no runs."""
    first, *others = find_lines(grid, rows, {})
    yield first
    for line in others:
        same = line.title in without_effect(recipe)
        yield dataclasses.replace(line, same_as=first.title) if same else line


def _spr_lines(grid: Grid, rows: Sequence[Row]) -> Iterator[Line]:
    """SPR and its parts at each budget that was run, and PuriDivER."""
    data = grid.columns[0].data
    runs = [row for row in rows if (row["data"], row["stream"], row["sampler"]) == (data, "disjoint", "spr")]
    for budget in budgets(runs) or [1.0]:
        changes = {"recipe": BASE, "options": {"spr_budget": budget}}
        spr = dataclasses.replace(grid, methods=SPR)
        yield from find_lines(spr, rows, changes, f", spr_budget {budget:g}")
    others = tuple(method for method in grid.methods if method not in SPR)
    yield from find_lines(dataclasses.replace(grid, methods=others), rows, {"recipe": BASE})


def budgets(rows: Iterable[Row]) -> list[float]:
    return sorted({float(row["options_changed"].get("spr_budget", 1.0)) for row in rows})
