"""Resolves a config against its data: the stream, the defaults, and the identity of the run."""

import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from puridiver import data, discovery, options, plugins, recipes
from puridiver._version import __version__
from puridiver.data.base import DataSource
from puridiver.memory import SAMPLERS
from puridiver.nets import choose_network, is_backbone, is_light
from puridiver.runs.config import Role, RunConfig
from puridiver.runtime.device import choose_runtime
from puridiver.streams import StreamManifest, named_map, resolve_stream
from puridiver.trainers import TRAINERS

COMMIT = "PURIDIVER_COMMIT"  # set where code travels without its history
MEMORY, LEAST_MEMORY = 500, 50
# Defaults of last resort; that of the memory depends on the size of the data.
FILLED: dict[str, Any] = {"memory": None, "network": "auto", "tasks": 5, "noise": "sym-40", "diversity": False}


class Resolved(NamedTuple):
    """A config with every default filled in: what the user said, else what suits the data."""

    options: options.Options
    own_options: dict[str, Any]  # those that reach the chosen methods
    methods: dict[str, str]  # names of the sampler, the trainer and the network
    memory: int
    network: str
    tasks: int
    noise: str
    diversity: bool

    @property
    def filled(self) -> dict[str, Any]:
        """The fields of the config that were filled in."""
        return {**{name: getattr(self, name) for name in FILLED}, "options": self.own_options}


def resolve(config: RunConfig, source: DataSource) -> Resolved:
    """Fill in the defaults of a config for its data."""
    plugins.load_all()
    few = min(MEMORY, max(len(source.train) // 5, LEAST_MEMORY))  # no more than a fifth of a small set
    defaults = {**FILLED, "memory": few, **source.defaults}
    filled = {name: defaults[name] if (said := getattr(config, name)) is None else said for name in FILLED}
    device = choose_runtime(config.device).device
    filled["network"] = choose_network(filled["network"], source.input_shape, device)
    shape = source.input_shape
    if is_backbone(filled["network"]):
        if config.diversity:
            raise ValueError("diversity is measured by a jointly trained network of the package: leave it out")
        shape, filled["diversity"] = shape[:1], False  # the learner learns from its features, which are vectors
    light = is_backbone(filled["network"]) or is_light(filled["network"])
    sampler, trainer = recipes.choose_methods(config.sampler, config.trainer, config.recipe, light)
    methods = {"sampler": sampler, "trainer": trainer, "network": filled["network"]}
    owners = list(map(" ".join, methods.items()))
    asked = {**config.options, **({} if config.epochs is None else {"epochs": config.epochs})}
    options.check_reached(asked, owners)
    if defaults.get("halve_epochs"):  # as the paper does for the web sets: 256 to 128 (and 255 to 127)
        defaults["epochs"] = recipes.resolve(config.recipe, shape, defaults).epochs // 2
    discovery.find("sampler", SAMPLERS, sampler)
    suits = discovery.find("trainer", TRAINERS, trainer).suits
    chosen = recipes.resolve(config.recipe, shape, defaults, asked, method_defaults=suits, memory=filled["memory"])
    return Resolved(chosen, chosen.of(owners), methods, **filled)


def data_of(config: RunConfig) -> tuple[str, Path | None, data.FileOptions]:
    """What `data.load` needs: the data's name, their root, and how image files are read.

    The data are those of a manifest, if the config names one and no other data than the default.
    """
    name = config.data
    if config.stream.endswith(".json") and name == RunConfig.data:
        made_from = StreamManifest.load(config.stream.replace("{seed}", str(config.seed))).source
        name = made_from if made_from in data.data_sets() else name
    root = Path(config.data_root) if config.data_root else None
    return name, root, data.FileOptions(config.image_size, config.test_share, config.bad_files, config.trust_labels)


def resolve_run_stream(config: RunConfig, found: Resolved, source: DataSource) -> StreamManifest:
    """The stream of a run; what a ready-made one decides itself must be left out of the config."""
    for name in config.values(Role.STREAM, changed=True) if config.ready_made_stream else ():
        raise ValueError(f"the stream {config.stream} is already made, with its own {name}: leave {name} out")
    return resolve_stream(
        config.stream.replace("{seed}", str(config.seed)), source,
        splits=config.splits or config.data_root or data.default_root(), n_tasks=found.tasks, noise=found.noise,
        noise_file=config.noise_file, seed=config.seed, holdout=config.holdout, imbalance=config.imbalance,
        noise_map=named_map(config.noise_map, len(source.class_names)) if config.noise_map else None,
    )  # fmt: skip


def shortened(manifest: StreamManifest, limit: int) -> StreamManifest:
    """The stream with the first `limit` samples of each task."""
    borders = itertools.pairwise((0, *manifest.task_ends))
    parts = [np.arange(start, min(end, start + limit)) for start, end in borders]
    rows, ends = np.concatenate(parts), tuple(np.cumsum([len(part) for part in parts]).tolist())
    return dataclasses.replace(manifest, order=manifest.order[rows], labels=manifest.labels[rows], task_ends=ends)


def run_id(config: RunConfig, found: Resolved, stream_hash: str) -> str:
    """The identity of a run: a hash of its resolved configuration and of its stream's content.

    Places, the machine and what is only measured do not enter; nor do options of other methods, or those at their
    defaults. A plugin enters by the hash of its code.
    """
    facts = {
        **config.values(Role.IDENTITY), **found.methods, "memory": found.memory, "stream": stream_hash,
        "options": dict(found.own_options.items() & found.options.changed().items()),
        "plugins": plugins.codes(*found.methods.items()),
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def commit() -> str | None:
    """$PURIDIVER_COMMIT if set, else the commit of the checkout this package runs from ("-dirty" if changed)."""
    told, root = os.environ.get(COMMIT), Path(__file__).parents[2]
    if told or not (root / ".git").exists():
        return told or None
    words = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"]
    with contextlib.suppress(OSError):  # there is no git
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or None
    return None


def versions() -> dict[str, str]:
    """Versions of everything that figures may depend on."""
    modules = {"torch": torch.__version__, "numpy": np.__version__}
    return {"puridiver": __version__, "python": platform.python_version(), **modules}
