"""Settings, which are JSON, and tensors in a folder: written, and read back with every check.

A save is one file of tensors with the settings in its header. It is replaced atomically, so a crash at any moment
leaves a whole state, old or new. One writer at a time. No pickle anywhere.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from puridiver.errors import DataError, first_line
from puridiver.files import check_json, file_lock, parse_json, read_regular, write_atomically

FORMAT = 10
FILE, LOCK = "state.safetensors", ".state.lock"
WAIT_SECONDS = 10.0  # for another writer of the same folder

Tensors = Mapping[str, Tensor]
State = tuple[dict[str, Any], dict[str, Tensor]]  # settings, which are JSON, and tensors


def save(folder: Path, settings: dict[str, Any], tensors: Tensors) -> Path:
    """Write settings and tensors in the place of an older save."""
    return write(folder, freeze(settings, tensors))


def freeze(settings: dict[str, Any], tensors: Tensors) -> State:
    """A copy of a state in the machine's memory: nothing in it changes while it is written."""
    copies = {
        name: torch.empty(value.shape, dtype=value.dtype).copy_(value.detach()) for name, value in tensors.items()
    }
    return json.loads(json.dumps(settings)), copies


def write(folder: Path, frozen: State) -> Path:
    """Write what was frozen, as `save` does; a `BusyError` where another writer takes too long."""
    folder.mkdir(parents=True, exist_ok=True)
    settings, tensors = frozen
    digest = _digest(settings, *_parts(safetensors.torch.save(tensors)))
    note = json.dumps({"format": FORMAT, "sha256": digest, "settings": settings})
    content = safetensors.torch.save(tensors, {"puridiver": note})
    with file_lock(folder / LOCK, WAIT_SECONDS, what=f"saving to {folder}"):
        for left in folder.glob(f".{FILE}.*.tmp"):  # by a save that was killed
            left.unlink(missing_ok=True)
        write_atomically(folder / FILE, content)
    return folder


def _parts(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """The header of a safetensors file, which tells what and where its tensors are, and their data."""
    start = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:start]), memoryview(content)[start:]


def _digest(settings: dict[str, Any], header: dict[str, Any], data: memoryview) -> str:
    digest = hashlib.sha256(json.dumps([settings, header], sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def is_of_a_save(name: str) -> bool:
    """Whether a file of a folder is one that saves write."""
    return name == FILE or (name.startswith(f".{FILE}.") and name.endswith(".tmp"))


def load(folder: Path) -> State:
    """Settings and tensors of a save; a `DataError` says what is missing or damaged."""
    path = folder / FILE
    try:
        content = read_regular(path)
        tensors = safetensors.torch.load(content)
    except FileNotFoundError:
        why = f"there is no {FILE}" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{folder} holds no saved state: {why}") from None
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} is damaged: {first_line(error)}") from error
    header, data = _parts(content)
    note = parse_json((header.pop("__metadata__", None) or {}).get("puridiver", "{}"), str(path))
    if check_json(note, {"format": int}, str(path))["format"] != FORMAT:
        raise DataError(f"{folder} was saved in format {note['format']}, but this version reads format {FORMAT}")
    check_json(note, {"sha256": str, "settings": {}}, str(path))
    if note["sha256"] != _digest(note["settings"], header, data):
        raise DataError(f"{path} is damaged: its checksum does not match")
    return note["settings"], tensors
