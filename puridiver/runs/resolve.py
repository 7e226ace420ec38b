"""The data and the stream that a run's config names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from puridiver import data
from puridiver.data.base import DataSource
from puridiver.runs.config import RunConfig, resolve_noise, resolve_tasks
from puridiver.streams import StreamManifest, named_map, resolve_stream
from puridiver.streams.imbalance import BALANCED
from puridiver.streams.names import is_manifest, is_published, manifest_path


def load_source(config: RunConfig, on_progress: Callable[[int, int], None] | None = None) -> DataSource:
    """The config's data; see `source_name`."""
    root = Path(config.data_root) if config.data_root else None
    return data.load(source_name(config), root, file_options(config), on_progress)


def source_name(config: RunConfig) -> str:
    """The config's data; for a manifest that of the manifest, unless the user names other data than the default."""
    if is_manifest(config.stream) and config.data == RunConfig.data:
        made_from = load_manifest(config).source
        return made_from if made_from in data.SOURCES else config.data
    return config.data


def load_manifest(config: RunConfig) -> StreamManifest:
    """The manifest that the config names, with its seed where there is one for each."""
    return StreamManifest.load(manifest_path(config.stream, config.seed))


def file_options(config: RunConfig) -> data.FileOptions:
    return data.FileOptions(config.image_size, config.test_share, config.bad_files, config.trust_labels)


def resolve_run_stream(config: RunConfig, source: DataSource) -> StreamManifest:
    """The stream of a run; what a ready-made one decides itself must be left out of the config."""
    if is_manifest(config.stream) or is_published(config.stream):
        for name in ("tasks", "noise", "noise_map", "noise_file", "imbalance", "holdout"):
            if getattr(config, name) != getattr(RunConfig, name):
                raise ValueError(f"the stream {config.stream} is already made, with its own {name}: leave {name} out")
    return resolve_stream(
        manifest_path(config.stream, config.seed),
        source,
        splits=config.splits or config.data_root or data.default_root(),
        n_tasks=resolve_tasks(config, source),
        noise=resolve_noise(config, source),
        noise_file=config.noise_file,
        noise_map=named_map(config.noise_map, len(source.class_names)) if config.noise_map else None,
        imbalance=BALANCED if config.imbalance is None else config.imbalance,
        seed=config.seed,
        holdout=config.holdout,
    )
