"""Saving tensors and settings to a folder so that a crash at any moment leaves a whole state, old or new.

Tensors go to `state-<hash>.safetensors`, named by their content. `state.json` names that file, its checksum and the
settings, and is replaced atomically as the last step: it is the commit. One writer at a time. No pickle anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from puridiver.errors import DataError, first_line
from puridiver.files import file_lock, parse_json, read_regular, write_atomically

FORMAT = 2
INDEX = "state.json"
LOCK = ".state.lock"
WAIT_SECONDS = 10.0  # for another writer of the same folder
# What safetensors calls the types; 8 bytes tell the length of its header.
TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
LENGTH_BYTES = 8

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Frozen:
    """A state as it was at one moment: nothing in it changes while it is written."""

    settings: dict[str, Any]
    tensors: memoryview  # a whole safetensors file


def save(folder: Path, settings: dict[str, Any], tensors: Tensors) -> Path:
    """Write settings and tensors; older tensor files of the folder are removed once the new ones are in place."""
    return write(folder, freeze(settings, tensors))


def freeze(settings: dict[str, Any], tensors: Tensors) -> Frozen:
    """A copy of a state in the machine's memory, ready to be written."""
    return Frozen(json.loads(json.dumps(settings)), packed(tensors))


def packed(tensors: Tensors) -> memoryview:
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


def write(folder: Path, frozen: Frozen) -> Path:
    """Write what was frozen, as `save` does; a `BusyError` where another writer takes too long."""
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / LOCK, WAIT_SECONDS, what=f"saving to {folder}"):
        before = _file_before(folder)
        digest = hashlib.sha256(frozen.tensors).hexdigest()
        name = f"state-{digest[:16]}.safetensors"
        write_atomically(folder / name, frozen.tensors)
        index = {
            "format": FORMAT, "tensors": name, "sha256": digest, "settings_sha256": _digest_of(frozen.settings),
            "settings": frozen.settings,
        }  # fmt: skip
        write_atomically(folder / INDEX, json.dumps(index, indent=1).encode())
        if before is not None and before.name != name:
            _remove_up_to(before)
        for torn in folder.glob(".state-*.tmp"):
            if not _may_be_running(torn):
                torn.unlink(missing_ok=True)  # of a process that was killed amid a save
    return folder


def _digest_of(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def is_of_a_save(name: str) -> bool:
    """Whether a file of a folder is one that saves write."""
    return name == INDEX or re.fullmatch(r"state-[0-9a-f]{16}\.safetensors|\.state.*\.tmp", name) is not None


def _file_before(folder: Path) -> Path | None:
    """The file that the index names as yet, whatever else is wrong with it."""
    try:
        name = Path(json.loads((folder / INDEX).read_text())["tensors"]).name
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # none, or a damaged one
        return None
    return folder / name if is_of_a_save(name) and (folder / name).is_file() else None


def _remove_up_to(before: Path) -> None:
    """Remove a file of tensors, and older ones, which killed saves have left.

    A newer one may belong to a writer that ignores the lock, and is about to be named.
    """
    age = before.stat().st_mtime_ns
    for path in before.parent.glob("state-*.safetensors"):
        with contextlib.suppress(FileNotFoundError):
            if path == before or (is_of_a_save(path.name) and path.stat().st_mtime_ns < age):
                path.unlink()


def _may_be_running(temporary: Path) -> bool:
    """Whether the process that writes a temporary file may still be there."""
    process = temporary.name.removesuffix(".tmp").rpartition(".")[2].partition("-")[0]
    if os.name != "posix" or not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of another user; or no process at all
        return True
    return True


def load(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and tensors of a save; a `DataError` says what is missing or damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    index, path, blob = _read_tensors(folder)
    if index["settings_sha256"] != _digest_of(index["settings"]):
        raise DataError(f"{folder / INDEX} is damaged: the checksum of its settings does not match")
    if hashlib.sha256(blob).hexdigest() != index["sha256"]:
        raise DataError(f"{path} is damaged: its checksum does not match")
    try:
        return index["settings"], from_bytes(blob)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"{path} does not hold tensors: {first_line(error)}") from error


def _read_tensors(folder: Path) -> tuple[dict[str, Any], Path, bytes]:
    """The index, and the file that it names with its content; again if a newer save has just replaced both."""
    index = _read_index(folder)
    while True:
        path = folder / Path(index["tensors"]).name
        try:
            return index, path, read_regular(path)
        except FileNotFoundError:
            before, index = index, _read_index(folder)
            if index["tensors"] == before["tensors"]:
                raise DataError(f"{folder} is incomplete: {path.name} is missing") from None


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = parse_json(read_regular(path), str(path))
    except FileNotFoundError:
        why = f"there is no {INDEX}" if folder.is_dir() else "there is no such folder"
        raise DataError(f"{folder} holds no saved state: {why}") from None
    fields = {"format": int, "tensors": str, "sha256": str, "settings_sha256": str, "settings": dict}
    if isinstance(index, dict) and isinstance(index.get("format"), int) and index["format"] != FORMAT:
        raise DataError(f"{folder} was saved in format {index['format']}, but this version reads format {FORMAT}")
    for name, kind in fields.items():
        if not isinstance(index, dict) or not isinstance(index.get(name), kind):
            raise DataError(f"{path} is damaged: it should hold {name!r}, a {kind.__name__}")
    return index
