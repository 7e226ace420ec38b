"""Which rows of a ledger belong to which cell of a grid.

A row may be one of a cell by data, stream, noise, sampler and trainer. Whether it is, is decided by all its settings,
under one variant of the grid (`puridiver.grid.variants`) and of one code. Rows of different variants or code never
share a table: for each data set the one with most runs is shown, and the rest is counted in a note.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from puridiver.grid.cells import Column, Grid, Method
from puridiver.grid.plan import Sources, runtime_of
from puridiver.grid.variants import GENERATED, Expectations, Place, Row, Variant, row_kind
from puridiver.options import RECIPES
from puridiver.report.ledger import code_of, of_several_codes
from puridiver.report.table import settings_of
from puridiver.runs.config import RunConfig
from puridiver.runs.folder import without_folder
from puridiver.runs.provenance import plugin_code
from puridiver.runtime.device import Runtime
from puridiver.streams.names import (
    LISTED,
    MATRIX_FILE,
    PUBLISHED_KINDS,
    SHUFFLED,
    has_manifest_per_seed,
    is_manifest,
    manifest_path,
    order_in_record,
)
from puridiver.streams.noise import is_matrix, noise_name, parse_noise

Kind = tuple[Variant, str | None]  # with the code; None for any


@dataclass(frozen=True)
class Selection:
    """Rows by (method, column) number, what each data set's rows have in common, and what a reader must know.

    `older` has the runs of the same cells and settings in whose place a later run, or one of more seeds, stands.
    """

    rows: dict[Place, list[Row]]
    kinds: dict[str, dict[str, Any]]
    notes: list[str]
    older: dict[Place, list[Row]]


@dataclass(frozen=True)
class Asked:
    """What a grid was just run with: its table shows the runs of these settings alone."""

    changes: Mapping[str, Any]
    runtime: Callable[[RunConfig], Runtime] = runtime_of
    sources: Sources | None = None


def select(
    grid: Grid, rows: Sequence[Row], any_code: bool = False, code: str | None = None, asked: Asked | None = None
) -> Selection:
    """The rows of a grid, later runs of a seed before earlier ones; `code` asks for rows of one code hash only.

    Which settings a part of a grid shows is decided by all runs of the whole grid.
    """
    sources = asked.sources if asked and asked.sources else Sources()
    whole = grid.whole or grid
    expected = Expectations(whole, sources, asked.changes.get("data_root") if asked else None)
    shown_at = _places_of_part(grid, whole)
    wanted = [row for row in rows if not row["shortened"]]
    names = {column.data for column in grid.columns}
    short = sum(row["shortened"] for row in rows if row["data"] in names)
    selection = Selection({}, {}, [_shortened_note(short)] if short else [], {})
    for data in dict.fromkeys(column.data for column in grid.columns):
        placed = [(row, _places(row, expected, data)) for row in wanted]
        candidates = [(row, places) for row, places in placed if places]
        kinds = _kinds(candidates, expected, any_code, asked)
        fitting = {kind: _fitting(candidates, expected, kind) for kind in kinds if code is None or kind[1] == code}
        groups = {kind: _groups(found, expected) for kind, found in fitting.items()}
        _add(selection, data, fitting, groups, candidates, any_code, shown_at)
        strays = [row for row, places in placed if not places]
        _note_changed_files(selection.notes, data, _last_of_each(strays, any_code), expected, shown_at)
    _note_one_stream(selection, grid)
    return selection


def _shortened_note(count: int) -> str:
    are, them = ("run is", "it") if count == 1 else ("runs are", "them")
    return (
        f"{count} shortened {are} not shown (--stream-limit, --test-limit): `puridiver table FOLDER`, without the "
        f"grid's name, lists {them}"
    )


def _places_of_part(part: Grid, whole: Grid) -> dict[Place, Place]:
    """The cells of a whole grid that a part has, and where in the part they are."""
    titles = [method.title for method in part.methods]
    return {
        (m, c): (titles.index(method.title), part.columns.index(column))
        for m, method in enumerate(whole.methods)
        for c, column in enumerate(whole.columns)
        if method.title in titles and column in part.columns
    }


# Which rows may be of which cells ----------------------------------------------------------------------------------

Candidates = Sequence[tuple[Row, list[Place]]]
Group = dict[Place, dict[int, Row]]  # of each cell the run of each seed
Fitting = dict[Place, list[Row]]  # of each cell every run


def _places(row: Row, expected: Expectations, data: str) -> list[Place]:
    """The cells of a data set that a row may belong to, by stream and method."""
    grid = expected.grid
    return [
        (m, c)
        for c, column in enumerate(grid.columns)
        if column.data == data and row["data"] == expected.data_name(c) and _stream_fits(row, expected, c)
        for m, method in enumerate(grid.methods)
        if _method_fits(row, method)
    ]


def _method_fits(row: Row, method: Method) -> bool:
    return (row["sampler"], row["trainer"]) == (method.sampler, method.trainer) and row["recipe"] in RECIPES


def _stream_fits(row: Row, expected: Expectations, c: int) -> bool:
    column = expected.grid.columns[c]
    if row["evaluated_on"] != column.settings.get("evaluate_on", "test"):
        return False
    if is_manifest(column.stream):  # by its content: many a manifest is called manifest.json
        made = expected.manifest_hash(c, row["seed"])
        return bool(made) and row.get("stream_hash") == made
    same_noise = noise_name(row["noise"], row["noise_rate"]) == noise_name(*parse_noise(column.noise))
    return same_noise and _fits_but_for_noise(row, column)


def _fits_but_for_noise(row: Row, column: Column) -> bool:
    same_map = row.get("noise_map") == column.settings.get("noise_map")
    same_kind = row_kind(row) == column.stream or (row_kind(row) in PUBLISHED_KINDS and column.stream == GENERATED)
    same_balance = (row.get("imbalance") or 1) == (column.settings.get("imbalance") or 1)
    return same_map and same_kind and same_balance


def _files_of(row: Row, expected: Expectations, shown: Container[Place]) -> set[str]:
    """The manifests and noise matrices whose cells a row without any would be in, if the files held what they held."""
    return {
        str(without_folder(column.stream if is_manifest(column.stream) else column.noise)).removeprefix(MATRIX_FILE)
        for c, column in enumerate(expected.grid.columns)
        if row["data"] == expected.data_name(c)
        and row["evaluated_on"] == column.settings.get("evaluate_on", "test")
        and _is_of_file_once(row, column)
        and any((m, c) in shown and _method_fits(row, method) for m, method in enumerate(expected.grid.methods))
    }


def _is_of_file_once(row: Row, column: Column) -> bool:
    """Whether a row may be of what the file of a column's manifest or matrix held once: rows name matrices by content,
    and manifests from elsewhere without their folders."""
    if is_manifest(column.stream):
        names = {without_folder(name) for name in (column.stream, manifest_path(column.stream, row["seed"]))}
        return without_folder(str(row["stream"])) in names
    return is_matrix(column.noise) and is_matrix(row["noise"]) and _fits_but_for_noise(row, column)


# Which of them share a table ---------------------------------------------------------------------------------------


def _kinds(candidates: Candidates, expected: Expectations, any_code: bool, asked: Asked | None) -> list[Kind]:
    """The kinds that the rows are of; those of what was asked for, if something was."""
    variants_asked = _variants_asked(candidates, expected, asked) if asked else []
    found: dict[Kind, None] = {}
    for row, places in candidates:
        if of_several_codes(row) and not any_code:
            continue
        code = None if any_code else code_of(row)
        for variant in variants_asked or _variants_of(row, places, expected):
            found[variant, code] = None
    return list(found)


def _variants_of(row: Row, places: Sequence[Place], expected: Expectations) -> list[Variant]:
    """The variants under which a row is a cell's run; only if it is none else, with options of methods changed too."""
    for open_options in (False, True):
        tried = [(place, expected.variant_for(row, place, open_options)) for place in places]
        found = [variant for place, variant in tried if variant and expected.fits(row, place, variant)]
        if found:
            return found
    return []


