"""Which runs a grid has, what each one is (its identity), and which of them are done."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from puridiver.data.base import DataSource
from puridiver.grid.cells import Cell
from puridiver.runs import folder as runs
from puridiver.runs.config import RunConfig
from puridiver.runs.provenance import Identity, identify
from puridiver.runs.resolve import file_options, load_source, resolve_run_stream, source_name
from puridiver.runtime.device import Runtime, choose_runtime

STREAM_FIELDS = (
    "data", "data_root", "image_size", "test_share", "bad_files", "trust_labels", "stream", "splits", "tasks", "noise",
    "noise_map", "noise_file", "imbalance", "holdout", "seed",
)  # fmt: skip


@dataclass
class Sources:
    """Data sets, each loaded once."""

    loaded: dict[tuple[object, ...], DataSource] = field(default_factory=dict)

    def of(self, config: RunConfig) -> DataSource:
        key = (source_name(config), config.data_root or "", file_options(config))
        if key not in self.loaded:
            self.loaded[key] = load_source(config)
        return self.loaded[key]


@dataclass(frozen=True)
class Planned:
    """A cell and what decides its result."""

    cell: Cell
    identity: Identity
    stream_hash: str
    task_ends: tuple[int, ...]

    @property
    def key(self) -> str:
        return self.identity.cell

    @property
    def folder_name(self) -> str:
        return f"{self.cell.name}-{self.key[: runs.CELL_SHOWN]}"


def runtime_of(config: RunConfig) -> Runtime:
    return choose_runtime(config.device, config.precision, config.graphs)


def plan(
    cells: Iterable[Cell], sources: Sources, runtime: Callable[[RunConfig], Runtime] = runtime_of
) -> list[Planned]:
    """The cells with their identities; a run that the grid names twice is planned once."""
    streams: dict[tuple[Any, ...], tuple[str, tuple[int, ...]]] = {}
    found: dict[str, Planned] = {}
    for cell in cells:
        source = sources.of(cell.config)
        key = tuple(getattr(cell.config, name) for name in STREAM_FIELDS)
        if key not in streams:
            manifest = resolve_run_stream(cell.config, source)
            streams[key] = manifest.content_hash, manifest.task_ends
        stream_hash, task_ends = streams[key]
        identity = identify(cell.config, source, stream_hash, runtime(cell.config))
        found.setdefault(identity.cell, Planned(cell, identity, stream_hash, task_ends))
    return list(found.values())


def shard(planned: Sequence[Planned], number: int, of: int) -> list[Planned]:
    """Part `number` of `of` of a plan, by the order of its cells alone; every cell is in one part.

    All methods stay together on a stream and seed: compared seed by seed, they are of one machine. Where there are
    fewer of these than parts, the cells are dealt out one by one; those of one name, which several grids may have with
    other settings each, stay together even then, as `merge` takes them for a mistake in two folders.
    """
    columns = [(p.cell.column.data, p.cell.column.stream, p.cell.column.noise, p.cell.config.seed) for p in planned]
    named = [(*column, p.cell.method.title) for column, p in zip(columns, planned, strict=True)]
    together: Sequence[tuple[Any, ...]] = columns if len(set(columns)) >= of else named
    order = {key: place for place, key in enumerate(dict.fromkeys(together))}
    return [p for p, key in zip(planned, together, strict=True) if order[key] % of == number - 1]


def done_rows(planned: Sequence[Planned], rows: Sequence[Mapping[str, Any]], any_code: bool) -> dict[str, Any]:
    """The ledger's row of each planned run that is done, by key.

    Only a row of the same settings, stream and code counts; with `any_code`, also one of other code.
    """
    exact = {row["cell"]: row for row in rows if "cell" in row}
    found = {p.key: exact[p.key] for p in planned if p.key in exact}
    if any_code:
        alike = {(row["config_hash"], row["stream_hash"]): row for row in rows if "config_hash" in row}
        for p in planned:
            other = alike.get((p.identity.config_hash, p.stream_hash))
            if p.key not in found and other is not None:
                found[p.key] = other
    return found


def estimated_seconds(waiting: Sequence[Planned], rows: Sequence[Mapping[str, Any]], workers: int) -> float | None:
    """Time that the waiting runs may take, by what the ledger's runs of their kind took; None if it has none.

    Runs that shared a device took longer each, but as many ran at once: dividing by the workers suits both.
    """
    known = [row for row in rows if not row["shortened"] or any(p.cell.config.shortened for p in waiting)]
    if not known or not waiting:
        return None if waiting else 0.0
    total = sum(_seconds_of_one(p.cell.config, known) for p in waiting)
    return total / max(1, min(workers, len(waiting)))


def _seconds_of_one(config: RunConfig, rows: Sequence[Mapping[str, Any]]) -> float:
    def alike(*names: str) -> list[float]:
        return [row["seconds"] for row in rows if all(row[name] == getattr(config, name) for name in names)]

    best = alike("data", "sampler", "trainer") or alike("data") or alike()
    return statistics.mean(best)
