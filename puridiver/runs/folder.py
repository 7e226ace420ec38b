"""The folder of a run: which run it holds, which files are the run's own, and its events.

config.json          which run this is and what it was begun with, the code of its plugins included
manifest.json        the stream
metrics.jsonl        the events, a line each, appended as they happen
checkpoint/          the newest two states of an unfinished run
memory.safetensors   what the memory held at the end, for reports
learner/             the learner at the end, for `puridiver predict` and Learner.load
summary.json         the figures; written last, it marks a finished run

A folder holds a run if its config.json says "format": "puridiver-run". Anything else there is somebody else's: it is
never replaced or removed, with or without --force.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import check_json, check_writable, file_lock, read_json, read_regular, to_json, write_atomically
from puridiver.runs.begun import Begun
from puridiver.runs.checkpoint import Checkpoints, remove_save

FORMAT = "puridiver-run"
CONFIG, MANIFEST, METRICS, SUMMARY = "config.json", "manifest.json", "metrics.jsonl", "summary.json"
MEMORY, LEARNER, CHECKPOINT = "memory.safetensors", "learner", "checkpoint"
FILES = (SUMMARY, MEMORY, METRICS, MANIFEST)  # of every run, beside the config and saved states
LOCK = ".puridiver.lock"
TORN = re.compile(rf"\.({'|'.join(map(re.escape, (CONFIG, *FILES)))})\.\d+-\d+\.tmp")  # a write that was killed
GRID_CELLS = "cells"  # where a folder of `puridiver grid` has its runs


def check_free(path: Path, force: bool = False, resume: bool = False) -> None:
    """Raise an error where a run folder could not be made, or holds what a run must not touch."""
    if force and resume:
        raise ValueError("--force replaces the run of a folder and --resume continues it: say one of them")
    if _run_in(path) is None:
        _check_not_there(path)
    elif not (force or resume):
        done = (path / SUMMARY).exists()
        told = "a finished run" if done else "an unfinished run; say --resume to continue it"
        raise DataError(f"{path} holds {told}; choose another folder, or say --force to replace it")


def check_no_run(path: Path) -> None:
    """Raise an error where a folder cannot be written, or holds a run or a grid: it is no place for anything else."""
    if _run_in(path) is not None:
        raise DataError(f"{path} holds a run; choose another folder")


def _run_in(path: Path) -> Begun | None:
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is a file; name a folder for the run")
    if (path / GRID_CELLS).is_dir():
        raise DataError(f"{path} is the folder of a grid; name another one for the run")
    check_writable(path)
    return RunFolder(path).begun()


def _check_not_there(path: Path) -> None:
    if others := [name for name in (*FILES, CHECKPOINT, LEARNER) if os.path.lexists(path / name)]:
        raise DataError(f"{path} has files that a run would replace, but that no run wrote: {', '.join(others)}")


class RunFolder:
    """Where one run writes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Make the folder and keep other processes out of it meanwhile."""
        self.path.mkdir(parents=True, exist_ok=True)
        with file_lock(self.path / LOCK, wait_seconds=0, what=f"the run in {self.path}"):
            for left in filter(lambda path: TORN.fullmatch(path.name), self.path.glob(".*.tmp")):
                left.unlink()
            yield

    def begun(self) -> Begun | None:
        """What the run in the folder was begun with; None without a run. A config.json of others is an error."""
        found = self.read(CONFIG)
        if found is None:
            return None
        if found.get("format") != FORMAT:
            raise DataError(f"{self.path / CONFIG} is not a run's (it has no format {FORMAT!r}): choose another folder")
        return Begun.of_dict(found, self.path / CONFIG)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON object of the folder; None where it is missing."""
        try:
            found = read_json(self.path / name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return check_json(found, {}, str(self.path / name))

    def begin(self, begun: Begun) -> None:
        """Clear away the older run, if there is one, and write what this one is."""
        if self.begun() is None:
            _check_not_there(self.path)
        Checkpoints(self.path / CHECKPOINT).remove()  # before the events, without which none can go on
        remove_save(self.path / LEARNER)
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
        config = dataclasses.asdict(begun.config)
        self.write(CONFIG, {"format": FORMAT, **begun._asdict(), "config": config})

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
        """Take back the events after a checkpoint: they are about to happen again."""
        path = self.path / METRICS
        if not size and not os.path.lexists(path):
            return
        if path.is_symlink() or not path.is_file() or path.stat().st_size < size:
            raise DataError(f"{path} has lost events or is no regular file: the run cannot continue")
        os.truncate(path, size)
