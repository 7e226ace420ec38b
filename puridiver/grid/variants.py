"""What a grid may have been run with instead of what it says, and whether a row is then the run of one of its cells.

A preset or a file leaves some things open: recipe, memory, network, epochs, options, the published stream instead of a
generated one, and on what it runs. One choice of all of them is a `Variant`. A row is the run of a cell under a
variant if its settings are those of the cell's config with the variant's changes: by their hash, or, for rows of
versions that had none and for data that is not on this machine, field by field.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from puridiver.data.base import DataSource
from puridiver.errors import PuridiverError
from puridiver.grid.cells import Column, Grid, make_cell
from puridiver.grid.plan import Sources
from puridiver.options import DEFAULT, PUBLISHED, Options, recipe
from puridiver.report.ledger import device_type
from puridiver.runs.config import (
    STANDARD_TASKS,
    RunConfig,
    resolve_memory,
    resolve_network,
    resolve_options,
    resolve_tasks,
)
from puridiver.runs.folder import without_folder
from puridiver.runs.provenance import settings_hash
from puridiver.runtime.device import Runtime
from puridiver.streams import StreamManifest
from puridiver.streams.names import (
    PUBLISHED_KINDS,
    has_manifest_per_seed,
    is_manifest,
    kind_in_record,
    manifest_path,
)

Row = Mapping[str, Any]
Place = tuple[int, int]  # numbers of a method and a column
GENERATED = "blurry-10"  # what published streams may stand for


@dataclass(frozen=True)
class Variant:
    """Changes of the grid's configs (canonical JSON), and on what they ran.

    `published` is the kind of published stream that stands for the grid's generated ones; empty if none does.
    """

    changes: str
    published: str
    device: str
    precision: str
    graphs: bool

    @classmethod
    def of(cls, changes: Mapping[str, Any], published: str, runtime: Runtime) -> Variant:
        device = runtime.device.type
        return cls(json.dumps(changes, sort_keys=True), published, device, runtime.precision, runtime.graphs)

    @property
    def runtime(self) -> Runtime:
        return Runtime(torch.device(self.device), self.precision, self.graphs)

    @property
    def changed(self) -> dict[str, Any]:
        """What is not as the grid says, options by their names."""
        found: dict[str, Any] = json.loads(self.changes)
        options = found.pop("options", {})
        return {**found, **options}


def runtime_of_row(row: Row) -> Runtime:
    device = torch.device(device_type(row))
    return Runtime(device, row.get("precision", "float32"), bool(row.get("graphs", False)))


def row_kind(row: Row) -> str:
    """The stream of a row as a column of a grid names it."""
    return kind_in_record(str(row["stream"]))


def stream_shown(column: Column, rows: Sequence[Row]) -> str:
    """What a table calls a column's stream: a manifest by its path in the grid, else by what the rows are of."""
    if is_manifest(column.stream):
        return column.stream  # two of them may share a file's name
    kinds = dict.fromkeys(map(row_kind, rows)) or (column.stream,)
    return ", ".join(str(without_folder(kind)) for kind in kinds)


@dataclass(frozen=True)
class Resolved:
    """What decides a run beside its stream, as a row tells it and as a config comes to."""

    recipe: str
    options: Options
    memory: int | None
    network: str | None
    tasks: int
    told_noise: bool


