"""Which rows of a ledger belong to which cell of a grid.

A row belongs to a cell by what the grid says of it (data, noise, method). What the grid leaves open (recipe, further
options, memory, network, epochs, precision, kind of stream, code) is a row's *kind*. Rows of different kinds never
share a table: for each data set the kind that fills most of it is shown, and the rest is counted in a note.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from puridiver.grid.cells import Column, Grid, Method
from puridiver.recipes import RECIPES
from puridiver.streams.noise import noise_name, parse_noise

Row = Mapping[str, Any]
Kind = str  # canonical JSON


@dataclass(frozen=True)
class Selection:
    """Rows by (method, column) number, the kind that each data set's rows are of, and what a reader must know."""

    rows: dict[tuple[int, int], list[Row]]
    kinds: dict[str, dict[str, Any]]
    notes: list[str]


def select(grid: Grid, rows: Sequence[Row], any_code: bool = False, code: str | None = None) -> Selection:
    """The rows of a grid, later runs of a seed before earlier ones; `code` asks for rows of one code hash only."""
    own = {name for method in grid.methods for name in method.options}
    wanted = [row for row in rows if not row["shortened"] and code in (None, row.get("code_hash"))]
    selection = Selection({}, {}, [])
    for data in dict.fromkeys(column.data for column in grid.columns):
        groups: dict[Kind, dict[tuple[int, int, int], Row]] = {}
        for row in wanted:
            for m, c in _places(row, grid, data, own):
                group = groups.pop(kind := kind_of(row, own, any_code), {})
                groups[kind] = {**group, (m, c, row["seed"]): row}  # the group that grew last stands last
        _add(selection, data, groups, any_code)
    return selection


def _places(row: Row, grid: Grid, data: str, own: set[str]) -> list[tuple[int, int]]:
    """The cells (method, column) of a data set that a row belongs to."""
    if row["data"] != data:
        return []
    return [
        (m, c)
        for m, method in enumerate(grid.methods)
        for c, column in enumerate(grid.columns)
        if column.data == data and belongs(row, method, column, own)
    ]


def _add(selection: Selection, data: str, groups: dict[Kind, dict[tuple[int, int, int], Row]], any_code: bool) -> None:
    if not groups:
        return
    # The kind with most runs; of equals the one that came last.
    shown = max(reversed(list(groups)), key=lambda kind: len(groups[kind]))
    selection.kinds[data] = json.loads(shown)
    for (m, c, _), row in sorted(groups[shown].items()):
        selection.rows.setdefault((m, c), []).append(row)
    others = sum(len(group) for kind, group in groups.items() if kind != shown)
    if others:
        runs = "run is" if others == 1 else "runs are"
        hint = "" if any_code else "; --any-code counts those that differ in code alone"
        selection.notes.append(f"{others} {data} {runs} of other code or settings and not shown{hint}")
    codes = {row.get("code_hash") for row in groups[shown].values()}
    if len(codes) > 1:
        selection.notes.append(f"the {data} runs are of {len(codes)} different states of the code (--any-code)")


def belongs(row: Row, method: Method, column: Column, own: set[str]) -> bool:
    """Whether a row is a run of a method on a column; `own` are the options by which the grid's methods differ."""
    defaults = RECIPES.get(row["recipe"])
    if defaults is None or (row["data"], row["sampler"], row["trainer"]) != (
        column.data, method.sampler, method.trainer,
    ):  # fmt: skip
        return False
    changed = row["options_changed"]
    if any(
        changed.get(name, getattr(defaults, name)) != method.options.get(name, getattr(defaults, name)) for name in own
    ):
        return False
    return (
        _stream_fits(row, column)
        and row.get("noise_map") == column.settings.get("noise_map")
        and row["evaluated_on"] == column.settings.get("evaluate_on", "test")
    )


def _stream_fits(row: Row, column: Column) -> bool:
    stream = str(row["stream"])
    if column.stream.endswith(".json"):
        return stream == column.stream
    published = stream.startswith("official:") and column.stream in ("official", "blurry-10")
    same_noise = noise_name(row["noise"], row["noise_rate"]) == noise_name(*parse_noise(column.noise))
    return same_noise and (published or stream == column.stream)


def kind_of(row: Row, own: set[str], any_code: bool) -> Kind:
    """What the grid leaves open, of one row."""
    defaults = RECIPES[row["recipe"]]
    extra = {
        name: value
        for name, value in row["options_changed"].items()
        if name not in (*own, "epochs") and getattr(defaults, name, None) != value
    }
    kind = {
        "recipe": row["recipe"],
        "options": extra,
        "memory": row["memory"],
        "network": row["network"],
        "epochs": None if "epochs" in own else row["epochs"],
        "tasks": len(row["task_accuracy"]),
        "told_noise": row["told_noise"],
        "precision": row.get("precision", "float32"),
        "stream": "official" if str(row["stream"]).startswith("official:") else row["stream"],
        "code": "" if any_code else row.get("code_hash") or "",
    }
    return json.dumps(kind, sort_keys=True)
