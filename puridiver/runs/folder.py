"""The run folder (config, manifest, metrics, checkpoint, summary, learner) and the ledger of finished runs."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import check_writable, file_lock, to_json, write_atomically
from puridiver.learner import saved
from puridiver.options import Options
from puridiver.streams.names import LISTED, MATRIX_FILE, as_recorded, is_published

SUMMARY, CONFIG, MANIFEST, METRICS = "summary.json", "config.json", "manifest.json", "metrics.jsonl"
MEMORY = "memory.safetensors"  # what the memory held at the end, for the report
GRID_CELLS = "cells"  # where a folder of `puridiver grid` has its runs
CELL_SHOWN = 10  # characters of a run's identity at the end of its folder's name in a grid
PLUGINS = "plugins"  # the plugins' files as the run loaded them
LEARNER = saved.IN_RUN  # the learner as it was at the end, with the data's own class names
CHECKPOINT, LOCK = "checkpoint", ".lock"
# Of the config: where things lie on one machine, and what the resolved settings or the stream's hash say better.
NOT_COMPARED = (
    "data_root", "splits", "device", "precision", "memory", "network", "epochs", "options", "image_size", "test_share",
    "bad_files", "trust_labels", "noise_file",
)  # fmt: skip

# Fields that configs of older runs do not have, and what says nothing there: with it a run is what it was without them.
LATER_FIELDS = {"imbalance": (None, 1.0)}


def check_free(path: Path, force: bool = False, resume: bool = False) -> None:
    """An error where a run folder could not be made, or holds what a run must not touch."""
    check_no_run(path, force, resume)
    _check_replaces_runs_alone(path)


def check_no_run(path: Path, force: bool = False, resume: bool = False) -> None:
    """An error where a folder could not be written, or holds a run that must not be touched."""
    if force and resume:
        raise ValueError("--force replaces the run of a folder and --resume continues it: say one of them")
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is a file; name a folder for the run")
    if (path / GRID_CELLS).is_dir():
        raise DataError(f"{path} is the folder of a grid; name another one for the run")
    if not force:
        if (path / CONFIG).exists() and not resume:
            if (path / SUMMARY).exists():
                told = (
                    "a finished run; choose another folder, or say --force to replace it (--resume shows its summary)"
                )
            else:
                told = (
                    "an unfinished run; choose another folder, or say --resume to continue it or --force to replace it"
                )
            raise DataError(f"{path} holds {told}")
        if (path / CHECKPOINT).exists() and not (path / CONFIG).exists():
            raise DataError(f"{path} holds checkpoints but no {CONFIG}; choose another folder, or say --force")
    check_writable(path)


def _check_replaces_runs_alone(path: Path) -> None:
    """A run writes over what older runs left, but not over files of the same names that are somebody else's."""
    if (path / CONFIG).exists() or (path / LOCK).exists() or (path / CHECKPOINT).exists():
        return
    others = [name for name in (SUMMARY, METRICS, MANIFEST, MEMORY, LEARNER, PLUGINS) if (path / name).exists()]
    if others:
        raise DataError(
            f"{path} has files that a run would replace, but holds no run ({', '.join(others)}): choose another folder"
        )


def check_ledger(ledger: Path) -> None:
    """An error where a ledger could not be written."""
    if ledger.is_dir():
        raise DataError(f"{ledger} is a folder; name a file for the ledger")
    check_writable(ledger)
    if ledger.is_file() and not _may_be_ledger(ledger):
        raise DataError(f"{ledger} holds something else than a ledger's lines; name another file for the ledger")


def _may_be_ledger(path: Path) -> bool:
    """Whether a file is empty, or begins with a whole line that is an object."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"")
    try:
        return not first or isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Make a run folder and keep other processes out of it meanwhile."""
    path.mkdir(parents=True, exist_ok=True)
    with file_lock(path / LOCK, wait_seconds=0, what=f"the run in {path}"):
        for name in (CONFIG, MANIFEST, SUMMARY, MEMORY):
            for left in path.glob(f".{name}.*.tmp"):  # by a process that was killed while it wrote
                left.unlink()
        yield


class RunFolder:
    """Where one run writes. Events are appended as they happen; the summary, written last, marks a finished run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, description: dict[str, Any]) -> None:
        """Clear away an older run and write what this one is."""
        for name in (CONFIG, SUMMARY, METRICS, MEMORY):  # the config first: without it there is no run to continue
            (self.path / name).unlink(missing_ok=True)
        for name in (CHECKPOINT, LEARNER, PLUGINS):
            if (self.path / name).exists():
                shutil.rmtree(self.path / name)
        self.write(CONFIG, description)

    def write(self, name: str, value: Any) -> None:
        self.write_bytes(name, (to_json(value, indent=1) + "\n").encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        write_atomically(self.path / name, content)

    def write_plugins(self, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            self.write_bytes(name, content)

    def append(self, event: dict[str, Any]) -> None:
        with (self.path / METRICS).open("a") as file:
            file.write(to_json(event) + "\n")

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file of the folder; None where it is missing."""
        try:
            found = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataError(f"{self.path / name} is damaged: {error}") from error
        if not isinstance(found, dict):
            raise DataError(f"{self.path / name} is damaged: it should hold an object")
        return _in_full(found) if name == CONFIG else found

    def check_same_run(self, description: dict[str, Any], held: dict[str, Any]) -> None:
        """An error that names what differs between the run the folder holds and the one that is to continue it."""
        there, here = identity(held), identity(description)
        names = [name for name in sorted(there.keys() | here.keys()) if there.get(name) != here.get(name)]
        if len(names) > 1 and "stream_hash" in names:
            names.remove("stream_hash")  # another noise or seed makes another stream: they say it better
        unsaid = dict(Options())
        values = [(name, *(run.get(name, unsaid.get(name)) for run in (there, here))) for name in names]
        differing = [f"{name} is {then!r} there and {now!r} here" for name, then, now in values]
        if names == ["stream_hash"]:
            raise DataError(
                f"{self.path} holds a run on another stream: the data have changed since, or a noise matrix has, or "
                "the version it was begun with made streams otherwise (CHANGELOG.md); go on with those, or --force "
                "starts anew"
            )
        if differing:
            raise DataError(
                f"{self.path} holds a run with another config: {'; '.join(differing)}; "
                f"`puridiver run --out {self.path} --resume` continues it with its own, another folder starts a new run"
            )

    def metrics_size(self) -> int:
        """Bytes of the events so far, which are on the disk for good once this returns."""
        try:
            with (self.path / METRICS).open("rb+") as file:
                os.fsync(file.fileno())
                return file.seek(0, os.SEEK_END)
        except FileNotFoundError:
            return 0

    def cut_metrics(self, size: int) -> None:
        """Take back the events after a checkpoint: they are about to happen again."""
        path = self.path / METRICS
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            raise DataError(
                f"{path} has {found} bytes, but had {size} when the checkpoint was written: the run cannot continue; "
                "--force starts it afresh"
            )
        if found:
            os.truncate(path, size)


