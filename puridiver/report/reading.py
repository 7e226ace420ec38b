"""Run folders as the report reads them: one `Run` each, grouped by what they are runs of."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.report.ledger import code_of, device_type, problem_of, read_rows
from puridiver.report.titles import UNTITLED, Title, read_titles
from puridiver.runs.folder import CELL_SHOWN, CONFIG, MANIFEST, MEMORY, METRICS, SUMMARY
from puridiver.streams.names import as_recorded, without_seed
from puridiver.streams.noise import noise_name

CELLS, LEDGER = "cells", "ledger.jsonl"  # where a grid keeps its run folders, and its list of them
OPTION = "option:"
STREAM = ("data", "stream_kind", "noise_name")  # what makes streams differ
FEW = 6  # series that one pair of axes can show apart

# What makes runs differ in kind, beside the options that were changed; a label names only what runs do differ in.
KIND = (
    "method", "data", "stream_kind", "noise_name", "noise_map", "imbalance", "tasks", "holdout", "recipe", "memory",
    "network", "epochs", "told_noise", "evaluated_on", "anytime_points", "shortened", "precision", "graphs",
    "device_type", "code",
)  # fmt: skip
SETTINGS = "settings"  # the hash of all settings but the seed: named where nothing else tells two kinds apart
IN_CONFIG = ("noise_map", "tasks", "holdout", "anytime_points")
WORDS = {
    "memory": "memory {}", "epochs": "{} epochs", "told_noise": "told the noise: {}", "evaluated_on": "on {}",
    "shortened": "shortened: {}", "noise_map": "noise map {}", "tasks": "{} tasks", "holdout": "holdout {}",
    "anytime_points": "{} points a task", "graphs": "graphs: {}", "code": "code {}", SETTINGS: "settings {}",
    "imbalance": "imbalance {}",
}  # fmt: skip

IN_SUMMARY = (
    "data", "stream", "stream_hash", "noise", "noise_rate", "stream_noise", "sampler", "trainer", "recipe",
    "options_changed", "memory", "network", "epochs", "seed", "evaluated_on", "shortened", "last_accuracy",
    "average_accuracy", "anytime_area", "forgetting", "task_accuracy", "memory_size", "memory_purity",
    "phase_seconds", "command", "versions", "started",
)  # fmt: skip


# Of the events of a run what figures are made of, by its type; all may be null.
EVENT_FIGURES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("accuracy", "alpha", "memory_purity", "memory_diversity", "clean_precision", "relabel_precision",
                     "unlabelled_precision"), (float, int)),
    **dict.fromkeys(("task", "seen", "epoch", "memory_size", "clean_size", "relabel_size", "unlabelled_size"), (int,)),
    **dict.fromkeys(("memory_per_class", "memory_per_true_class", "class_accuracy", "group_accuracy", "confusion",
                     "stream_per_class", "stream_per_true_class", "losses", "uncertainties", "sets", "right",
                     "guess_right"), (list,)),
    **dict.fromkeys(("loss_mixture", "uncertainty_mixture"), (dict,)),
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path
    summary: dict[str, Any]
    config: dict[str, Any]
    events: list[dict[str, Any]]
    manifest: dict[str, Any]
    title: Title = UNTITLED  # of its method, by the grid that made it

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        return self.of_kind("task")

    @cached_property
    def memory(self) -> MemorySnapshot | None:
        """What the memory held at the end; None for a run of a version that did not keep it."""
        path = self.folder / MEMORY
        return MemorySnapshot.read(path) if path.exists() else None

    @property
    def class_names(self) -> list[str]:
        return self.manifest["class_names"]

    @property
    def seed(self) -> int:
        return self.summary["seed"]

    @property
    def method(self) -> str:
        return f"{self.summary['sampler']} + {self.summary['trainer']}"

    @property
    def name(self) -> str:
        """What to call the method: the grid's title, where it has one."""
        return self.title.text or self.method

    def in_title(self, name: str) -> bool:
        """Whether the title stands for a property."""
        return name.removeprefix(OPTION) in self.title.options

    def told(self, name: str) -> str:
        """What a label says of a property."""
        if name == "method":
            return self.name
        return "" if self.in_title(name) else self.kind(name)

    @property
    def knows_truth(self) -> bool:
        """Whether true labels were known, so that there is a purity."""
        return self.summary["memory_purity"] is not None

    @property
    def knows_all_truth(self) -> bool:
        """Whether the true label of every sample was known."""
        partly = {"memory_known", "verified"} & self.summary.keys()
        return self.knows_truth and not partly and self.tasks[-1].get("stream_per_true_class", ()) is not None

    @property
    def static_alpha(self) -> float | None:
        """The alpha that was set by hand, None for the adaptive one."""
        alpha = self.config["resolved"]["options"].get("alpha", -1)
        return None if alpha < 0 else alpha

    @property
    def training_seconds(self) -> float:
        """Without evaluation, which is no part of learning."""
        return sum(seconds for phase, seconds in self.summary["phase_seconds"].items() if phase != "evaluate")

    def kind(self, name: str) -> str:
        """One property that may set runs apart, as text."""
        s = self.summary
        if name == "method":
            return self.method
        if name == "noise_name":
            return noise_title(s)
        if name.startswith(OPTION):
            option = name.removeprefix(OPTION)
            return f"{option}={s['options_changed'][option]}" if option in s["options_changed"] else ""
        if name == "stream_kind":  # published streams of several seeds are of one kind
            return without_seed(s["stream"])
        if name in ("code", SETTINGS):
            return (code_of(s) if name == "code" else s.get("settings_hash", ""))[:7] or "not told"
        if name == "device_type":
            return device_type(s)
        value = (self.config.get("config", {}) if name in IN_CONFIG else s).get(name, "")
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def noise_title(summary: dict[str, Any]) -> str:
    """The noise of a stream in a word: what was added to the labels, or that they are as they came."""
    if summary["noise"] == "none":
        return "no noise" if summary["stream_noise"] == 0 else "labels as they came"
    return noise_name(summary["noise"], summary["noise_rate"])


