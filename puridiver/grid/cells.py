"""A grid (methods x columns x seeds) and its cells, each of which is one run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from puridiver.options import owners
from puridiver.runs.config import RunConfig
from puridiver.streams.names import PUBLISHED_KINDS, WORD, is_manifest

# Fields of a run that may be replaced for a whole grid; besides them options of the recipe.
CHANGES = (
    "data_root", "splits", "recipe", "memory", "network", "epochs", "device", "precision", "tell_noise",
    "stream_limit", "test_limit",
)  # fmt: skip
# And those that a method may have of its own.
OWN_SETTINGS = ("recipe", "memory", "network", "tell_noise")


@dataclass(frozen=True)
class Method:
    """A row of a table. Without a sampler it is a method of the paper that this package cannot run.

    `settings` are the fields of `RunConfig` in which it may differ from other rows (`OWN_SETTINGS`).
    """

    title: str
    sampler: str = ""
    trainer: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of a table: the data, the stream made of it, the seeds, and further fields of `RunConfig`.

    The stream "official" stands for the published one of the column's noise and the cell's seed, "official:listed" for
    the same in the order of its files. A manifest's noise is that of its file. `without` names options of methods that
    the data decides, such as epochs where images are tiny.
    """

    data: str
    stream: str
    noise: str
    seeds: tuple[int, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """Every method on every column; `paper` names the paper's figures, `figure` the picture drawn of it.

    `whole` is the grid that this is a part of, if it is one: a part shows what the whole would show there.
    """

    name: str
    title: str
    methods: tuple[Method, ...]
    columns: tuple[Column, ...]
    paper: str = ""
    figure: str = ""
    whole: Grid | None = None


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    name: str
    method: Method
    column: Column
    config: RunConfig


def cells(grid: Grid, changes: Mapping[str, Any] | None = None) -> list[Cell]:
    """The grid's runs, with some fields of their config replaced; one whole table for each seed after the other."""
    found = [
        make_cell(method, column, seed, changes or {})
        for method in grid.methods
        if method.sampler
        for column in grid.columns
        for seed in column.seeds
    ]
    return sorted(found, key=lambda cell: cell.column.seeds.index(cell.config.seed))


def methods_of(method: Method, network: str | None) -> list[str]:
    """The method's parts as `puridiver.options` names them."""
    network = method.settings.get("network", network)
    return [f"sampler {method.sampler}", f"trainer {method.trainer}", f"network {network}"]


def reaches(option: str, methods: list[str]) -> bool:
    """Whether an option is shared, or one of these methods declares it."""
    return not owners(option) or bool(set(owners(option)) & set(methods))


def make_cell(method: Method, column: Column, seed: int, changes: Mapping[str, Any]) -> Cell:
    """The run of a method on a column; what is its own goes before the changes, and these before the column's.

    Only epochs that are changed go before a method's own: whoever says so wants a quick look at everything.
    """
    changed = dict(changes)
    own = {name: value for name, value in method.options.items() if name not in column.without}
    of_all = {**column.settings.get("options", {}), **changed.pop("options", {})}
    network = {**column.settings, **changed, **method.settings}.get("network")
    reached = methods_of(method, network)  # what other methods declare is theirs alone
    options = {**{name: value for name, value in of_all.items() if reaches(name, reached)}, **own}
    if "epochs" in own:  # a field of the config would go before the option of that name
        changed.setdefault("epochs", own["epochs"])
    fields = {
        "data": column.data,
        **_stream_fields(column, seed),
        **column.settings,
        **changed,
        **method.settings,
        "sampler": method.sampler,
        "trainer": method.trainer,
        "seed": seed,
        "options": options,
    }
    name = slug(f"{_short(column.data)} {_short(column.stream)} {column.noise} {method.title} s{seed}")
    return Cell(name, method, column, RunConfig(**fields))


def _stream_fields(column: Column, seed: int) -> dict[str, str]:
    if column.stream in PUBLISHED_KINDS:
        order = column.stream.removeprefix(WORD)  # "" or ":listed"
        return {"stream": f"{WORD}:{column.noise.replace('-', '')}:{seed}{order}"}
    if is_manifest(column.stream):
        return {"stream": column.stream}  # which has its own noise, told in the column
    return {"stream": column.stream, "noise": column.noise}


def _short(path: str) -> str:
    return re.split(r"[\\/]", path)[-1]


def slug(text: str) -> str:
    """The text as part of a folder's name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def config_fields() -> dict[str, dataclasses.Field]:
    return {spec.name: spec for spec in dataclasses.fields(RunConfig)}