def _in_full(description: dict[str, Any]) -> dict[str, Any]:
    """What a run was begun with, its stream by its full name: older versions kept no order of published ones."""
    config = description.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("stream"), str):
        return description
    try:
        return {**description, "config": {**config, "stream": as_recorded(config["stream"])}}
    except ValueError:  # no stream at all: whoever makes the config says so
        return description


def as_begun(begun: dict[str, Any]) -> dict[str, Any]:
    """Where files lay when a run began: it may go on from another folder, from which their paths are others."""
    return {name: begun[name] for name in ("stream", "command") if name in begun}


def identity(description: dict[str, Any]) -> dict[str, Any]:
    """What decides the figures of a run, by name, from what its `config.json` holds."""
    config, resolved = dict(description.get("config", {})), dict(description.get("resolved", {}))
    options = resolved.pop("options", {})
    resolved["device"] = str(resolved.get("device")).partition(":")[0]  # another GPU of its kind may continue it
    told = {name: value for name, value in config.items() if value not in LATER_FIELDS.get(name, ())}
    kept = {name: without_folder(value) for name, value in told.items() if name not in NOT_COMPARED}
    found = {**kept, **resolved, **options}
    # A noise matrix is known by what it holds, which the hash of the stream tells, and not by the name of its file.
    named = {name: MATRIX_FILE for name, value in found.items() if str(value).startswith(MATRIX_FILE)}
    return json.loads(to_json({**found, **named}))


def identity_hash(description: dict[str, Any]) -> str:
    """What checkpoints know their run by. A stream in the files' order has the name there that it had when all had."""
    found = identity(description)
    if is_published(str(found.get("stream", ""))):
        found["stream"] = found["stream"].removesuffix(f":{LISTED}")
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def without_folder(value: Any) -> Any:
    """The name alone of a file or folder that data, a stream or noise are read from; anything else as it is."""
    if isinstance(value, str) and value.startswith(MATRIX_FILE):
        return MATRIX_FILE + Path(value.removeprefix(MATRIX_FILE)).name
    if not isinstance(value, str) or not (os.sep in value or value.endswith((".npz", ".json"))):
        return value
    return Path(value).name or value


def file_hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def place_in_record(value: str) -> str:
    """How a record names a file or folder: by the path from the working folder, and without folders if not in there.

    So that the command of a record finds it again from the same folder, and no record tells how a machine is laid out.
    """
    if value.startswith(MATRIX_FILE):
        return MATRIX_FILE + place_in_record(value.removeprefix(MATRIX_FILE))
    if without_folder(value) == value or not os.path.isabs(value):
        return value
    inside = os.path.relpath(value)
    return str(without_folder(value)) if inside.split(os.sep)[0] in (os.curdir, os.pardir) else inside


def append_to_ledger(ledger: Path, row: dict[str, Any], once: bool = False) -> None:
    """Add a finished run as one line; a single write, so that lines of several processes do not mix.

    With `once`, a row that the ledger has already is not added again.
    """
    if once and ledger.exists() and json.loads(to_json(row)) in read_ledger(ledger):
        return
    ledger.parent.mkdir(parents=True, exist_ok=True)
    append_line(ledger, row)


def append_line(path: Path, value: dict[str, Any]) -> None:
    """Add one line of JSON, all of it or, where the disk is full, nothing."""
    line = (to_json(value) + "\n").encode()
    with path.open("a+b", buffering=0) as file:
        start = file.seek(0, os.SEEK_END)
        if start:
            file.seek(start - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line  # an editor may have left the last line without its end
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(file.fileno())
        except OSError:
            file.truncate(start)
            raise


def ledger_lines(ledger: Path) -> list[str]:
    """Line ends are those of the file alone: what text calls a line may stand inside a row."""
    try:
        return ledger.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{ledger} is not a ledger: {error}") from error


def read_ledger(ledger: Path) -> list[dict[str, Any]]:
    """All rows of a ledger; a damaged line is an error that names it."""
    rows = []
    for number, line in enumerate(ledger_lines(ledger), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise DataError(f"{ledger}, line {number}, is not JSON: {error}; mend or remove that line") from error
            if not isinstance(rows[-1], dict):
                raise DataError(f"{ledger}, line {number}, should be a JSON object; mend or remove that line")
    return rows
