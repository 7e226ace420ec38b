"""Where a figure comes from: the command, the commit, the versions and the identity that every result row carries.

Two runs have the same identity (`cell`) if nothing that decides their results differs: the resolved settings
(`config_hash`), the stream's content and the code (`code_hash`). Runs may be averaged if they differ by seed alone:
then they agree in `settings_hash` and `code_hash`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import platform
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from puridiver import plugins
from puridiver._version import __version__
from puridiver.runs.config import (
    RunConfig,
    resolve_diversity,
    resolve_memory,
    resolve_network,
    resolve_noise,
    resolve_options,
    resolve_tasks,
)
from puridiver.runs.folder import PLUGINS, place_in_record
from puridiver.streams.build import parse_stream
from puridiver.streams.imbalance import BALANCED
from puridiver.streams.manifest import StreamManifest
from puridiver.streams.names import (
    LISTED,
    WORD,
    has_manifest_per_seed,
    is_manifest,
    is_published,
    manifest_path,
    parse_published,
)
from puridiver.streams.noise import parse_noise

if TYPE_CHECKING:
    from puridiver.data.base import DataSource
    from puridiver.runtime.device import Runtime

PLACES = {"data_root": "DATA", "splits": "SPLITS"}  # where things lie on one machine does not belong in a record

# Parts of the package that only start runs or look at their results.
CANNOT_CHANGE_RESULTS = ("cli", "report", "grid", "__main__.py")
# Fields whose effect is told by the stream's content hash or by the resolved settings; every other field counts as
# it stands, so that a new one counts too.
TOLD_OTHERWISE = frozenset(
    ("data", "data_root", "image_size", "test_share", "bad_files", "trust_labels", "stream", "splits", "tasks", "noise",
     "noise_map", "noise_file", "imbalance", "holdout", "recipe", "memory", "network", "epochs", "device", "precision",
     "graphs", "diversity", "options")
)  # fmt: skip
# These only add figures to a run that is the same without them.
ONLY_MEASURED = frozenset(("diversity", "evaluate_epochs"))


@dataclass(frozen=True)
class Identity:
    """What a run is: hashes of its settings, of the code, of both with the stream (`cell`), of all but the seed."""

    cell: str
    config_hash: str
    code_hash: str
    settings_hash: str

    def to_dict(self) -> dict[str, str]:
        return dataclasses.asdict(self)


def identify(config: RunConfig, source: DataSource, stream_hash: str, runtime: Runtime) -> Identity:
    """The identity of the run that a config makes of a source's stream; where files lie does not enter."""
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.name not in TOLD_OTHERWISE}
    settings = _hash_of({**fields, **_resolved(config, source, runtime)})
    code = code_hash()
    cell = _hash_of([settings, stream_hash, code])
    return Identity(cell, settings, code, settings_hash(config, source, stream_hash, runtime))


def settings_hash(config: RunConfig, source: DataSource, stream_hash: str, runtime: Runtime) -> str:
    """The hash of all that decides a run's figures but its seed (its own and its stream's) and the code."""
    told = TOLD_OTHERWISE | ONLY_MEASURED | {"seed"}
    fields = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.name not in told}
    resolved = _resolved(config, source, runtime)
    kept = {name: value for name, value in resolved.items() if name not in ONLY_MEASURED}
    stream = _stream_settings(config, source, stream_hash)
    return _hash_of({**fields, **kept, "data": source.fingerprint, "stream": stream})


def _stream_settings(config: RunConfig, source: DataSource, stream_hash: str) -> Any:
    if has_manifest_per_seed(config.stream):
        return StreamManifest.load(manifest_path(config.stream, config.seed)).manner  # what all seeds have in common
    if is_manifest(config.stream):
        return stream_hash  # one stream, whatever the learner's seed
    if is_published(config.stream):
        noise, _, order = parse_published(config.stream)
        # As it was when all came as listed: the hashes of those runs stand.
        return f"{WORD}:{noise}" if order == LISTED else [f"{WORD}:{noise}", order]
    tasks, spec = resolve_tasks(config, source), parse_stream(config.stream)
    made: dict[str, Any] = {"tasks": tasks, "noise_map": config.noise_map, "holdout": config.holdout}
    if config.imbalance not in (None, BALANCED):  # left out of older hashes
        made["imbalance"] = config.imbalance
    if spec["kind"] != "time" and len(source.class_names) % tasks:
        made["left_over"] = "spread"  # older versions gave all classes that were left over to the last task
    return {**made, "noise": parse_noise(resolve_noise(config, source)), **spec}


