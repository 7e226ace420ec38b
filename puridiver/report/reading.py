"""Run folders as `Run` objects or pandas tables, and grouped by method and column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.errors import DataError, ManifestError
from puridiver.files import parse_json, read_regular
from puridiver.metrics import METRICS
from puridiver.metrics.history import sample_history
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.runs import folder as files
from puridiver.runs.config import Role
from puridiver.runs.ledger import FIELDS, checked, read_lines
from puridiver.streams import StreamManifest
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame

LEDGER = "ledger.jsonl"  # of a grid, whose titles name its runs
FEW = 6  # series that a reader can tell apart in one pair of axes
IN_COLUMN = ("seed", "data", "stream", "noise")  # settings that do not separate runs of one column
OPTIONAL = {"task_purity", "lanes", "began_with"}  # fields of a ledger row that no page shows
# What a page needs of each kind of event.
POINT = ("task", "seen", "accuracy", "memory_purity", "alpha")
TASK = ("confusion", "class_accuracy", "memory_per_class", "stream_per_class", "memory_per_true_class",
        "stream_per_true_class")  # fmt: skip
# Lists of a split event, with one entry a sample, and the names of their columns.
SPLIT = {"arrivals": "arrival", "losses": "loss", "uncertainties": "uncertainty", "sets": "set", "right": "right",
         "guess_right": "guess_right"}  # fmt: skip
EVENTS = {"anytime": POINT, "task": (*POINT, *TASK), "split": (*SPLIT, "loss_mixture", "uncertainty_mixture")}


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    begun: files.Begun
    events: list[dict[str, Any]]
    manifest: StreamManifest

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
    def class_names(self) -> list[str]:
        return list(self.manifest.class_names)

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
        told = self.begun.config.of_role(Role.IDENTITY, Role.OPTIONS, Role.STREAM, Role.SOURCE)
        told |= told.pop("options")
        return {name: str(value) for name, value in told.items() if value is not None and name not in IN_COLUMN}

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
        alpha = self.begun.resolved.get("options", {}).get("alpha", -1)
        return None if alpha is None or alpha < 0 else alpha

    @property
    def training_seconds(self) -> float:
        """Seconds without evaluation."""
        return sum(seconds for phase, seconds in self.summary["phase_seconds"].items() if phase != "evaluate")


# Reading -----------------------------------------------------------------------------------------------------------


def load_run(folder: Path) -> Run:
    """Read a finished run; a `DataError` names the file that is missing or damaged."""
    here = files.RunFolder(folder)
    summary, begun = here.read(files.SUMMARY), here.begun()
    if summary is None or begun is None:
        raise _not_finished(folder, files.SUMMARY if summary is None else files.CONFIG)
    checked(summary, str(folder / files.SUMMARY))
    try:
        lines = read_regular(folder / files.METRICS).split(b"\n")
        manifest = StreamManifest.load(folder / files.MANIFEST)
    except ManifestError as error:
        raise DataError(str(error)) from error
    except FileNotFoundError as error:
        raise _not_finished(folder, Path(str(error.filename)).name) from None
    if missing := FIELDS.keys() - summary.keys() - METRICS.keys() - OPTIONAL:
        raise DataError(f"{folder / files.SUMMARY} is damaged: it lacks {', '.join(sorted(missing))}")
    events = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{folder / files.METRICS}, line {number},"
            event = parse_json(line, where)
            kind = event.get("event") if isinstance(event, dict) else None
            if kind is None or (missing := {*EVENTS.get(kind, ())} - event.keys()):
                raise DataError(f"{where} is damaged: it lacks {', '.join(sorted(missing)) if kind else 'event'}")
            events.append(event)
    run = Run(folder, {**dict.fromkeys(METRICS), **summary, **_titles(folder, summary)}, begun, events, manifest)
    if not len(run.tasks) == len(summary["task_accuracy"]) > 0:
        expected = f"{len(summary['task_accuracy'])} tasks, but has {len(run.tasks)}"
        raise DataError(f"{folder / files.METRICS} is damaged: it should tell the ends of {expected}")
    return run


def _not_finished(folder: Path, missing: str) -> DataError:
    begun = (folder / files.CONFIG).exists() and not (folder / files.SUMMARY).exists()
    hint = "; the run is unfinished" * begun
    if runs := sorted((folder / files.GRID_CELLS).glob(f"*/{files.SUMMARY}")):
        hint = f"; it is a grid's folder: name one of its {len(runs)} finished runs, such as {runs[0].parent}"
    return DataError(f"{folder} holds no finished run: {missing} is missing{hint}")


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


# As pandas tables --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunFrames:
    """A finished run, as `puridiver.read_run` returns it.

    `summary` is the run's summary, a dict. `metrics` has a row for each measurement (`event`: anytime, task or epoch);
    lists, such as accuracy by class, stay lists. `splits` has a row for each task and memory sample at its end.
    `trace` has a row for each sample that was ever in the memory, or is None if the run was not traced.
    """

    summary: dict[str, Any]
    metrics: DataFrame
    splits: DataFrame
    trace: DataFrame | None


def read_run(folder: Path | str) -> RunFrames:
    """Read the finished run that `puridiver run --out FOLDER` wrote."""
    import pandas as pd

    run = load_run(Path(folder))
    metrics = pd.DataFrame(run.of_kind("anytime", "task", "epoch"))
    metrics = metrics.astype({name: "Int64" for name in ("seen", "epoch") if name in metrics})  # also beside gaps
    splits = [
        pd.DataFrame({"task": event["task"], **{new: event[old] for old, new in SPLIT.items()}})
        for event in run.of_kind("split")
    ]
    divided = pd.concat(splits, ignore_index=True) if splits else pd.DataFrame()
    if splits:
        divided["set"] = divided["set"].map(dict(enumerate(SET_NAMES)))
    trace = sample_history(run.class_names, run.events) if run.begun.traced else None
    return RunFrames(run.summary, metrics, divided, trace)


# Grouping ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Runs that differ by seed alone."""

    label: str  # the method, and settings in which it differs from others of its name
    column: str
    runs: list[Run]
    number: int  # decides the colour


