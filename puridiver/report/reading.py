"""Run folders as `Run` objects, checked as they are read, and grouped by method and column."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.report import schema
from puridiver.runs.config import Role, fields_of
from puridiver.runs.folder import CONFIG, MANIFEST, MEMORY, METRICS, SUMMARY
from puridiver.runs.ledger import read_lines

CELLS, LEDGER = "cells", "ledger.jsonl"  # where a grid keeps its run folders, and what it calls them
FEW = 6  # series that a reader can tell apart in one pair of axes
IN_COLUMN = ("seed", "data", "stream", "noise")  # settings that do not separate runs of one column


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    config: dict[str, Any]
    events: list[dict[str, Any]]
    class_names: list[str]

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] in kinds]

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        return self.of_kind("task")

    @cached_property
    def memory(self) -> MemorySnapshot | None:
        """The final memory, or None where the run did not keep it."""
        path = self.folder / MEMORY
        return MemorySnapshot.read(path) if path.is_file() else None  # a pipe or a device is no memory

    @property
    def method(self) -> str:
        return self.summary["method"]

    @property
    def column(self) -> str:
        """The data and noise of the run, such as "digits sym-40"."""
        return self.summary["column"]

    @property
    def seed(self) -> int:
        return self.summary["seed"]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What decides the figures, apart from the column and the seed."""
        names = fields_of(Role.IDENTITY, Role.OPTIONS, Role.STREAM, Role.SOURCE)
        told = {name: self.config["config"].get(name) for name in names if name not in IN_COLUMN}
        options = told.pop("options", None) or {}
        return {**told, **options}

    @property
    def knows_truth(self) -> bool:
        """Whether any true label is known, so that there is a purity."""
        return self.summary.get("memory_purity") is not None

    @property
    def knows_all_truth(self) -> bool:
        partly = {"memory_known", "verified"} & self.summary.keys()
        return self.knows_truth and not partly and self.tasks[-1]["stream_per_true_class"] is not None

    @property
    def static_alpha(self) -> float | None:
        """The fixed alpha, or None for the adaptive one."""
        alpha = self.config["resolved"].get("options", {}).get("alpha", -1)
        return None if alpha is None or alpha < 0 else alpha

    @property
    def training_seconds(self) -> float:
        """Seconds without evaluation."""
        return sum(seconds for phase, seconds in self.summary["phase_seconds"].items() if phase != "evaluate")


# Reading -----------------------------------------------------------------------------------------------------------


def load_run(folder: Path) -> Run:
    """Read a finished run; a `DataError` names the file and field that is missing or damaged."""
    try:
        summary = schema.read_summary(folder / SUMMARY)
        config = schema.read_json(folder / CONFIG, schema.Config)
        names = schema.read_json(folder / MANIFEST, schema.Manifest)["class_names"]
        events = schema.read_events(folder / METRICS)
    except FileNotFoundError as error:
        raise DataError(_what_is_missing(folder, Path(str(error.filename)).name)) from None
    run = Run(folder, {**summary, **_names_by_grid(folder, summary)}, dict(config), events, names)
    if problem := _problem_of(run):
        raise DataError(f"{folder / METRICS} is damaged: {problem}")
    return run


def _problem_of(run: Run) -> str:
    """What does not fit together in the events, or an empty string."""
    ended, expected, n = len(run.tasks), len(run.summary["task_accuracy"]), len(run.class_names)
    if ended != expected or not ended:
        return f"it should tell the ends of {expected} tasks, but has {ended}"
    for event in run.tasks:
        lists = {name: event[name] for name in schema.Task.__annotations__ if isinstance(event.get(name), list)}
        wrong = [name for name, value in lists.items() if len(value) != n]
        if wrong or any(len(row) != n for row in event["confusion"]):
            return f"{wrong[0] if wrong else 'confusion'} should have an entry for each of the {n} classes"
    for event in run.of_kind("split"):
        names = ("losses", "uncertainties", "sets", "right", "guess_right")
        if len({len(event[name]) for name in names}) > 1:
            return f"{', '.join(names)} of a split should have as many entries as one another"
    return ""


def _what_is_missing(folder: Path, name: str) -> str:
    if not folder.exists():
        return f"{folder} does not exist"
    hint = "; the run is unfinished" if name == SUMMARY and (folder / CONFIG).exists() else ""
    if runs := sorted((folder / CELLS).glob(f"*/{SUMMARY}")):
        hint = f"; it is a grid's folder: name one of its {len(runs)} finished runs, such as {runs[0].parent}"
    return f"{folder} holds no finished run: {name} is missing{hint}"


def _names_by_grid(folder: Path, summary: Mapping[str, Any]) -> dict[str, str]:
    """The method and column of a run in a grid's folder: a grid has titles of its own."""
    rows = _grid_rows(folder.parent.parent) if folder.parent.name == CELLS else {}
    row = rows.get(str(summary.get("id")), {})
    return {name: row[name] for name in ("method", "column") if isinstance(row.get(name), str)}