def _variants_asked(candidates: Candidates, expected: Expectations, asked: Asked) -> list[Variant]:
    """What was asked for, on what it runs: one, unless the cells run on different devices."""
    changes = {name: value for name, value in asked.changes.items() if name not in ("data_root", "splits")}
    anywhere = Variant.of(changes, "", Runtime(torch.device("cpu")))
    places = dict.fromkeys(place for _, found in candidates for place in found)
    runtimes = (asked.runtime(expected.config(place, anywhere)) for place in places)
    return list(dict.fromkeys(Variant.of(changes, "", runtime) for runtime in runtimes))


def _fitting(candidates: Candidates, expected: Expectations, kind: Kind) -> Fitting:
    """All rows of a kind by cell, in the ledger's order."""
    variant, code = kind
    found: Fitting = {}
    for row, places in candidates:
        for place in places:
            if code in (None, code_of(row)) and expected.fits(row, place, variant):
                found.setdefault(place, []).append(row)
    return found


def _one_a_seed(rows: Sequence[Row], per_seed: bool = False) -> dict[int, Row]:
    """The rows of a cell by seed, the later run of a seed in the place of the earlier.

    With a manifest for each seed, runs that named theirs by itself have hashes of their own.
    """
    by_settings: dict[str, dict[int, Row]] = {}
    for row in rows:
        group = by_settings.pop(key := "" if per_seed else row.get("settings_hash", ""), {})
        by_settings[key] = {**group, row["seed"]: row}  # the one that grew last stands last
    # Where the data is not here rows were compared by what they tell, and may differ in what they do not.
    return max(reversed(list(by_settings.values())), key=len)


