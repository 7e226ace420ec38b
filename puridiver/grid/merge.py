"""Several grid folders put together into one: the runs of machines that each ran a part.

Everything is looked at before anything is written. Then each run's folder is copied beside the others, gets its name
once it is whole, and its row is added last: whenever this ends, the same command goes on. Sources are only read.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.grid.engines.base import set_aside
from puridiver.grid.folder import CELLS, GridFolder
from puridiver.grid.results import ledger_at
from puridiver.report.environments import device_of, torch_of
from puridiver.report.ledger import code_of, problem_of, read_rows
from puridiver.report.table import summary_notes
from puridiver.report.titles import UNTITLED, Title, read_titles, write_titles
from puridiver.runs import folder as runs
from puridiver.streams.noise import noise_name

UNFINISHED_COPIES = "merging"
NOT_COPIED = (runs.CHECKPOINT, runs.LOCK, "*.tmp")
FIGURES = ("last_accuracy", "average_accuracy", "anytime_area", "memory_purity", "task_accuracy")
SHOWN = 7  # characters of a hash


@dataclass(frozen=True)
class Finished:
    """A finished run of a place: its row, and its folder, unless the place is a ledger alone."""

    row: Mapping[str, Any]
    place: Path
    folder: Path | None = None
    title: Title = UNTITLED

    @property
    def key(self) -> str:
        """What is the same run: its identity; of versions that had none, the whole row."""
        return str(self.row.get("cell") or runs.to_json(dict(sorted(self.row.items()))))

    @property
    def name(self) -> str:
        row = self.row
        method = self.title.text or f"{row['sampler']} + {row['trainer']}"
        noise = noise_name(row["noise"], row["noise_rate"])
        return f"{method} on {row['data']}, {row['stream']}, {noise}, seed {row['seed']}"


@dataclass
class Merged:
    """What became of a merge: runs in the folder, how many of them are new, and what a reader must know."""

    total: int
    added: int
    notes: list[str] = field(default_factory=list)


def merge(places: Sequence[Path], out: Path, keep_all: bool = False) -> Merged:
    """Copy the finished runs of grid folders or ledgers into the grid folder `out`, which may have some already.

    With `keep_all`, runs of one cell by other code or settings are no conflict: all of them are copied.
    """
    sources = [place for place in places if place.resolve() != out.resolve()]
    if not sources:
        raise ValueError(f"name the grid folders to merge: there is none but {out} itself")
    found = [_finished_runs(place, _rows_at(place)) for place in sources]
    _refuse_conflicts(found, keep_all)  # before the folder is made
    folder = GridFolder(out)
    with folder.locked():
        there = _finished_runs(out, folder.rows())
        _refuse_conflicts([there, *found], keep_all)
        merged = _best([there, *found])
        added = _copy(merged.values(), there, folder)
        _keep_titles(out, merged.values())
    return Merged(len(merged), added, _notes(list(merged.values())))


def _rows_at(place: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a ledger, or of a grid's folder; one that has run something need not have written any yet."""
    return GridFolder(place).rows() if (place / CELLS).is_dir() else read_rows(ledger_at(place))


def _finished_runs(place: Path, rows: Sequence[Mapping[str, Any]]) -> list[Finished]:
    """The finished runs of a grid's folder, those included whose row did not reach its ledger; or of a ledger."""
    folders = _folders(place) if place.is_dir() else {}
    known = {row.get("cell") for row in rows}
    rows = [*rows, *(summary for cell, (_, summary) in folders.items() if cell not in known)]
    titles = read_titles(place) if place.is_dir() else {}
    found = {}
    for row in rows:
        cell = str(row.get("cell"))
        run = Finished(row, place, folders.get(cell, (None, {}))[0], titles.get(cell, UNTITLED))
        found[run.key] = run  # of a run that was made twice the later
    return list(found.values())


