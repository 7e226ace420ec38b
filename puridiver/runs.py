"""The run folder (config, manifest, metrics, summary) and the ledger of finished runs."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.storage import write_atomically

SUMMARY, CONFIG, MANIFEST, METRICS = "summary.json", "config.json", "manifest.json", "metrics.jsonl"
MEMORY = "memory.safetensors"  # what the memory held at the end, for the report


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON: nan and infinity, which JSON does not have, become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def check_free(path: Path, force: bool) -> None:
    """An error where a run folder could not be made or holds a run that must not be replaced."""
    if path.exists() and not path.is_dir():
        raise DataError(f"{path} is a file; name a folder for the run")
    if (path / CONFIG).exists() and not force:
        state = "a finished run" if (path / SUMMARY).exists() else "an unfinished run"
        raise DataError(f"{path} holds {state}; choose another folder, or say --force to replace it")
    _check_writable(path)


def check_ledger(ledger: Path) -> None:
    """An error where a ledger could not be written."""
    if ledger.is_dir():
        raise DataError(f"{ledger} is a folder; name a file for the ledger")
    _check_writable(ledger)


def _check_writable(path: Path) -> None:
    """Looks only: what exists of the path must allow the rest to be written."""
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if existing != path and not existing.is_dir():
        raise DataError(f"{path} cannot be written: {existing} is a file")
    if not os.access(existing, os.W_OK):
        raise DataError(f"{path} cannot be written: no permission in {existing}")


class RunFolder:
    """Where one run writes. Events are appended as they happen; the summary, written last, marks a finished run."""

    def __init__(self, path: Path, force: bool = False) -> None:
        self.path = path
        check_free(path, force)
        path.mkdir(parents=True, exist_ok=True)
        for name in (SUMMARY, METRICS, MEMORY):
            (path / name).unlink(missing_ok=True)

    def write(self, name: str, value: Any) -> None:
        self.write_bytes(name, (to_json(value, indent=1) + "\n").encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        write_atomically(self.path / name, content)

    def append(self, event: dict[str, Any]) -> None:
        with (self.path / METRICS).open("a") as file:
            file.write(to_json(event) + "\n")


def append_to_ledger(ledger: Path, row: dict[str, Any]) -> None:
    """Add a finished run as one line; a single write, so that lines of several processes do not mix."""
    ledger.parent.mkdir(parents=True, exist_ok=True)
    with ledger.open("ab", buffering=0) as file:
        file.write((to_json(row) + "\n").encode())


def read_ledger(ledger: Path) -> list[dict[str, Any]]:
    """All rows of a ledger; a damaged line is an error that names it."""
    rows = []
    for number, line in enumerate(ledger.read_text().splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise DataError(f"{ledger}, line {number}, is not JSON: {error}") from error
    return rows
