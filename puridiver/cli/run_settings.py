"""What a command line says of a run: the flags of its settings, and the config that they come to."""

from __future__ import annotations

import argparse
import dataclasses
import os
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from puridiver.streams.names import MATRIX_FILE, is_manifest

if TYPE_CHECKING:
    from puridiver.runs.config import RunConfig


def flag_specs() -> dict[str, dict[str, Any]]:
    """argparse arguments of every field of RunConfig."""
    from puridiver.runs.config import RunConfig

    hints = get_type_hints(RunConfig)
    return {
        "--" + spec.name.replace("_", "-"): _flag(spec, hints[spec.name])
        for spec in dataclasses.fields(RunConfig)
        if "help" in spec.metadata
    }


def _flag(spec: dataclasses.Field, hint: Any) -> dict[str, Any]:
    members = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = next(m for m in members if m is not type(None))
    flag: dict[str, Any] = {"dest": spec.name, "default": spec.default}
    shown = "" if spec.default is None or kind is bool else f" (default: {spec.default})"
    flag["help"] = spec.metadata["help"] + shown
    if kind is bool:
        return {**flag, "action": argparse.BooleanOptionalAction}
    flag |= {"type": kind, "metavar": spec.name.upper() if kind is not int else "N"}
    if spec.metadata["choices"]:
        flag |= {"choices": spec.metadata["choices"], "metavar": None}
    return flag


def parse_assignments(assignments: list[str]) -> dict[str, Any]:
    """`--set name=value` pairs as options."""
    from puridiver import plugins
    from puridiver.options import parse

    plugins.load_all()
    return parse(assignments)


def is_place(field: str, value: str) -> bool:
    """Whether the value of a field is a file or a folder; a name that the package knows is none."""
    from puridiver.data import SOURCES
    from puridiver.data.sources import is_own_or_arrays

    if field == "data":
        return value not in SOURCES and is_own_or_arrays(value)
    return field != "stream" or is_manifest(value)


def to_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of RunConfig that the command line says, and the options."""
    from puridiver.runs.config import RunConfig

    given = {spec.name: getattr(args, spec.name) for spec in dataclasses.fields(RunConfig) if hasattr(args, spec.name)}
    for name in ("data", "data_root", "stream", "splits", "noise_file"):  # so that a run can be resumed from any folder
        if given.get(name) and is_place(name, given[name]):
            given[name] = os.path.abspath(os.path.expanduser(given[name]))
    if (given.get("noise") or "").startswith(MATRIX_FILE):
        file = given["noise"].removeprefix(MATRIX_FILE)
        given["noise"] = MATRIX_FILE + os.path.abspath(os.path.expanduser(file))
    options = parse_assignments(args.assignments)
    if "epochs" in options and given.get("epochs") not in (None, options["epochs"]):
        raise ValueError(f"--epochs {given['epochs']} and --set epochs={options['epochs']} differ: say one of them")
    return {**given, "options": options}


def config_to_run(args: argparse.Namespace) -> RunConfig:
    """What the command line says; where it says nothing, what the run to be resumed was started with."""
    from puridiver.errors import DataError
    from puridiver.runs import folder as runs
    from puridiver.runs.config import RunConfig

    begun = runs.RunFolder(Path(args.out)).read(runs.CONFIG) if args.resume else None
    said = to_settings(args)
    if begun is None:
        if args.resume and said == {"options": {}}:
            raise DataError(
                f"there is no run in {args.out} to resume: look for a slip in the folder's name, or say what to run, "
                "such as --data and --noise, to begin it there"
            )
        return RunConfig(**said)
    try:
        base = RunConfig(**begun["config"])
        if "epochs" in said["options"]:
            base = dataclasses.replace(base, epochs=None)  # which would hide them
        base = dataclasses.replace(base, **{name: value for name, value in said.items() if name != "options"})
        base = as_resolved(base, begun["resolved"])
    except (KeyError, TypeError) as error:
        raise DataError(f"{Path(args.out) / runs.CONFIG} is not of this version: {error}") from error
    return dataclasses.replace(base, options={**base.options, **said["options"]})


def as_resolved(config: RunConfig, resolved: dict[str, Any]) -> RunConfig:
    """The config with what one's own data and the device decided when the run began, where that is another now."""
    from puridiver.runs.config import resolve_memory, resolve_network, resolve_noise, resolve_tasks
    from puridiver.runs.resolve import load_source

    if not is_place("data", config.data):
        return config
    source = load_source(config)
    now: dict[str, Any] = {
        "noise": resolve_noise(config, source), "tasks": resolve_tasks(config, source),
        "memory": resolve_memory(config, source), "network": resolve_network(config, source),
    }  # fmt: skip
    unsaid = [name for name in now if getattr(config, name) is None and name in resolved]
    kept: dict[str, Any] = {name: resolved[name] for name in unsaid if resolved[name] != now[name]}
    if config.data.endswith(".npz") and kept.get("noise", "none") != "none":  # whose labels used to count as true
        kept["trust_labels"] = True
    return dataclasses.replace(config, **kept)
