"""The folder of a run: which run it holds, which files are the run's own, and its events.

config.json          which run this is and what it was begun with, the code of its plugins included
manifest.json        the stream
metrics.jsonl        the events, a line each, appended as they happen
checkpoint/          the newest state of an unfinished run
memory.safetensors   what the memory held at the end, for reports
learner/             the learner at the end, for `puridiver predict` and Learner.load
summary.json         the figures; written last, it marks a finished run

A folder holds a run if its config.json says "format": "puridiver-run". Anything else there is somebody else's: it is
never replaced or removed, with or without --force.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from puridiver.errors import DataError
from puridiver.files import check_json, check_writable, file_lock, read_json, read_regular, to_json, write_atomically
from puridiver.runs.checkpoint import remove_save
from puridiver.runs.config import Role, RunConfig

logger = logging.getLogger(__name__)

FORMAT = "puridiver-run"
CONFIG, MANIFEST, METRICS, SUMMARY = "config.json", "manifest.json", "metrics.jsonl", "summary.json"
MEMORY, LEARNER, CHECKPOINT = "memory.safetensors", "learner", "checkpoint"
FILES = (SUMMARY, MEMORY, METRICS, MANIFEST)  # of every run, beside the config and saved states
LOCK = ".puridiver.lock"
TORN = re.compile(rf"\.({'|'.join(map(re.escape, (CONFIG, *FILES)))})\.\d+-\d+\.tmp")  # a write that was killed
GRID_CELLS = "cells"  # where a folder of `puridiver grid` has its runs
COMPARED = (Role.SOURCE, Role.STREAM, Role.IDENTITY, Role.MEASUREMENT)  # what a run must not change on its way
MAY_CHANGE = {"versions": {}, "commit": (str, None), "device": str, "precision": str}  # noted where they do
FIELDS: dict[str, Any] = {
    "config": {}, "resolved": {}, "plugins": {}, "id": str, "stream": str, "command": str, **MAY_CHANGE,
}  # fmt: skip


class Begun(NamedTuple):
    """The content of `config.json`: what a run was started with."""

    config: RunConfig
    resolved: dict[str, Any]  # the defaults that were filled in
    plugins: dict[str, str]  # the code of single files, as loaded
    facts: dict[str, Any]  # what the run's row says before it has figures, its id among it

    def continued(self, said: Mapping[str, Any], options: Mapping[str, Any]) -> RunConfig:
        """The config to resume with: this run's own, with what the user changes."""
        epochs = {"epochs": None} if "epochs" in options else {}  # the field would hide the option
        changes = {**epochs, **said, "options": {**self.config.options, **options}}
        return dataclasses.replace(self.config, **changes)

    def check_same(self, other: Self, path: Path) -> None:
        """Raise a `DataError` that names the differences if `other` is not the same run."""
        there, here = ({**run.config.values(*COMPARED), **run.resolved} for run in (self, other))
        there, here = ({**values, **values.pop("options", {})} for values in (there, here))
        names = [name for name in there | here if there.get(name) != here.get(name)]
        if self.facts["id"] == other.facts["id"] and not set(names) & self.config.values(Role.MEASUREMENT).keys():
            return
        if not names:
            raise DataError(f"{path} holds a run on another stream: data, noise matrix or plugin have changed since")
        told = "; ".join(f"{name} is {there.get(name)!r} there and {here.get(name)!r} here" for name in names)
        raise DataError(f"{path} holds a run with another config: {told}; --resume alone goes on with its own")

    def changes_until(self, now: Self) -> dict[str, Any]:
        """A warning, and an entry for the summary, where a run goes on with other versions or on another machine."""
        changed = {name: self.facts[name] for name in MAY_CHANGE if self.facts[name] != now.facts[name]}
        if not changed:
            return {}
        told = " and ".join(changed)
        logger.warning("the run began with other %s: its figures may differ from those of one machine", told)
        return {"began_with": changed}


def check_free(path: Path, force: bool = False, resume: bool = False) -> None:
    """Raise an error if a run cannot be written there, or would touch files of others."""
    if force and resume:
        raise ValueError("--force replaces the run of a folder and --resume continues it: say one of them")
    if not _holds_run(path):
        if others := [name for name in (*FILES, CHECKPOINT, LEARNER) if os.path.lexists(path / name)]:
            raise DataError(f"{path} has files that a run would replace, but that no run wrote: {', '.join(others)}")
    elif not (force or resume):
        done = (path / SUMMARY).exists()
        told = "a finished run" if done else "an unfinished run; say --resume to continue it"
        raise DataError(f"{path} holds {told}; choose another folder, or say --force to replace it")


def check_no_run(path: Path) -> None:
    """Raise an error where a folder cannot be written, or holds a run or a grid: it is no place for anything else."""
    if _holds_run(path):
        raise DataError(f"{path} holds a run; choose another folder")


def _holds_run(path: Path) -> bool:
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is a file; name a folder for the run")
    if (path / GRID_CELLS).is_dir():
        raise DataError(f"{path} is the folder of a grid; name another one for the run")
    check_writable(path)
    return RunFolder(path).begun() is not None


class RunFolder:
    """Where one run writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Create the folder and lock it against other processes."""
        self.path.mkdir(parents=True, exist_ok=True)
        with file_lock(self.path / LOCK, wait_seconds=0, what=f"the run in {self.path}"):
            for left in filter(lambda path: TORN.fullmatch(path.name), self.path.glob(".*.tmp")):
                left.unlink()
            yield

    def begun(self) -> Begun | None:
        """What the run in the folder was started with; None without one. Another program's config.json is an error."""
        found, path = self.read(CONFIG), self.path / CONFIG
        if found is None:
            return None
        if found.pop("format", None) != FORMAT:
            raise DataError(f"{path} is not a run's (it has no format {FORMAT!r}): choose another folder")
        check_json(found, FIELDS, str(path))
        try:
            RunConfig.of_dict(found["resolved"])  # the same fields, with the same types
            config = RunConfig.of_dict(found.pop("config"))
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} is damaged: config: {error}") from error
        return Begun(config, found.pop("resolved"), found.pop("plugins"), found)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON object of the folder; None where it is missing."""
        try:
            found = read_json(self.path / name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return check_json(found, {}, str(self.path / name))

    def begin(self, begun: Begun) -> None:
        """Remove the older run, if there is one, and write config.json."""
        remove_save(self.path / CHECKPOINT)  # before the events, without which none can go on
        remove_save(self.path / LEARNER)
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
        own = begun._asdict()
        self.write(CONFIG, {"format": FORMAT, **own.pop("facts"), **own, "config": dataclasses.asdict(begun.config)})

    def write(self, name: str, value: Any) -> None:
        """Write a JSON file of the folder."""
        write_atomically(self.path / name, (to_json(value, indent=1) + "\n").encode())

    def append(self, event: dict[str, Any]) -> None:
        """Listen to a run: append its event."""
        with (self.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(to_json(event) + "\n")

    def events(self) -> list[dict[str, Any]]:
        """All events so far."""
        return [json.loads(line) for line in read_regular(self.path / METRICS).splitlines()]

    def metrics_size(self) -> int:
        """Bytes of the events so far, which are on the disk for good once this returns."""
        with (self.path / METRICS).open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def cut_metrics(self, size: int) -> None:
        """Drop the events after a checkpoint: the resumed run repeats them."""
        path = self.path / METRICS
        if not size and not os.path.lexists(path):
            return
        if path.is_symlink() or not path.is_file() or path.stat().st_size < size:
            raise DataError(f"{path} has lost events or is no regular file: the run cannot continue")
        os.truncate(path, size)
