"""The data and the stream that a run's config names."""

from __future__ import annotations

from pathlib import Path

from puridiver import data
from puridiver.config import RunConfig
from puridiver.data.base import DataSource
from puridiver.streams import StreamManifest, named_map, resolve_stream


def load_source(config: RunConfig) -> DataSource:
    """The config's data; for a manifest that of the manifest, unless the user names other data than the default."""
    name = config.data
    if config.stream.endswith(".json") and name == RunConfig.data:
        made_from = StreamManifest.load(config.stream).source
        name = made_from if made_from in data.SOURCES else name
    return data.load(name, Path(config.data_root) if config.data_root else None)


def resolve_run_stream(config: RunConfig, source: DataSource) -> StreamManifest:
    """The stream of a run; what a ready-made one decides itself must be left out of the config."""
    if config.stream.endswith(".json") or config.stream.startswith("official:"):
        for name in ("tasks", "noise", "noise_map", "holdout"):
            if getattr(config, name) != getattr(RunConfig, name):
                raise ValueError(f"the stream {config.stream} is already made, with its own {name}: leave {name} out")
    return resolve_stream(
        config.stream,
        source,
        splits=config.splits or config.data_root or data.default_root(),
        n_tasks=config.tasks,
        noise=config.noise,
        noise_map=named_map(config.noise_map, len(source.class_names)) if config.noise_map else None,
        seed=config.seed,
        holdout=config.holdout,
    )