def _grid_rows(grid: Path) -> dict[str, dict[str, Any]]:
    """The rows of a grid's ledger by run id, the last one first; none where there is no ledger."""
    ledger = grid / LEDGER
    return _rows_at(ledger, ledger.stat().st_mtime_ns) if ledger.is_file() else {}


@lru_cache(maxsize=4)
def _rows_at(ledger: Path, changed: int) -> dict[str, dict[str, Any]]:
    return {str(row.get("id")): row for row in reversed(read_lines(ledger))}


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read the runs of all folders, and say which were left out and why. A grid's folder stands for its runs.

    A path that does not exist is an error, and so is a single folder that cannot be read.
    """
    folders = list(dict.fromkeys(folder for path in paths for folder in _run_folders(path)))
    runs, notes = list[Run](), list[str]()
    for folder in folders:
        try:
            runs.append(load_run(folder))
        except DataError as error:
            if len(folders) == 1:
                raise
            notes.append(str(error))
    if not runs:
        raise DataError("no finished run was found: " + "; ".join(notes))
    return runs, notes


def _run_folders(path: Path) -> list[Path]:
    """The folder of a run, or those of a grid, in the order in which the grid finished them."""
    if not path.exists():
        raise DataError(f"there is no run in {path}: there is no such folder")
    if not (path / CELLS).is_dir():
        return [path]
    places = {id: place for place, id in enumerate(reversed(_grid_rows(path)))}
    found = sorted(cell for cell in (path / CELLS).iterdir() if cell.is_dir())
    if not found:
        raise DataError(f"{path} is a grid without a run: {path / CELLS} is empty")
    return sorted(found, key=lambda cell: places.get(cell.name.rpartition("-")[2], len(places)))


# Grouping ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Runs that differ by seed alone."""

    method: str
    column: str
    label: str  # the method, and the column where several are shown
    runs: list[Run]
    number: int = 0  # decides the colour


def grouped(runs: Sequence[Run], ignore: str = "") -> list[Group]:
    """Runs of one method, column and settings together, in order of first appearance.

    Where groups share method and column, their label adds the settings in which they differ. `ignore` names an option
    that neither separates nor labels groups; a title may stand for it, so sampler and trainer name the method then.
    """
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        method = f"{run.summary['sampler']} + {run.summary['trainer']}" if ignore else run.method
        settings = {name: value for name, value in run.settings.items() if name != ignore}
        key = (method, run.column, json.dumps(settings, sort_keys=True, default=str))
        found.setdefault(key, []).append(run)
    several, groups = len({column for _, column, _ in found}) > 1, []
    for key, members in found.items():
        alike = [others[0].settings for other, others in found.items() if other[:2] == key[:2]]
        method = ", ".join([key[0], *_differing(members[0].settings, alike, ignore)])
        label = f"{method}, {key[1]}" if several else method
        groups.append(Group(method, key[1], label, sorted(members, key=lambda run: run.seed)))
    order = list(dict.fromkeys(group.method if several and len(groups) > FEW else group.label for group in groups))
    return [dataclasses.replace(g, number=order.index(g.label if g.label in order else g.method)) for g in groups]


def _differing(own: Mapping[str, Any], alike: Sequence[Mapping[str, Any]], ignore: str) -> list[str]:
    """The settings that tell a run from those of the same method and column."""
    names = dict.fromkeys(name for settings in alike for name in settings if name != ignore)
    differ = [name for name in names if len({str(settings.get(name)) for settings in alike}) > 1]
    return [f"{name}={own[name]}" for name in differ if own.get(name) is not None]


@dataclass(frozen=True)
class Facet:
    """The groups of one pair of axes."""

    title: str
    groups: list[Group]

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]


def facets(runs: Sequence[Run], usable: Callable[[Run], bool] = lambda run: True, ignore: str = "") -> list[Facet]:
    """Divide groups into axes: all together where they are few, else by column, and in parts that can be told apart."""
    kept = {id(run) for run in runs if usable(run)}
    found = [dataclasses.replace(g, runs=[run for run in g.runs if id(run) in kept]) for g in grouped(runs, ignore)]
    groups = [group for group in found if group.runs]
    parts = {"": groups}
    if len(groups) > FEW and len({group.column for group in groups}) > 1:
        parts = {f", {group.column}": [] for group in groups}
        for group in groups:
            parts[f", {group.column}"].append(dataclasses.replace(group, label=group.method))
    return [facet for title, members in parts.items() for facet in _few_at_a_time(title, members)]


def _few_at_a_time(title: str, groups: list[Group]) -> Iterable[Facet]:
    n_parts = -(-len(groups) // FEW)
    size = -(-len(groups) // max(n_parts, 1))
    for part in range(n_parts):
        which = f" ({part + 1} of {n_parts})" * (n_parts > 1)
        yield Facet(title + which, groups[part * size : (part + 1) * size])


def representatives(runs: Sequence[Run]) -> dict[str, Run]:
    """The lowest seed of each group, by its label."""
    return {
        group.label + (f", seed {group.runs[0].seed}" if len(group.runs) > 1 else ""): group.runs[0]
        for group in grouped(runs)
    }