def _groups(fitting: Fitting, expected: Expectations) -> Group:
    columns = expected.grid.columns
    return {
        place: _one_a_seed(rows, has_manifest_per_seed(columns[place[1]].stream)) for place, rows in fitting.items()
    }


def _rows_of(group: Group) -> list[Row]:
    """Every row once, also where it stands in several cells."""
    return list({id(row): row for seeds in group.values() for row in seeds.values()}.values())


def _add(
    selection: Selection, data: str, fitting: Mapping[Kind, Fitting], groups: Mapping[Kind, Group],
    candidates: Candidates, any_code: bool, shown_at: Mapping[Place, Place],
) -> None:  # fmt: skip
    order = {id(row): number for number, (row, _) in enumerate(candidates)}

    def fullness(kind: Kind, places: Container[Place] | None = None) -> tuple[int, int, int]:
        """Most runs; of equals what is nearest to the grid's own word, then what came last."""
        there = {place: seeds for place, seeds in groups[kind].items() if places is None or place in places}
        ids = [id(row) for row in _rows_of(there)]
        return len(ids), -len(kind[0].changed), max((order[i] for i in ids), default=-1)

    # The settings are those of the whole grid's table, if the part has any of them; the code is the part's own choice.
    having = [kind for kind, group in groups.items() if any(place in shown_at for place in group)]
    settings = max(having, key=fullness, default=None)
    alike = [kind for kind in having if settings is not None and kind[0] == settings[0]]
    shown = max(alike, key=lambda kind: fullness(kind, shown_at), default=None)
    found = {place: seeds for place, seeds in groups[shown].items() if place in shown_at} if shown else {}
    if shown and found:
        selection.kinds[data] = _in_common(_rows_of(found), shown[0])
        for place, seeds in sorted(found.items()):
            selection.rows[shown_at[place]] = [row for _, row in sorted(seeds.items())]
            chosen = {id(row) for row in seeds.values()}
            selection.older[shown_at[place]] = [row for row in fitting[shown][place] if id(row) not in chosen]
    of_part = [(row, places) for row, places in candidates if any(place in shown_at for place in places)]
    rows = _rows_of(found)
    _note(selection.notes, data, rows, _others(of_part, rows, any_code), any_code)
    _note_other_order(selection.notes, rows, of_part)


def _in_common(rows: Sequence[Row], variant: Variant) -> dict[str, Any]:
    """What the rows of a table are, for its heading; several values where its methods or columns differ."""
    options = rows[0]["options_changed"].items()
    everywhere = {
        name: value for name, value in options if name != "epochs" and all(_has(row, name, value) for row in rows)
    }
    told = {
        "recipe": [row["recipe"] for row in rows],
        "memory": [row["memory"] for row in rows],
        "network": [row["network"] for row in rows],
        "epochs": [row["epochs"] for row in rows],
        "tasks": [len(row["task_accuracy"]) for row in rows],
        "precision": [row.get("precision", "float32") for row in rows],
        "stream": [without_folder(row_kind(row)) for row in rows],
        "imbalance": [row.get("imbalance") or 1 for row in rows],
    }
    found: dict[str, Any] = {name: " or ".join(map(str, dict.fromkeys(values))) for name, values in told.items()}
    changed = json.loads(variant.changes).get("options", {})
    return {**found, "options": {**everywhere, **changed}, "told_noise": {row["told_noise"] for row in rows}}