def read_run(folder: Path) -> Run:
    """A finished run; a `DataError` says what is missing or damaged."""
    summary, config, manifest = (_parsed(folder, name, json.loads) for name in (SUMMARY, CONFIG, MANIFEST))
    events = _parsed(folder, METRICS, lambda text: [json.loads(line) for line in text.splitlines()])
    run = Run(folder, summary, config, events, manifest)
    _check(run)
    summary["stream"] = as_recorded(summary["stream"])
    titles = read_titles(folder.parent.parent) if folder.parent.name == CELLS else {}
    return dataclasses.replace(run, title=titles.get(summary.get("cell", ""), UNTITLED))


def _parsed(folder: Path, name: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse((folder / name).read_text())
    except FileNotFoundError:
        raise DataError(_what_is_missing(folder, name)) from None
    except NotADirectoryError:
        raise DataError(f"{folder} is a file; name a run folder (written by `puridiver run --out`)") from None
    except ValueError as error:  # neither JSON nor text
        raise DataError(f"{folder / name} is damaged: {error}") from error


def _what_is_missing(folder: Path, name: str) -> str:
    if not folder.exists():
        return f"{folder} does not exist"
    unfinished = name == SUMMARY and (folder / CONFIG).exists()
    hint = "; it has not come to its end" if unfinished else ""
    runs = sorted((folder / CELLS).glob(f"*/{SUMMARY}"))
    if runs:
        count = f"{len(runs)} finished {'run' if len(runs) == 1 else 'runs'}"
        hint = f"; it is a grid's folder, with {count} in {folder / CELLS}: name one of them, such as {runs[0].parent}"
    elif (folder / LEDGER).exists():
        hint = f"; its {LEDGER} is enough for tables, but figures need the runs' folders"
    return f"{folder} holds no finished run: {name} is missing{hint}"


def _check(run: Run) -> None:
    """What every figure relies on must be there."""
    parts = ((SUMMARY, run.summary, IN_SUMMARY), (CONFIG, run.config, ("resolved",)),
             (MANIFEST, run.manifest, ("class_names",)))  # fmt: skip
    for name, found, wanted in parts:
        missing = [key for key in wanted if key not in found] if isinstance(found, dict) else list(wanted)
        if missing:
            raise DataError(f"{run.folder / name} is damaged: it should hold {', '.join(missing)}")
    if problem := problem_of(run.summary):
        raise DataError(f"{run.folder / SUMMARY} is damaged: {problem}")
    if not all(isinstance(name, str) for name in run.manifest["class_names"]):
        raise DataError(f"{run.folder / MANIFEST} is damaged: class_names should be names")
    if not all(isinstance(event, dict) and "event" in event for event in run.events):
        raise DataError(f"{run.folder / METRICS} is damaged: every line should hold an event")
    wrong = [problem for event in run.events if (problem := _problem_of_event(event))]
    if wrong:
        raise DataError(f"{run.folder / METRICS} is damaged: {wrong[0]}")
    ended, expected = len(run.tasks), len(run.summary["task_accuracy"])
    if ended != expected:
        raise DataError(f"{run.folder / METRICS} is damaged: it should tell the ends of {expected} tasks, not {ended}")


def _problem_of_event(event: dict[str, Any]) -> str:
    """What is wrong with an event's figures; empty where nothing is."""
    for name, value in event.items():
        kinds = EVENT_FIGURES.get(name, (object,))
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            return f"{name} of the event {event['event']!r} should be {kinds[0].__name__}, but is {value!r:.60}"
    return ""


def find_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """The runs of all folders and notes on what was left out; a grid's folder stands for its finished runs.

    A single folder that cannot be read is an error; among several it is left out with a note. One that is not there at
    all is always an error: it was misspelt.
    """
    runs, notes, folders = list[Run](), list[str](), list[Path]()
    for path in paths:
        if not path.exists():
            raise DataError(f"there is no run in {path}: there is no such folder")
        found, left_out = _expanded(path)
        folders, notes = folders + found, notes + left_out
    for folder in dict.fromkeys(folders):
        try:
            runs.append(read_run(folder))
        except DataError as error:
            if len(folders) == 1:
                raise
            notes.append(str(error))
    if not runs:
        raise DataError("no finished run was found: " + "; ".join(notes or map(str, paths)))
    return runs, notes


def _expanded(path: Path) -> tuple[list[Path], list[str]]:
    """A run's folder, or those of a grid's runs that its ledger has, all of one code; and a note on the others."""
    if not (path / CELLS).is_dir():
        return [path], []
    found = sorted(cell for cell in (path / CELLS).iterdir() if cell.is_dir())
    if not found:
        raise DataError(f"{path} is a grid without a run: {path / CELLS} is empty")
    # In the order of the grid's table. (Damaged titles are told here, once, and not by every run.)
    order = {cell[:CELL_SHOWN]: number for number, cell in enumerate(read_titles(path))}
    found.sort(key=lambda folder: order.get(folder.name.rpartition("-")[2], len(order)))
    left_out, notes = _left_out(path, {folder: summary for folder in found if (summary := _summary(folder))})
    return [folder for folder in found if folder not in left_out], notes


def _left_out(path: Path, summaries: dict[Path, dict[str, Any]]) -> tuple[set[Path], list[str]]:
    """The runs of a grid that its ledger does not have, or that are of other code than most (of equals: the last)."""
    rows = read_rows(path / LEDGER) if (path / LEDGER).exists() else list(summaries.values())
    listed = {row.get("cell"): code_of(row) for row in rows}
    unlisted = {folder for folder, summary in summaries.items() if summary.get("cell") not in listed}
    codes = {folder: code_of(summary) for folder, summary in summaries.items() if folder not in unlisted}
    counts = Counter(codes.values())
    shown = max(reversed(list(listed.values())), key=lambda code: counts[code], default="")
    other = {folder for folder, code in codes.items() if code != shown}
    reasons = ((len(unlisted), "not in its ledger"), (len(other), f"of other code than the {counts[shown]} shown"))
    return unlisted | other, [f"{path}: {n} {'run' if n == 1 else 'runs'} {why}" for n, why in reasons if n]


def _summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run; None where `read_run` has something to say about it."""
    try:
        found = json.loads((folder / SUMMARY).read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class Group:
    """Runs that differ by seed alone."""

    label: str
    runs: list[Run]
    number: int = 0  # which series it is in a figure: decides its colour

    def spread(self, value: Callable[[Run], float]) -> tuple[float, float]:
        """Mean and sample standard deviation over the seeds (0 for one run)."""
        values = [value(run) for run in self.runs]
        return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def grouped(runs: Sequence[Run], ignore: Sequence[str] = ()) -> list[Group]:
    """Runs of one kind together, in order of first appearance, labelled by all in which the kinds differ.

    A property named in `ignore` neither separates groups nor stands in labels; a title might stand for it, so that
    labels then do without titles.
    """
    changed = dict.fromkeys(OPTION + option for run in runs for option in run.summary["options_changed"])
    # "epochs" is a kind of its own and may stand among the options too.
    names = [name for name in (*KIND, *changed) if name not in (*ignore, OPTION + "epochs")]
    differing = [name for name in names if len({run.kind(name) for run in runs}) > 1]
    key_names = [*differing, *(() if ignore else (SETTINGS,))]  # the hash cannot ignore a property
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(run.kind(name) for name in key_names), []).append(run)
    labels = _labels(runs, [members[0] for members in groups.values()], names, titled=not ignore)
    told = [
        label if ignore or labels.count(label) == 1 else f"{label}, {_label([SETTINGS], key[-1:])}"
        for label, key in zip(labels, groups, strict=True)
    ]
    return [
        Group(label, sorted(members, key=lambda run: run.seed), number)
        for number, (label, members) in enumerate(zip(told, groups.values(), strict=True))
    ]


def _labels(runs: Sequence[Run], firsts: Sequence[Run], names: Sequence[str], titled: bool) -> list[str]:
    """What tells each group, by its first run, from the rest of the runs."""
    if not titled:
        differing = [name for name in names if len({run.kind(name) for run in runs}) > 1]
        return [_label(differing, [run.kind(name) for name in differing]) or run.method for run in firsts]
    differing = [name for name in names if len({run.told(name) for run in runs if not run.in_title(name)}) > 1]
    return [_label(differing, [run.told(name) for name in differing]) or run.name for run in firsts]


def faceted(runs: Sequence[Run], ignore: Sequence[str] = ()) -> list[tuple[str, list[Group]]]:
    """Groups for one pair of axes each: all together where they are few, else apart by stream, with its name.

    What has the same label in several facets has the same number. `ignore` is that of `grouped`.
    """
    groups, names = grouped(runs, ignore), [name for name in STREAM if len({run.kind(name) for run in runs}) > 1]
    if len(groups) <= FEW or not names:
        return [("", groups)]
    streams: dict[str, list[Run]] = {}
    for run in runs:
        streams.setdefault(_label(names, [run.kind(name) for name in names]), []).append(run)
    facets = [(f", {stream}", grouped(members, ignore)) for stream, members in streams.items()]
    labels = list(dict.fromkeys(group.label for _, members in facets for group in members))
    return [
        (stream, [dataclasses.replace(group, number=labels.index(group.label)) for group in members])
        for stream, members in facets
    ]


@dataclass(frozen=True)
class Facet:
    """What one pair of axes shows: some groups, and others faintly behind them for comparison."""

    title: str
    groups: list[Group]
    others: list[Group] = field(default_factory=list)


def uncrowded(runs: Sequence[Run]) -> list[Facet]:
    """The facets of `faceted`; one with more lines than can be told apart is divided by sampler, each before all."""
    found = []
    for title, groups in faceted(runs):
        samplers = dict.fromkeys(group.runs[0].summary["sampler"] for group in groups)
        if len(groups) <= FEW or len(samplers) == 1:
            found.append(Facet(title, groups))
            continue
        for sampler in samplers:
            shown = [group for group in groups if group.runs[0].summary["sampler"] == sampler]
            numbered = [dataclasses.replace(group, number=number) for number, group in enumerate(shown)]
            others = [group for group in groups if group not in shown]
            found.append(Facet(f"{title}, sampler {sampler}", numbered, others))
    return found


def representatives(runs: Sequence[Run]) -> dict[str, Run]:
    """The run of the lowest seed of each kind, by the kind's label, with the seed where it stands for several."""
    return {
        group.label + (f", seed {group.runs[0].summary['seed']}" if len(group.runs) > 1 else ""): group.runs[0]
        for group in grouped(runs)
    }


def _label(names: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(WORDS.get(name, "{}").format(value) for name, value in zip(names, values, strict=True) if value)