def grouped(runs: Sequence[Run], ignore: str = "") -> list[Group]:
    """Runs of one method, column and settings together, in order of first appearance.

    `ignore` names an option that neither separates nor labels groups; a title may stand for it, so sampler and trainer
    name the method then.
    """
    alike: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        method = f"{run.summary['sampler']} + {run.summary['trainer']}" if ignore else run.method
        alike.setdefault((method, run.column), []).append(run)
    found: dict[tuple[str, str], list[Run]] = {}
    for (method, column), members in alike.items():
        names = dict.fromkeys(name for run in members for name in run.settings if name != ignore)
        differing = [name for name in names if len({run.settings.get(name) for run in members}) > 1]
        for run in members:
            own = [f"{name}={run.settings[name]}" for name in differing if name in run.settings]
            found.setdefault((", ".join([method, *own]), column), []).append(run)
    labels = list(dict.fromkeys(label for label, _ in found))
    return [
        Group(label, column, sorted(members, key=lambda run: run.seed), labels.index(label))
        for (label, column), members in found.items()
    ]


@dataclass(frozen=True)
class Facet:
    """The groups of one pair of axes."""

    title: str
    groups: list[Group]

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]


def facets(runs: Sequence[Run], usable: Callable[[Run], bool] = lambda run: True, ignore: str = "") -> list[Facet]:
    """Divide groups into axes: one for each column, or several where its groups could not be told apart."""
    groups = [replace(group, runs=list(filter(usable, group.runs))) for group in grouped(runs, ignore)]
    columns: dict[str, list[Group]] = {}
    for group in groups:
        if group.runs:
            columns.setdefault(group.column, []).append(group)
    found = []
    for column, members in columns.items():
        parts = -(-len(members) // FEW)
        size = -(-len(members) // parts)
        for part in range(parts):
            title = f", {column}" * (len(columns) > 1) + f" ({part + 1} of {parts})" * (parts > 1)
            found.append(Facet(title, members[part * size : (part + 1) * size]))
    return found


def representatives(runs: Sequence[Run]) -> dict[str, Run]:
    """The lowest seed of each group, by a name that tells it apart."""
    groups = grouped(runs)
    several = len({group.column for group in groups}) > 1
    return {
        g.label + f", {g.column}" * several + f", seed {g.runs[0].seed}" * (len(g.runs) > 1): g.runs[0] for g in groups
    }