def _has(row: Row, name: str, value: Any) -> bool:
    return name in row["options_changed"] and bool(row["options_changed"][name] == value)


def _others(candidates: Candidates, shown: Sequence[Row], any_code: bool) -> list[Row]:
    """The runs that are not shown; of the runs of one kind and seed only the last counts."""
    ids = {id(row) for row in shown}
    return [row for row in _last_of_each([row for row, _ in candidates], any_code) if id(row) not in ids]


def _last_of_each(rows: Sequence[Row], any_code: bool) -> list[Row]:
    return list({(settings_of(row), row["seed"], "" if any_code else code_of(row)): row for row in rows}.values())


def _is_of_another_plugin(row: Row) -> bool:
    """Whether the row's own methods are not as they are loaded now: their code is one of its settings."""
    then = row.get("plugins")
    return bool(then) and then != _plugins_now(row)


def _plugins_now(row: Row) -> dict[str, str]:
    config = RunConfig(sampler=row["sampler"], trainer=row["trainer"], network=row["network"])
    return plugin_code(config).get("plugins", {})


def _note_other_order(notes: list[str], shown: Sequence[Row], candidates: Candidates) -> None:
    """Of published streams one order is shown; whoever knows figures of the other should be told how to get them."""
    order, *more = {order_in_record(str(row["stream"])) for row in shown} or {""}
    others = {order_in_record(str(row["stream"])) for row, _ in candidates} - {order, ""}
    if order and not more and others:
        (other,) = others
        words = {SHUFFLED: "shuffled", LISTED: "in the order of their files"}
        notes.append(f"published streams are {words[order]} here; --order {other} shows those {words[other]}")


def _note_one_stream(selection: Selection, grid: Grid) -> None:
    """Several seeds on one manifest differ less than several streams would."""
    streams = (grid.columns[c].stream for (_, c), rows in selection.rows.items() if len(rows) > 1)
    if any(is_manifest(stream) and not has_manifest_per_seed(stream) for stream in streams):
        selection.notes.append(
            "all seeds of a manifest learn from one stream: ± is without what streams differ by ({seed} in its path "
            "names one for each)"
        )


def _note(notes: list[str], data: str, rows: Sequence[Row], others: Sequence[Row], any_code: bool) -> None:
    of_plugins = [row for row in others if _is_of_another_plugin(row)]
    if len(others) > len(of_plugins):
        hint = "" if any_code else "; --any-code counts those that differ in code alone"
        notes.append(f"{_runs(len(others) - len(of_plugins), data)} of other code or settings and not shown{hint}")
    notes += _notes_of_plugins(data, of_plugins)
    codes = {code_of(row) for row in rows}
    if len(codes) > 1:
        notes.append(f"the {data} runs are of {len(codes)} different states of the code (--any-code)")


def _notes_of_plugins(data: str, rows: Sequence[Row]) -> Iterator[str]:
    """Of runs whose plugins are not as they are loaded now: those that were not named, and those that were edited."""
    missing = {id(row): row["plugins"].keys() - _plugins_now(row).keys() for row in rows}
    not_named = [row for row in rows if missing[id(row)]]
    if not_named:
        keys = ", ".join(sorted({key for row in not_named for key in missing[id(row)]}))
        what = "of a plugin that was not named and not shown"
        yield f"{_runs(len(not_named), data)} {what} (--plugin FILE, with {keys})"
    edited = [row for row in rows if not missing[id(row)]]
    if edited:
        changed = (key for row in edited for key, code in row["plugins"].items() if _plugins_now(row)[key] != code)
        names = ", ".join(sorted({key.partition(" ")[2] for key in changed}))
        yield (
            f"{_runs(len(edited), data)} of another state of a plugin's file ({names}) and not shown; the grid runs "
            "again what has no run of its present state"
        )


def _note_changed_files(
    notes: list[str], data: str, strays: Sequence[Row], expected: Expectations, shown: Container[Place]
) -> None:
    """Runs whose manifest or matrix was edited since: they lie there, and must not look as if they had not been run."""
    found = [files for row in strays if (files := _files_of(row, expected, shown))]
    if found:
        names = ", ".join(sorted(set[str]().union(*found)))
        notes.append(
            f"{_runs(len(found), data)} of another manifest or noise matrix than what {names} has now and not shown; "
            "the grid runs again what has no run of its present state"
        )


def _runs(number: int, data: str) -> str:
    return f"{number} {data} {'run is' if number == 1 else 'runs are'}"
