"""Run folders as `Run` objects, checked as they are read, and grouped by method and column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import parse_json, read_regular
from puridiver.metrics import METRICS
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.runs import folder as files
from puridiver.runs.config import Role, fields_of
from puridiver.runs.ledger import read_lines

LEDGER = "ledger.jsonl"  # of a grid, whose titles name its runs
FEW = 6  # series that a reader can tell apart in one pair of axes
IN_COLUMN = ("seed", "data", "stream", "noise")  # settings that do not separate runs of one column

# What a report needs of the files, as `check` understands it. Further fields are allowed.
FIGURE = (float, None)
NAMES = "method column data stream stream_hash sampler trainer recipe network evaluated_on command started device"
SUMMARY: dict[Any, Any] = {
    **dict.fromkeys(NAMES.split(), str), **dict.fromkeys(("seed", "memory", "epochs", "memory_size"), int),
    **dict.fromkeys((*METRICS, "stream_noise"), FIGURE), "last_accuracy": float, "task_accuracy": [float, None],
    "shortened": bool, "phase_seconds": {str: float}, "versions": {str: str}, "commit": (str, None),
}  # fmt: skip
CONFIG: dict[str, Any] = {"config": {}, "resolved": {}}
POINT = {"task": int, "seen": int, "accuracy": float, "memory_purity": FIGURE, "memory_diversity": FIGURE,
         "alpha": FIGURE}  # fmt: skip
MIXTURE = {**{name: [float, 2] for name in ("weights", "means", "variances")}, "offset": float, "span": float}


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
        path = self.folder / files.MEMORY
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
    def settings(self) -> dict[str, str]:
        """What decides the figures, apart from the column and the seed."""
        names = fields_of(Role.IDENTITY, Role.OPTIONS, Role.STREAM, Role.SOURCE)
        told = {name: self.config["config"].get(name) for name in names if name not in IN_COLUMN}
        options = told.pop("options", None) or {}
        return {name: str(value) for name, value in {**told, **options}.items() if value is not None}

    @property
    def knows_truth(self) -> bool:
        """Whether any true label is known, so that there is a purity."""
        return self.summary["memory_purity"] is not None

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


def check(value: Any, kind: Any, where: str, field: str = "its content") -> Any:
    """Return the value if it is of a kind; else a `DataError` names the place and the field.

    A kind is a type, (kind, None) if null is allowed, [kind, length or None], or {field: kind}, where the field `str`
    stands for all. Numbers are finite.
    """
    if isinstance(kind, tuple):
        return value if value is None else check(value, kind[0], where, field)
    wanted = kind if isinstance(kind, type) else type(kind)
    fits = type(value) is wanted or (wanted is float and type(value) is int)
    if not fits or (wanted in (int, float) and not abs(value) < 2**63):  # nan is not smaller
        raise DataError(f"{where} is damaged: {field} should be of type {wanted.__name__}, but is {value!r:.60}")
    if wanted is list:
        if kind[1] not in (None, len(value)):
            raise DataError(f"{where} is damaged: {field} should have {kind[1]} entries, but has {len(value)}")
        for part in value:
            check(part, kind[0], where, field)
    if wanted is dict:
        for name, part in kind.items():
            for key in value if name is str else [name]:
                check(value.get(key), part, where, key if field == "its content" else f"{field}.{key}")
    return value


def _event_fields(event: dict[str, Any], n_classes: int) -> dict[str, Any]:
    """The fields of an event of its kind: lists have an entry a class, or an entry a sample of the memory."""
    if event["event"] == "task":
        known = {f"{where}_per_class": [int, n_classes] for where in ("memory", "stream")}
        maybe = {f"{where}_per_true_class": ([int, n_classes], None) for where in ("memory", "stream")}
        return {**POINT, **known, **maybe, "confusion": [[int, n_classes], n_classes]}
    if event["event"] == "split":
        n = len(event["sets"]) if isinstance(event.get("sets"), list) else None
        lists = {"sets": [int, n], "losses": [FIGURE, n], "uncertainties": [FIGURE, n], "right": [(int, None), n],
                 "guess_right": [(int, None), n]}  # fmt: skip
        return {"task": int, **lists, "loss_mixture": MIXTURE, "uncertainty_mixture": MIXTURE}
    return POINT if event["event"] == "anytime" else {}


def load_run(folder: Path) -> Run:
    """Read a finished run; a `DataError` names the file and field that is missing or damaged."""

    def read(name: str, kind: Any) -> Any:
        return check(parse_json(read_regular(folder / name), str(folder / name)), kind, str(folder / name))

    try:
        summary, config = read(files.SUMMARY, SUMMARY), read(files.CONFIG, CONFIG)
        names = read(files.MANIFEST, {"class_names": [str, None]})["class_names"]
        lines = read_regular(folder / files.METRICS).split(b"\n")
    except FileNotFoundError as error:
        begun = (folder / files.CONFIG).exists() and not (folder / files.SUMMARY).exists()
        hint = "; the run is unfinished" * begun
        if runs := sorted((folder / files.GRID_CELLS).glob(f"*/{files.SUMMARY}")):
            hint = f"; it is a grid's folder: name one of its {len(runs)} finished runs, such as {runs[0].parent}"
        raise DataError(f"{folder} holds no finished run: {Path(error.filename).name} is missing{hint}") from None
    events = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{folder / files.METRICS}, line {number},"
            event = check(parse_json(line, where), {"event": str}, where)
            events.append(check(event, _event_fields(event, len(names)), where))
    run = Run(folder, {**dict.fromkeys(METRICS), **summary, **_titles(folder, summary)}, config, events, names)
    if not len(run.tasks) == len(summary["task_accuracy"]) > 0:
        expected = f"{len(summary['task_accuracy'])} tasks, but has {len(run.tasks)}"
        raise DataError(f"{folder / files.METRICS} is damaged: it should tell the ends of {expected}")
    return run


def _titles(folder: Path, summary: dict[str, Any]) -> dict[str, str]:
    """The method and column of a run in a grid's folder: a grid has titles of its own."""
    ledger = folder.parent.parent / LEDGER
    if folder.parent.name != files.GRID_CELLS or not ledger.is_file():
        return {}
    row = _rows(ledger, ledger.stat().st_mtime_ns).get(str(summary.get("id")), {})
    return {name: row[name] for name in ("method", "column") if isinstance(row.get(name), str)}