class Expectations:
    """What the cells of a grid come to under variants; data sets are loaded once, where they are here.

    `root` is where the data sets lie, by default where the grid says, or the usual place.
    """

    def __init__(self, grid: Grid, sources: Sources, root: str | None = None) -> None:
        self.grid, self.sources, self.root = grid, sources, root
        # Options by which the grid's methods differ.
        self.own = frozenset(name for method in grid.methods for name in method.options)
        # Asked for many times; kept here, since a cache of a method would keep the data sets for ever.
        self.hash = functools.cache(self._hash)
        self.resolved = functools.cache(self._resolved)
        self.source = functools.cache(self._source)
        self.manifest_hash = functools.cache(self._manifest_hash)
        self._rows: dict[tuple[int, int], Resolved | None] = {}  # by the row's id: the caller keeps the rows

    def config(self, place: Place, variant: Variant) -> RunConfig:
        """That of the column's first seed."""
        method, column = self.grid.methods[place[0]], self.grid.columns[place[1]]
        if variant.published and column.stream == GENERATED:
            column = replace(column, stream=variant.published)
        return make_cell(method, column, column.seeds[0], json.loads(variant.changes)).config

    def _source(self, c: int) -> DataSource | None:
        """The data of a column; None where it is not on this machine."""
        column = self.grid.columns[c]
        # How files are read is among the settings, and makes other data of the same folder.
        settings = {**column.settings, **({"data_root": self.root} if self.root else {})}
        if is_manifest(column.stream):
            settings |= {"stream": column.stream, "seed": column.seeds[0]}  # a manifest may name its data
        try:
            return self.sources.of(RunConfig(**{**settings, "data": column.data}))
        except (PuridiverError, ValueError, OSError):
            return None

    def data_name(self, c: int) -> str:
        """The data of a column as rows name it."""
        source = self.source(c)
        return source.name if source else Path(self.grid.columns[c].data).name.removesuffix(".npz")

    def _manifest_hash(self, c: int, seed: int) -> str:
        """The content of the manifest that a seed has in a column; empty where its file is not here."""
        try:
            return StreamManifest.load(manifest_path(self.grid.columns[c].stream, seed)).content_hash
        except (PuridiverError, OSError):
            return ""

    def _hash(self, place: Place, variant: Variant, alone: int | None = None) -> str:
        """The settings' hash that rows of the cell have; empty where its data is not here.

        Where each seed has a manifest, `alone` asks for that of a run which named its seed's manifest by itself.
        """
        config, source = self.config(place, variant), self.source(place[1])
        if source is None:
            return ""
        if alone is not None:
            config = replace(config, stream=manifest_path(config.stream, alone), seed=alone)
        made = self.manifest_hash(place[1], config.seed) if is_manifest(config.stream) else ""
        return settings_hash(config, source, made, variant.runtime)

    def fits(self, row: Row, place: Place, variant: Variant) -> bool:
        """Whether a row of the cell's stream and method is the cell's run under the variant."""
        stream = self.grid.columns[place[1]].stream
        if variant.published and stream == GENERATED:
            stream = variant.published
        if (row_kind(row) in PUBLISHED_KINDS or stream in PUBLISHED_KINDS) and row_kind(row) != stream:
            return False
        expected = self.hash(place, variant) if "settings_hash" in row else ""
        if expected and row["settings_hash"] != expected and has_manifest_per_seed(stream):
            expected = self.hash(place, variant, row["seed"])
        if expected:
            return bool(row["settings_hash"] == expected)
        same_runtime = runtime_of_row(row) == variant.runtime
        return same_runtime and self._of_row(row, place[1]) == self.resolved(place, variant)

    def variant_for(self, row: Row, place: Place, open_options: bool) -> Variant | None:
        """The variant under which a row may be a cell's run; None where there is none.

        With `open_options` it may change options by which the methods differ.
        """
        stands_in = row_kind(row) in PUBLISHED_KINDS and self.grid.columns[place[1]].stream == GENERATED
        published = row_kind(row) if stands_in else ""
        runtime, changes = runtime_of_row(row), dict[str, Any]()
        there = self._of_row(row, place[1])
        if there is None:
            return None
        here = self.resolved(place, Variant.of(changes, published, runtime))
        if not _has_what_is_own(there, here, own := self.grid.methods[place[0]].settings):
            return None
        if there.recipe != here.recipe and "recipe" not in own:
            changes["recipe"] = there.recipe
            here = self.resolved(place, Variant.of(changes, published, runtime))
        changes |= _differences(there, here, frozenset() if open_options else self.own)
        return Variant.of(changes, published, runtime)

    def _resolved(self, place: Place, variant: Variant) -> Resolved:
        config, source = self.config(place, variant), self.source(place[1])
        memory = resolve_memory(config, source) if source else config.memory
        network = resolve_network(config, source) if source else config.network
        tasks = resolve_tasks(config, source) if source else config.tasks or STANDARD_TASKS
        return Resolved(config.recipe, _options(config, source), memory, network, tasks, config.tell_noise)

    def _of_row(self, row: Row, c: int) -> Resolved | None:
        """What a row tells; None where this version does not have its recipe or its options."""
        if (id(row), c) not in self._rows:
            self._rows[id(row), c] = self._read_row(row, c)
        return self._rows[id(row), c]

    def _read_row(self, row: Row, c: int) -> Resolved | None:
        asked = {**row["options_changed"], "epochs": row["epochs"]}
        name = row["recipe"]
        if name == DEFAULT:  # as it was then
            name, asked = PUBLISHED, {**row.get("default_changes", {}), **asked}
        methods = {"sampler": row["sampler"], "trainer": row["trainer"], "network": row["network"]}
        config = RunConfig(recipe=name, options=asked, **methods)
        try:
            options = _options(config, self.source(c))
        except ValueError:
            return None
        # Such a stream has its own number of tasks.
        ready = is_manifest(self.grid.columns[c].stream) or row_kind(row) in PUBLISHED_KINDS
        tasks = STANDARD_TASKS if ready else len(row["task_accuracy"])
        return Resolved(row["recipe"], options, row["memory"], row["network"], tasks, row["told_noise"])


def _options(config: RunConfig, source: DataSource | None) -> Options:
    if source is not None:
        return resolve_options(config, source)
    asked = {**config.options, **({"epochs": config.epochs} if config.epochs else {})}
    return recipe(config.recipe, **asked)


def _has_what_is_own(there: Resolved, here: Resolved, own: Mapping[str, Any]) -> bool:
    """What is a method's own no variant changes. A recipe of another name may come to the same, but for epochs."""
    named = ("told_noise" if name == "tell_noise" else name for name in own if name != "recipe")
    if any(getattr(there, name) != getattr(here, name) for name in named):
        return False
    if "recipe" not in own or there.recipe == here.recipe:
        return True
    return there.options.replace(epochs=here.options.epochs) == here.options


def _differences(there: Resolved, here: Resolved, fixed: frozenset[str]) -> dict[str, Any]:
    """Changes of a config that make one of the other, as far as they are open."""
    found: dict[str, Any] = {}
    for name, field_name in (("memory", "memory"), ("network", "network"), ("tasks", "tasks"),
                             ("told_noise", "tell_noise")):  # fmt: skip
        if getattr(there, name) != getattr(here, name):
            found[field_name] = getattr(there, name)
    have, has = dict(here.options), dict(there.options)
    options = {name: value for name, value in has.items() if value != have.get(name) and name not in fixed}
    if "epochs" in options:
        found["epochs"] = options.pop("epochs")
    return {**found, "options": options} if options else found
