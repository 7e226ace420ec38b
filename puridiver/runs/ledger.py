"""The ledger: a JSON-lines file with one flat row for each finished run; and the check of such a row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver import plugins
from puridiver.errors import DataError
from puridiver.files import append_line, check_json, check_writable, parse_json, read_regular, to_json
from puridiver.metrics import METRICS
from puridiver.runs.config import SETTINGS, Role
from puridiver.streams.noise import noise_name
from puridiver.trainers import SET_NAMES

if TYPE_CHECKING:
    from puridiver.runs.begun import Begun
    from puridiver.runs.experiment import Experiment
    from puridiver.runs.loop import RunLoop

Row = dict[str, Any]

# What a row must have, and what some rows have; the same run in two grids makes two rows with the same id.
TEXTS = (
    "id", "method", "column", "data", "stream", "noise", "sampler", "trainer", "recipe", "network", "evaluated_on",
    "device",
)  # fmt: skip
NEEDED: dict[str, Any] = {
    **dict.fromkeys(TEXTS, str), "grid": (str, None),  # null for a run of `puridiver run`
    **dict.fromkeys(("seed", "memory", "epochs"), int), **dict.fromkeys(("noise_rate", "seconds"), float),
    **dict.fromkeys(("stream_noise", "last_accuracy"), (float, None)), "options": {}, "shortened": bool,
}  # fmt: skip
FIELDS: dict[str, Any] = {
    **dict.fromkeys((*METRICS, "alpha"), (float, None)),
    **dict.fromkeys(("task_accuracy", "task_purity", "class_accuracy"), ([(float, None), None], None)),
    **dict.fromkeys(("stream_hash", "precision", "command", "started", "commit"), (str, None)),
    "memory_per_class": ([int, None], None), **dict.fromkeys(("consolidations", "lanes"), (int, None)),
    **dict.fromkeys(("told_noise", "graphs"), (bool, None)),
    **dict.fromkeys(("versions", "phase_seconds", "began_with"), ({}, None)),
    **NEEDED,
}  # fmt: skip


def row_of(run: Experiment, loop: RunLoop, begun: Begun) -> Row:
    """The row of a finished run: what it was, its figures and where they come from."""
    config, manifest, runtime, options = run.config, run.manifest, run.learner.runtime, run.resolved.options
    as_given = manifest.noise == "none" and manifest.realised_noise != 0
    noise = "as given" if as_given else noise_name(manifest.noise, manifest.noise_rate)
    row = {
        "id": run.id, "grid": None, "method": f"{config.sampler} + {config.trainer}",
        "column": f"{run.source.name} {noise}", "seed": config.seed, **loop.recorder.summary(),
        "data": run.source.name, "stream": begun.stream, "stream_hash": manifest.content_hash, "noise": manifest.noise,
        "noise_rate": manifest.noise_rate, "noise_map": config.noise_map, "stream_noise": manifest.realised_noise,
        "sampler": config.sampler, "trainer": config.trainer, "recipe": config.recipe,
        "options": {**config.options, **({} if config.epochs is None else {"epochs": config.epochs})},
        "memory": run.learner.capacity, "network": run.learner.network, "epochs": options.epochs,
        "consolidations": options.consolidations, "told_noise": config.tell_noise,
        "evaluated_on": config.evaluate_on, "shortened": (config.stream_limit, config.test_limit) != (None, None),
        "device": begun.device, "precision": runtime.precision,
        "graphs": runtime.graphs, "lanes": run.lanes, "versions": begun.versions, "commit": begun.commit,
        "command": begun.command, "started": loop.started, "seconds": sum(loop.seconds.values()),
        "phase_seconds": dict(loop.seconds),
    }  # fmt: skip
    told_where_so = {
        "noise_matrix": manifest.noise_matrix, "imbalance": manifest.imbalance, "left_out": list(run.source.left_out),
        "plugins": plugins.codes(*run.resolved.methods),
        "task_trainings": loop.trainings if min(loop.trainings) < options.consolidations else None,
        **{name: value for name, value in config.values(Role.SOURCE, changed=True).items() if not SETTINGS[name].path},
    }  # fmt: skip
    return row | {name: value for name, value in told_where_so.items() if value}


def append_row(ledger: Path, row: Row, once: bool = False) -> None:
    """Add a finished run as one line; with `once`, not a row that the ledger has already."""
    if once and ledger.exists() and json.loads(to_json(row)) in read_lines(ledger):
        return
    ledger.parent.mkdir(parents=True, exist_ok=True)
    append_line(ledger, to_json(row))


def check_ledger(ledger: Path) -> None:
    """Raise an error, before the work, where a ledger could not be written."""
    check_writable(ledger)
    if ledger.exists():
        read_lines(ledger)


def read_ledgers(paths: Iterable[Path]) -> list[Row]:
    """All rows of several ledgers; a `DataError` names the file, the line and the field that is wrong."""
    return [checked(row, f"{path}, line {n}") for path in paths for n, row in enumerate(read_lines(path), start=1)]


def read_lines(path: Path) -> list[Row]:
    """All objects of a JSON-lines file, unchecked; a `DataError` names a damaged line."""
    try:  # line ends are those of the file alone: what text calls a line may stand inside a row
        lines = read_regular(path).decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise DataError(f"there is no ledger {path}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a ledger: {error}") from error
    told = [(line, f"{path}, line {n},") for n, line in enumerate(lines, start=1) if line.strip()]
    return [check_json(parse_json(line, where), {}, where) for line, where in told]


def checked(row: Row, where: str) -> Row:
    """The row of a finished run, if it is one; else a `DataError` that names the place and the field."""
    if missing := [name for name in NEEDED if name not in row]:
        raise DataError(f"{where} is not the row of a finished run: it lacks {', '.join(missing)}")
    sets = {f"{name}_{what}": (float, None) for name in SET_NAMES for what in ("size", "precision")}  # of some trainers
    return check_json(row, FIELDS | sets, where)