@lru_cache(maxsize=4)
def _rows(ledger: Path, changed: int) -> dict[str, dict[str, Any]]:
    return {str(row.get("id")): row for row in read_lines(ledger)}


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read the runs of all folders, and say which were left out and why. A grid's folder stands for its runs.

    A path that does not exist is an error, and so is a single folder that cannot be read.
    """
    places: dict[Path, int] = {}
    for place, path in enumerate(paths):
        if not path.exists():
            raise DataError(f"there is no run in {path}: there is no such folder")
        cells = path / files.GRID_CELLS
        folders = sorted(cell for cell in cells.iterdir() if cell.is_dir()) if cells.is_dir() else [path]
        if not folders:
            raise DataError(f"{path} is a grid without a run: {cells} is empty")
        places = dict.fromkeys(folders, place) | places
    runs, notes = list[Run](), list[str]()
    for folder in places:
        try:
            runs.append(load_run(folder))
        except DataError as error:
            if len(places) == 1:
                raise
            notes.append(str(error))
    if not runs:
        raise DataError("no finished run was found: " + "; ".join(notes))
    return sorted(runs, key=lambda run: (places[run.folder], run.summary["started"])), notes


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
    found: dict[tuple[str, str, frozenset[tuple[str, str]]], list[Run]] = {}
    for run in runs:
        method = f"{run.summary['sampler']} + {run.summary['trainer']}" if ignore else run.method
        settings = frozenset(item for item in run.settings.items() if item[0] != ignore)
        found.setdefault((method, run.column, settings), []).append(run)
    several, groups = len({column for _, column, _ in found}) > 1, []
    for (title, column, settings), members in found.items():
        shared = frozenset.intersection(*(key[2] for key in found if key[:2] == (title, column)))
        own = [f"{name}={value}" for name, value in members[0].settings.items() if (name, value) in settings - shared]
        method = ", ".join([title, *own])
        label = f"{method}, {column}" if several else method
        groups.append(Group(method, column, label, sorted(members, key=lambda run: run.seed)))
    names = [group.method if several and len(groups) > FEW else group.label for group in groups]
    order = list(dict.fromkeys(names))
    return [replace(group, number=order.index(name)) for group, name in zip(groups, names, strict=True)]


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
    groups = [replace(group, runs=list(filter(usable, group.runs))) for group in grouped(runs, ignore)]
    parts = {"": [group for group in groups if group.runs]}
    if len(parts[""]) > FEW and len({group.column for group in parts[""]}) > 1:
        alike, parts = parts[""], {}
        for group in alike:
            parts.setdefault(f", {group.column}", []).append(replace(group, label=group.method))
    found = []
    for title, members in parts.items():
        n_parts = max(1, -(-len(members) // FEW))
        size = max(1, -(-len(members) // n_parts))
        for part, start in enumerate(range(0, len(members), size), start=1):
            which = f" ({part} of {n_parts})" * (n_parts > 1)
            found.append(Facet(title + which, members[start : start + size]))
    return found


def representatives(runs: Sequence[Run]) -> dict[str, Run]:
    """The lowest seed of each group, by its label."""
    groups = grouped(runs)
    return {g.label + f", seed {g.runs[0].seed}" * (len(g.runs) > 1): g.runs[0] for g in groups}
