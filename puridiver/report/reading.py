"""Finished runs, read from their folders and grouped by method and column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from puridiver.errors import DataError, ManifestError
from puridiver.metrics import METRICS
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.runs import folder as files
from puridiver.runs.config import Role
from puridiver.runs.ledger import FIELDS, checked, read_lines
from puridiver.streams import StreamManifest

LEDGER = "ledger.jsonl"  # of a grid, whose titles name its runs
IN_COLUMN = ("seed", "data", "stream", "noise")  # settings that do not separate runs of one column
# Fields of a summary that a page does not need.
OPTIONAL = {"task_purity", "lanes", "began_with", "grid", "alpha", "stream_noise", "noise_rate", "commit", *METRICS}
DAMAGE = (KeyError, IndexError, TypeError, ValueError, RecursionError, FileNotFoundError)  # what bad content raises


@contextmanager
def damage(what: object) -> Iterator[None]:
    """Tell that a file is damaged, instead of the error that its content raised."""
    try:
        yield
    except ManifestError as error:
        raise DataError(str(error)) from error
    except DAMAGE as error:
        raise DataError(f"{what} is damaged: {type(error).__name__}: {error}") from error


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

    @property
    def settings(self) -> dict[str, str]:
        """What decides the figures, apart from the column and the seed."""
        told = self.begun.config.values(Role.IDENTITY, Role.OPTIONS, Role.STREAM, Role.SOURCE)
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


def load_run(folder: Path) -> Run:
    """Read a finished run; a `DataError` names the file that is missing or damaged."""
    here = files.RunFolder(folder)
    summary, begun = here.read(files.SUMMARY), here.begun()
    if summary is None or begun is None:
        missing = files.CONFIG if begun is None else f"{files.SUMMARY}; the run is unfinished"
        raise DataError(f"{folder} holds no finished run: it lacks {missing}")
    checked(summary, str(folder / files.SUMMARY))
    if lacking := {name for name in FIELDS if summary.get(name) is None} - OPTIONAL:
        raise DataError(f"{folder / files.SUMMARY} is damaged: it lacks {', '.join(sorted(lacking))}")
    with damage(folder / files.MANIFEST):
        manifest = StreamManifest.load(folder / files.MANIFEST)
    with damage(folder / files.METRICS):
        summary = {**dict.fromkeys(METRICS), **summary, **_titles(folder, summary["id"])}
        run = Run(folder, summary, begun, here.events(), manifest)
        if not len(run.tasks) == len(summary["task_accuracy"]) > 0:
            raise ValueError(f"it should have {len(summary['task_accuracy'])} tasks, but has {len(run.tasks)}")
    return run


def _titles(folder: Path, id: str) -> dict[str, str]:
    """The method and column of a run in a grid's folder: a grid has titles of its own."""
    ledger = folder.parent.parent / LEDGER
    if folder.parent.name != files.GRID_CELLS or not ledger.is_file():
        return {}
    row = _rows(ledger, ledger.stat().st_mtime_ns).get(id, {})
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
        cells = [cell for cell in (path / files.GRID_CELLS).glob("*") if cell.is_dir()]
        places = dict.fromkeys(cells or [path], place) | places
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
    return sorted(runs, key=lambda run: (places[run.folder], run.summary["started"])), sorted(notes)


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

    `ignore` names an option that neither separates nor labels groups. A title may stand for it, so sampler and trainer
    name the method then.
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


def by_column(groups: Iterable[Group]) -> dict[str, list[Group]]:
    """The groups of each column, by what its name adds to a title: nothing where there is one column."""
    groups = list(groups)
    several = len({group.column for group in groups}) > 1
    names = dict.fromkeys(group.column for group in groups)
    return {f", {name}" * several: [group for group in groups if group.column == name] for name in names}


def representatives(runs: Sequence[Run]) -> dict[str, Run]:
    """The lowest seed of each group, by a name that tells it apart."""
    return {
        g.label + column + f", seed {g.runs[0].seed}" * (len(g.runs) > 1): g.runs[0]
        for column, groups in by_column(grouped(runs)).items() for g in groups
    }  # fmt: skip