def _folders(place: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The folders of finished runs with their summaries, by identity."""
    found = {}
    for path in sorted(place.glob(f"{CELLS}/*/{runs.SUMMARY}")):
        summary = runs.RunFolder(path.parent).read(runs.SUMMARY)
        if summary and summary.get("cell") and not problem_of(summary) and ".aside-" not in path.parent.name:
            found[str(summary["cell"])] = (path.parent, summary)
    return found


# Conflicts ---------------------------------------------------------------------------------------------------------


def _refuse_conflicts(groups: Sequence[Sequence[Finished]], keep_all: bool) -> None:
    _refuse_other_figures(groups)
    if not keep_all:
        _refuse_other_code(groups)
        _refuse_other_settings(groups)


def _refuse_other_figures(groups: Sequence[Sequence[Finished]]) -> None:
    """One run cannot have two results."""
    first: dict[str, Finished] = {}
    for run in (run for group in groups for run in group):
        other = first.setdefault(run.key, run)
        if [run.row.get(name) for name in FIGURES] != [other.row.get(name) for name in FIGURES]:
            accuracies = " and ".join(f"{each.row['last_accuracy']:.2%} in {_told(each)}" for each in (other, run))
            raise DataError(
                f"the same run has two results: {run.name} came to {accuracies}. Nothing was copied; leave one of the "
                "folders out, or remove the run's line from one ledger and its folder from cells/"
            )


def _refuse_other_code(groups: Sequence[Sequence[Finished]]) -> None:
    """The same settings and stream by other code: a table would take one of them."""

    def what(run: Finished) -> Any:
        row = run.row
        return (row["config_hash"], row["stream_hash"]) if {"config_hash", "stream_hash"} <= row.keys() else None

    pair = _differing(groups, what, lambda run: code_of(run.row))
    if pair:
        codes = " and ".join(f"{code_of(run.row)[:SHOWN] or 'not told'} in {run.place}" for run in pair)
        raise DataError(
            f"a cell is there by two states of the code: {pair[1].name}, code {codes}. Nothing was copied; run it "
            "again with one of them, leave a folder out, or say --keep-all to have both (tables show one of them)"
        )


def _refuse_other_settings(groups: Sequence[Sequence[Finished]]) -> None:
    """What a grid calls by one name, run with other settings; quick looks enter no table."""

    def what(run: Finished) -> Any:
        return (run.name, run.row.get("noise_map")) if run.title.text and not run.row["shortened"] else None

    # Manifests that were made by hand, one for each seed, have settings in common, whatever they hold.
    pair = _differing(groups, what, lambda run: f"{run.row.get('settings_hash')} {run.row.get('stream_hash')}")
    if pair:
        names = sorted(name for name in pair[0].row.keys() | pair[1].row.keys() if name in SETTINGS)
        differ = [name for name in names if pair[0].row.get(name) != pair[1].row.get(name)]
        told = "; ".join(f"{name} is {pair[0].row.get(name)!r} and {pair[1].row.get(name)!r}" for name in differ)
        raise DataError(
            f"a cell is there with two settings: {pair[1].name}, in {pair[0].place} and {pair[1].place} "
            f"({told or 'in what rows do not tell'}). Nothing was copied; leave a folder out, or, if both are meant, "
            "say --keep-all (tables show the settings with most runs)"
        )


SETTINGS = (
    "recipe", "options_changed", "memory", "network", "epochs", "told_noise", "evaluated_on", "precision", "graphs",
    "default_changes", "plugins", "image_size", "test_share", "imbalance", "stream_hash",
)  # fmt: skip


def _differing(
    groups: Sequence[Sequence[Finished]], what: Callable[[Finished], Any], how: Callable[[Finished], str]
) -> tuple[Finished, Finished] | None:
    """Runs of two places that are one in `what` (None: of nothing), where no value of `how` is in both places."""
    seen: dict[Any, dict[str, Finished]] = {}
    for group in groups:
        here: dict[Any, dict[str, Finished]] = {}
        for run in group:
            if (key := what(run)) is not None:
                here.setdefault(key, {})[how(run)] = run
        for key, kinds in here.items():
            before = seen.get(key)
            if before and not before.keys() & kinds.keys():
                return next(iter(before.values())), next(iter(kinds.values()))
            seen[key] = {**kinds, **(before or {})}
    return None


def _told(run: Finished) -> str:
    return f"{run.place} (torch {torch_of(run.row)}, {device_of(run.row)})"


# Copies ------------------------------------------------------------------------------------------------------------


def _best(groups: Iterable[Sequence[Finished]]) -> dict[str, Finished]:
    """Every run once, the first of it that has a folder."""
    found: dict[str, Finished] = {}
    for run in (run for group in groups for run in group):
        before = found.get(run.key)
        if before is None or (before.folder is None and run.folder is not None):
            found[run.key] = run
    return found


def _copy(merged: Iterable[Finished], there: Sequence[Finished], folder: GridFolder) -> int:
    """Copy what the folder has not; how many runs are new to it."""
    have, added = {run.key for run in there}, 0
    in_ledger = {row.get("cell") for row in folder.rows()}
    beside = folder.path / UNFINISHED_COPIES
    shutil.rmtree(beside, ignore_errors=True)  # of a merge that was killed
    try:
        for run in merged:
            if run.folder is not None and run.place != folder.path:
                _copy_folder(run.folder, folder.path / CELLS / run.folder.name, beside)
            if run.key not in have or (run.row.get("cell") and run.row["cell"] not in in_ledger):
                folder.record(dict(run.row))
            added += run.key not in have
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return added


def _copy_folder(source: Path, target: Path, beside: Path) -> None:
    if target.exists():
        set_aside(target, "it holds no finished run of this cell")
    copy = beside / target.name
    try:
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    except shutil.Error as error:  # of several files together
        raise DataError(
            f"{source} could not be copied: {error.args[0][0][2]}; what was copied before stays, and the same command "
            "goes on with the rest"
        ) from error
    target.parent.mkdir(parents=True, exist_ok=True)
    copy.rename(target)


def _keep_titles(out: Path, merged: Iterable[Finished]) -> None:
    before = read_titles(out)
    new = {str(run.row.get("cell")): run.title for run in merged if run.title.text}
    if {**new, **before} != before:
        write_titles(out, {**new, **before})


def _notes(merged: Sequence[Finished]) -> list[str]:
    notes = summary_notes([dict(run.row) for run in merged])
    codes = {code_of(run.row) for run in merged}
    if len(codes) > 1:
        notes.append(f"the runs are of {len(codes)} different states of the code: --any-code lets a table mix them")
    bare = sum(run.folder is None for run in merged)
    if bare:
        notes.append(f"{bare} of {len(merged)} runs have no folder: they are in tables, but in no figure or report")
    return notes
