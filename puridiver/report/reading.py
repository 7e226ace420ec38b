"""Finished runs, read from their folders and grouped by method and column."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from puridiver.errors import DataError, ManifestError, counted
from puridiver.metrics import METRICS
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.runs import folder as files
from puridiver.runs.config import Role
from puridiver.runs.ledger import LEDGER, Row, checked, read_ledgers, shown_method
from puridiver.streams import StreamManifest

KINDS = {"blurry": "blurry ", "disjoint": "disjoint ", "official": "published "}  # of tasks; others have no word
IN_COLUMN = ("seed", "data", "stream", "noise")  # settings that do not separate runs of one column
SHOWN = ("task_accuracy", "phase_seconds", "versions", "stream_hash", "command", "started")  # null in some ledger rows
# What bad content raises.
DAMAGE = (ManifestError, KeyError, IndexError, TypeError, ValueError, RecursionError, FileNotFoundError)


@contextmanager
def damage(what: object) -> Iterator[None]:
    """Turn errors that bad content raises into a `DataError` that names the file."""
    try:
        yield
    except DAMAGE as error:
        raise DataError(f"{what} is damaged: {type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    method: str
    column: str  # data and noise, such as "digits sym-40"
    seed: int
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
    def story(self) -> str:
        """Data and stream in words: "digits: 5 blurry tasks, 39.9 % of the labels wrong"."""
        wrong, kind = self.summary["stream_noise"], KINDS.get(self.manifest.kind, "")
        tasks = counted(self.manifest.n_tasks, f"{kind}task")
        tasks += " in the order of time" * (self.manifest.kind == "time")
        labels = "labels as they came" if wrong is None else f"{100 * wrong:.1f} % of the labels wrong"
        return f"{self.summary['data']}: {tasks}, {labels}"

    @property
    def settings(self) -> dict[str, str]:
        """The settings that decide the figures, except the column and the seed."""
        told = self.begun.config.values(Role.IDENTITY, Role.OPTIONS, Role.STREAM, Role.SOURCE)
        told |= told.pop("options")
        return {name: str(value) for name, value in told.items() if value is not None and name not in IN_COLUMN}

    @property
    def knows_truth(self) -> bool:
        """Whether any true label is known, so that there is a purity."""
        return self.summary["memory_purity"] is not None

    @property
    def knows_all_truth(self) -> bool:
        return "verified" not in self.summary and self.tasks[-1]["memory_per_true_class"] is not None

    @property
    def static_alpha(self) -> float | None:
        """The fixed alpha, or None for the adaptive one."""
        alpha = self.begun.resolved.get("options", {}).get("alpha", -1)
        return None if alpha is None or alpha < 0 else alpha

    @property
    def training_seconds(self) -> float:
        """Seconds without evaluation."""
        return sum(seconds for phase, seconds in self.summary["phase_seconds"].items() if phase != "evaluate")


def load_run(folder: Path, grid: Mapping[str, Row] | None = None) -> Run:
    """Read a finished run, with the titles of its row in a grid; a `DataError` names a file that is damaged."""
    here = files.RunFolder(folder)
    summary, begun = here.read(files.SUMMARY), here.begun()
    if summary is None or begun is None:
        missing = files.CONFIG if begun is None else f"{files.SUMMARY}; the run is unfinished"
        raise DataError(f"{folder} holds no finished run: it lacks {missing}")
    checked(summary, str(folder / files.SUMMARY))
    if lacking := [name for name in SHOWN if summary.get(name) is None]:
        raise DataError(f"{folder / files.SUMMARY} is damaged: it lacks {', '.join(lacking)}")
    named = (grid or {}).get(summary["id"], summary)
    with damage(folder / files.MANIFEST):
        manifest = StreamManifest.load(folder / files.MANIFEST)
    with damage(folder / files.METRICS):
        events, summary = here.events(), dict.fromkeys(METRICS) | summary
        run = Run(folder, shown_method(named), named["column"], summary["seed"], summary, begun, events, manifest)
        if not len(run.tasks) == len(summary["task_accuracy"]) > 0:
            raise ValueError(f"it should have {len(summary['task_accuracy'])} tasks, but has {len(run.tasks)}")
    return run


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Read the runs of all folders, and say which were left out and why. A grid's folder stands for its runs.

    A path that does not exist is an error, and so is a single folder that cannot be read.
    """
    folders, grid = dict[Path, None](), dict[str, Row]()
    for path in paths:
        if not path.exists():
            raise DataError(f"there is no run in {path}: there is no such folder")
        folders |= dict.fromkeys([cell for cell in (path / files.GRID_CELLS).glob("*") if cell.is_dir()] or [path])
        if (path / LEDGER).is_file():  # of a grid, whose titles name its runs
            grid |= {row["id"]: row for row in read_ledgers([path / LEDGER])}
    runs, notes = list[Run](), list[str]()
    for folder in folders:
        try:
            runs.append(load_run(folder, grid))
        except DataError as error:
            if len(folders) == 1:
                raise
            notes.append(str(error))
    if not runs:
        raise DataError("no finished run was found: " + "; ".join(notes))
    return sorted(runs, key=lambda run: run.summary["started"]), sorted(notes)


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

    `ignore` names an option that neither separates nor labels groups. Titles may contain it, so the names of sampler
    and trainer replace them.
    """
    methods = [f"{run.summary['sampler']} + {run.summary['trainer']}" if ignore else run.method for run in runs]
    columns, labels = [run.column for run in runs], pd.Series(methods)
    settings = pd.DataFrame([run.settings for run in runs]).drop(columns=ignore, errors="ignore")
    for _, alike in settings.groupby([methods, columns], sort=False):
        differing = alike.loc[:, alike.nunique(dropna=False) > 1]
        for place, row in differing.iterrows():
            labels[place] = ", ".join([methods[place], *(f"{name}={value}" for name, value in row.dropna().items())])
    numbers = {label: number for number, label in enumerate(labels.unique())}
    return [
        Group(label, column, sorted((runs[place] for place in part.index), key=lambda run: run.seed), numbers[label])
        for (label, column), part in labels.groupby([labels, columns], sort=False)
    ]


def by_column(groups: Sequence[Group]) -> dict[str, list[Group]]:
    """The groups of each column. The keys end the titles of panels: ", digits sym-40", or "" if there is one column."""
    names = dict.fromkeys(group.column for group in groups)
    return {f", {name}" * (len(names) > 1): [group for group in groups if group.column == name] for name in names}


def representatives(runs: Sequence[Run]) -> dict[str, Run]:
    """The lowest seed of each group, by a name that tells it apart."""
    return {
        g.label + column + f", seed {g.runs[0].seed}" * (len(g.runs) > 1): g.runs[0]
        for column, groups in by_column(grouped(runs)).items() for g in groups
    }  # fmt: skip