def _resolved(config: RunConfig, source: DataSource, runtime: Runtime) -> dict[str, Any]:
    return {
        "options": resolve_options(config, source).changed(),
        "memory": resolve_memory(config, source),
        "network": resolve_network(config, source),
        "diversity": resolve_diversity(config, source),
        "device": runtime.device.type,
        "precision": runtime.precision,
        "graphs": runtime.graphs,
        **plugin_code(config),
    }


def _hash_of(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def plugins_of(config: RunConfig) -> dict[str, plugins.Origin]:
    """Where the config's methods and network came from that are not the package's own."""
    return plugins.origins(*_named(config))


def _named(config: RunConfig) -> list[tuple[str, str]]:
    return [("sampler", config.sampler), ("trainer", config.trainer), ("network", config.network or "")]


def plugin_code(config: RunConfig) -> dict[str, dict[str, str]]:
    """Hashes of the code of those methods: one of the settings, so that an edit touches no run of another method."""
    found = plugins.codes(*_named(config))
    return {"plugins": found} if found else {}


def plugin_files(config: RunConfig) -> dict[str, bytes]:
    """The files of those methods that stand alone, as they were loaded, by where the run's folder keeps them.

    They keep their names, which enter the hashes of their runs: of two of one name the second has a folder of its own.
    """
    sources = {origin.path: origin.source for origin in plugins_of(config).values() if origin.source}
    found: dict[str, bytes] = {}
    for number, (path, source) in enumerate(sources.items(), start=1):
        name = f"{PLUGINS}/{Path(path).name}"
        found[f"{PLUGINS}/{number}/{Path(path).name}" if name in found else name] = source
    return found


def all_code(config: RunConfig) -> str:
    """One hash of the package's code and of the plugins that the run uses."""
    found = plugin_code(config)
    return _hash_of([code_hash(), found]) if found else code_hash()


@functools.cache
def code_hash() -> str:
    """The hash of the running package's code; read once, so that a later edit does not change what is running."""
    return hash_code(Path(__file__).parents[1])


def hash_code(package: Path) -> str:
    """SHA-256 over names and contents of the Python files that can change results."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in CANNOT_CHANGE_RESULTS:
            digest.update(f"{name.as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def command_for(config: RunConfig) -> str:
    """The `puridiver run` command of a config, to be given in the same folder; without the paths of this machine."""
    words = ["puridiver", "run"]
    for option in dataclasses.fields(config):
        value = getattr(config, option.name)
        if option.name == "options" or value == option.default:
            continue
        flag = "--" + option.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, PLACES.get(option.name) or place_in_record(str(value))]
    for name, value in config.options.items():
        words += ["--set", f"{name}={value}"]
    named = (place_in_record(origin.path) if origin.source else origin.place for origin in plugins_of(config).values())
    for place in dict.fromkeys(named):
        words += ["--plugin", place]
    return shlex.join(words)


def commit() -> str | None:
    """$PURIDIVER_COMMIT if set, else the commit of the checkout this package runs from ("-dirty" if changed)."""
    here = Path(__file__).parents[1]
    told = os.environ.get("PURIDIVER_COMMIT")  # set where code travels without its history, or with an older one
    if told or not (here.parent / ".git").exists():
        return told or None
    try:
        head, changed = (
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", str(here)))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}-dirty" if changed else head


def versions() -> dict[str, str]:
    """Versions of everything that figures may depend on."""
    import numpy

    return {
        "puridiver": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }
