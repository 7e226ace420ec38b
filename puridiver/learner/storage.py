"""Saving tensors and settings to a folder so that a crash at any moment leaves a whole, old or new, state.

Tensors go to `state-<hash>.safetensors`, named by their content. `state.json` names that file, its checksum and the
settings, and is replaced atomically as the last step: it is the commit. One writer at a time. No pickle anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from puridiver.errors import DataError
from puridiver.files import file_lock, write_atomically

FORMAT = 1
INDEX = "state.json"
LOCK = ".state.lock"
WAIT_SECONDS = 10.0  # for another writer of the same folder
# What safetensors calls the types; 8 bytes tell the length of its header.
TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
LENGTH_BYTES = 8


@dataclass(frozen=True)
class Frozen:
    """A state as it was at one moment: nothing in it changes while it is written."""

    settings: dict[str, Any]
    tensors: memoryview  # a whole safetensors file


def save(folder: Path, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """Write settings and tensors; older tensor files of the folder are removed once the new ones are in place."""
    return write(folder, freeze(settings, tensors))


def freeze(settings: dict[str, Any], tensors: dict[str, Tensor]) -> Frozen:
    """A copy of a state in the machine's memory, ready to be written."""
    return Frozen(json.loads(json.dumps(settings)), packed(tensors))


def packed(tensors: dict[str, Tensor]) -> memoryview:
    """Tensors as a safetensors file, each copied once, from its device to its place in it.

    The library's own function copies three times and holds Python's lock meanwhile. Unlike it this one also takes
    tensors that share memory.
    """
    header, starts, end = dict[str, Any](), dict[str, int](), 0
    # Wide types first, so that each tensor lies at a multiple of its own width.
    for name, value in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        starts[name], end = end, end + value.nbytes
        if value.dtype not in TYPES:
            raise ValueError(f"tensor {name} should be of a type that can be saved, but is {value.dtype}")
        header[name] = {"dtype": TYPES[value.dtype], "shape": list(value.shape), "data_offsets": [starts[name], end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)
    prefix = len(text).to_bytes(LENGTH_BYTES, "little") + text
    content = torch.empty(len(prefix) + end, dtype=torch.uint8)
    content[: len(prefix)] = torch.frombuffer(bytearray(prefix), dtype=torch.uint8)
    for name, start in starts.items():
        value, at = tensors[name].detach(), len(prefix) + start
        content[at : at + value.nbytes].view(value.dtype).view(value.shape).copy_(value)
    return content.numpy().data


def is_of_a_save(name: str) -> bool:
    """Whether a file of a folder is one that saves write."""
    return name == INDEX or re.fullmatch(r"state-[0-9a-f]{16}\.safetensors|\.state.*\.tmp", name) is not None


def write(folder: Path, frozen: Frozen) -> Path:
    """Write what was frozen, as `save` does; a `BusyError` where another writer does not come to its end."""
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / LOCK, WAIT_SECONDS, what=f"saving to {folder}"):
        _write_alone(folder, frozen)
    return folder


def _write_alone(folder: Path, frozen: Frozen) -> None:
    before = _file_before(folder)
    digest = hashlib.sha256(frozen.tensors).hexdigest()
    name = f"state-{digest[:16]}.safetensors"
    write_atomically(folder / name, frozen.tensors)
    index = {
        "format": FORMAT, "tensors": name, "sha256": digest, "settings_sha256": _settings_digest(frozen.settings),
        "settings": frozen.settings,
    }  # fmt: skip
    write_atomically(folder / INDEX, json.dumps(index, indent=1).encode())
    if before is not None and before.name != name:
        _remove_up_to(before)
    for torn in folder.glob(".state-*.tmp"):
        if not _is_running(torn):
            torn.unlink(missing_ok=True)  # of a process that was killed amid a save


def _file_before(folder: Path) -> Path | None:
    """The file that the index names as yet, whatever else is wrong with it."""
    try:
        name = Path(json.loads((folder / INDEX).read_text())["tensors"]).name
    except (OSError, ValueError, KeyError, TypeError):  # none, or a damaged one
        return None
    return folder / name if is_of_a_save(name) and (folder / name).is_file() else None


def _remove_up_to(before: Path) -> None:
    """Remove a file of tensors, and older ones, which killed saves have left.

    A newer one may be of a writer that heeds no lock, and is about to be named.
    """
    age = before.stat().st_mtime_ns
    for path in before.parent.glob("state-*.safetensors"):
        with contextlib.suppress(FileNotFoundError):
            if path == before or (is_of_a_save(path.name) and path.stat().st_mtime_ns < age):
                path.unlink()


def _is_running(temporary: Path) -> bool:
    """Whether the process that writes a temporary file may still be there."""
    process = temporary.name.removesuffix(".tmp").rpartition(".")[2].partition("-")[0]
    if os.name != "posix" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and tensors of a save; a `DataError` says what is missing or damaged."""
    from safetensors.torch import load as from_bytes

    index, path, blob = _read_tensors(folder)
    # (What older versions saved has no checksum of its settings.)
    if index.get("settings_sha256") not in (None, _settings_digest(index["settings"])):
        raise DataError(f"{folder / INDEX} is damaged: the checksum of its settings does not match")
    if hashlib.sha256(blob).hexdigest() != index["sha256"]:
        raise DataError(f"{path} is damaged: its checksum does not match")
    return index["settings"], from_bytes(blob)


def _read_tensors(folder: Path) -> tuple[dict[str, Any], Path, bytes]:
    """The index, and the file that it names with its content; again where a newer save has just replaced both."""
    index = _read_index(folder)
    while True:
        path = folder / Path(index["tensors"]).name
        try:
            return index, path, path.read_bytes()
        except FileNotFoundError:
            before, index = index, _read_index(folder)
            if index["tensors"] == before["tensors"]:
                raise DataError(f"{folder} is incomplete: {path.name} is missing") from None
        except OSError as error:  # a bad sector, no permission
            raise DataError(f"{path} cannot be read: {error.strerror}") from error


def _settings_digest(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text())
    except FileNotFoundError:
        why = f"there is no {INDEX}" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{folder} holds no saved state: {why}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # neither JSON nor text
        raise DataError(f"{path} is damaged: {error}") from error
    for name, kind in (("format", int), ("tensors", str), ("sha256", str), ("settings", dict)):
        if not isinstance(index, dict) or not isinstance(index.get(name), kind):
            raise DataError(f"{path} is damaged: it should hold {name!r}, a {kind.__name__}")
    if index["format"] != FORMAT:
        raise DataError(f"{folder} was saved in format {index['format']}, but this version reads format {FORMAT}")
    return index
