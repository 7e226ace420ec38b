"""Saving tensors and settings to a folder so that a crash at any moment leaves a whole state, old or new.

Tensors go to `state-<hash>.safetensors`, named by their content. `state.json` names that file, its checksum and the
settings, and is replaced atomically as the last step: it is the commit. One writer at a time. No pickle anywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from puridiver.errors import DataError, first_line
from puridiver.files import file_lock, parse_json, read_regular, write_atomically

FORMAT = 3
INDEX, LOCK = "state.json", ".state.lock"
FIELDS = {"format": int, "tensors": str, "sha256": str, "settings_sha256": str, "settings": dict}  # of the index
WAIT_SECONDS = 10.0  # for another writer of the same folder

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Frozen:
    """A state as it was at one moment: nothing in it changes while it is written."""

    settings: dict[str, Any]
    tensors: dict[str, Tensor]  # on the host


def save(folder: Path, settings: dict[str, Any], tensors: Tensors) -> Path:
    """Write settings and tensors; older tensor files of the folder are removed once the new ones are in place."""
    return write(folder, freeze(settings, tensors))


def freeze(settings: dict[str, Any], tensors: Tensors) -> Frozen:
    """A copy of a state in the machine's memory, ready to be written."""
    copies = {
        name: torch.empty(value.shape, dtype=value.dtype).copy_(value.detach()) for name, value in tensors.items()
    }
    return Frozen(json.loads(json.dumps(settings)), copies)


def write(folder: Path, frozen: Frozen) -> Path:
    """Write what was frozen, as `save` does; a `BusyError` where another writer takes too long."""
    folder.mkdir(parents=True, exist_ok=True)
    content = safetensors.torch.save(frozen.tensors)
    with file_lock(folder / LOCK, WAIT_SECONDS, what=f"saving to {folder}"):
        digest = hashlib.sha256(content).hexdigest()
        name = f"state-{digest[:16]}.safetensors"
        write_atomically(folder / name, content)
        index = {
            "format": FORMAT, "tensors": name, "sha256": digest, "settings_sha256": _digest_of(frozen.settings),
            "settings": frozen.settings,
        }  # fmt: skip
        write_atomically(folder / INDEX, json.dumps(index, indent=1).encode())
        for path in folder.iterdir():  # what the save before and killed ones have left
            if is_of_a_save(path.name) and path.name not in (INDEX, name):
                path.unlink(missing_ok=True)
    return folder


def _digest_of(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def is_of_a_save(name: str) -> bool:
    """Whether a file of a folder is one that saves write."""
    return name == INDEX or re.fullmatch(r"state-[0-9a-f]{16}\.safetensors|\.state.*\.tmp", name) is not None


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and tensors of a save; a `DataError` says what is missing or damaged."""
    index, content = _read_index(folder), None
    while content is None:
        path = folder / Path(index["tensors"]).name
        try:
            content = read_regular(path)
        except FileNotFoundError:  # a newer save may have just replaced index and file
            before, index = index, _read_index(folder)
            if index["tensors"] == before["tensors"]:
                raise DataError(f"{folder} is incomplete: {path.name} is missing") from None
    if index["settings_sha256"] != _digest_of(index["settings"]):
        raise DataError(f"{folder / INDEX} is damaged: the checksum of its settings does not match")
    if hashlib.sha256(content).hexdigest() != index["sha256"]:
        raise DataError(f"{path} is damaged: its checksum does not match")
    try:
        return index["settings"], safetensors.torch.load(content)
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} does not hold tensors: {first_line(error)}") from error


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = parse_json(read_regular(path), str(path))
    except FileNotFoundError:
        why = f"there is no {INDEX}" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{folder} holds no saved state: {why}") from None
    index = index if isinstance(index, dict) else {}
    if isinstance(index.get("format"), int) and index["format"] != FORMAT:
        raise DataError(f"{folder} was saved in format {index['format']}, but this version reads format {FORMAT}")
    for name, kind in FIELDS.items():
        if not isinstance(index.get(name), kind):
            raise DataError(f"{path} is damaged: it should hold {name!r}, a {kind.__name__}")
    return index
