"""Saving and loading: any settings and tensors in a folder, and the state of a learner, which loading checks.

A save is one file of tensors with the settings in its header. It is replaced atomically, so a crash at any moment
leaves a whole state, old or new. One writer at a time. No pickle anywhere.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor

from puridiver import plugins
from puridiver.errors import DataError, few, first_line
from puridiver.files import check_json, file_lock, parse_json, read_regular, write_atomically
from puridiver.learner.consolidation import Consolidation
from puridiver.nets import Backbone, as_backbone
from puridiver.options import Options
from puridiver.trainers import NoiseHint

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

FORMAT = 8
FILE, LOCK = "state.safetensors", ".state.lock"
WAIT_SECONDS = 10.0  # for another writer of the same folder
IN_RUN = "learner"  # where the folder of a run has the learner
# What a learner is saved with. Those of `GIVEN` are arguments that make it again, as they are.
GIVEN = {
    "memory": int, "sampler": str, "trainer": str, "network": str, "seed": int, "grow": bool, "precision": str,
    "graphs": bool,
}  # fmt: skip
LEARNER_FIELDS: dict[str, Any] = GIVEN | {
    "input_shape": [int, None], "backbone": ({}, None), "hint": ({}, None), "options": {}, "plugins": {str: str},
    "seen": int,
    "seen_of": [int, None], "consolidations": int, "consolidation": ({"epochs_done": int, "epochs": int}, None),
    "seconds": {"observing": float, "consolidating": float},
    "pending": [{"arrival": int, "label": (int, None), "forget": bool}, None],
}  # fmt: skip

Tensors = Mapping[str, Tensor]
State = tuple[dict[str, Any], dict[str, Tensor]]  # settings, which are JSON, and tensors


# A folder with settings and tensors ----------------------------------------------------------------------------------


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


def check_place(folder: Path) -> None:
    """A learner has a folder of its own: a new one, an empty one, or one with an older save."""
    if folder.is_file():
        raise DataError(f"{folder} is a file: a learner is saved to a folder, so name another")
    if not folder.is_dir() or (folder / FILE).exists():
        return
    if (folder / IN_RUN / FILE).exists():
        raise DataError(
            f"{folder} is the folder of a run, whose learner is one of its results: save to a folder of its own, such "
            f"as {folder.name}-later"
        )
    if others := sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")):
        raise DataError(
            f"{folder} has other files and no learner ({few(others, 3)}): name a new folder, or one that a learner was "
            "saved to"
        )


# The state of a learner ----------------------------------------------------------------------------------------------


def state_of(learner: Learner) -> State:
    """What `save` writes: what the learner is and how far it has come, and every tensor that its future depends on."""
    names = {"sampler": learner.sampler.name, "trainer": learner.trainer_name, "network": learner.network}
    begun, (pending, images) = learner.consolidating.begun, learner.edits.state()
    settings = {
        "classes": learner.classes,
        "input_shape": list(learner.input_shape),
        "memory": learner.capacity,
        **names,
        "seed": learner.seed,
        "grow": learner.grow,
        "precision": learner.runtime.precision,
        "graphs": learner.runtime.graphs,
        "backbone": learner.backbone.settings() if learner.backbone else None,
        "hint": asdict(learner.hint) if learner.hint else None,
        "options": {**learner.options.changed(), **learner.options.of(learner.methods)},
        "plugins": plugins.codes(*names.items()),
        "seen": learner.seen,
        "seen_of": [learner.seen_of[number] for number in range(len(learner.classes))],
        "consolidations": learner.consolidations,
        "consolidation": begun._asdict() if begun else None,
        "seconds": learner.monitor.seconds,
        "ids": list(learner.source_ids.items()),  # as pairs: JSON's objects have no numbers as keys
        "pending": pending,
    }
    parts = {"generator": {name: generator.get_state() for name, generator in learner.generators.items()}}
    parts |= {"memory": learner.memory.state(), "monitor": learner.monitor.state(), "pending": images}
    parts["noise"] = {"counts": learner.noise.counts}
    if learner.classes:
        parts |= {"trainer": learner.trainer.state(), "predictor": learner.predictor.state()}
    return settings, {f"{part}.{name}": value for part, found in parts.items() for name, value in found.items()}


def read_learner(folder: Path, grow: bool | None) -> State:
    """The state of the learner that was saved in a folder, or that a run left in its own; `grow` replaces its own."""
    in_run = (folder / IN_RUN / FILE).exists() and not (folder / FILE).exists()
    place = folder / IN_RUN if in_run else folder
    settings, tensors = load(place)
    check_json(settings, LEARNER_FIELDS, str(place / FILE))
    then = settings["plugins"]
    now = plugins.codes(*((key.partition(" ")[0], key.partition(" ")[2]) for key in then))
    if edited := [key for key, code in then.items() if now.get(key, code) != code]:
        found = " and ".join(edited)
        logger.warning("%s was saved with another version of %s: it may predict and learn otherwise", folder, found)
    if grow is not None:
        settings["grow"] = bool(grow)
    return settings, tensors


def arguments(settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    """What a learner with these settings is made from."""
    hint, given = settings["hint"], {name: settings[name] for name in GIVEN}
    if device == "cpu" or not torch.cuda.is_available():
        given["precision"] = "float32"  # whatever it was on a GPU
    return given | {
        "classes": settings["classes"] or None,
        "input_shape": tuple(settings["input_shape"]),
        "device": device,
        "recipe": Options(**settings["options"]),
        "hint": NoiseHint(**hint) if hint else None,
    }


def given_backbone(settings: Mapping[str, Any], network: Any, folder: object) -> Backbone | None:
    """The backbone of a saved learner: as its user gives it again, or by its name; None for a learner without one."""
    saved = settings["backbone"]
    if saved is None:
        if network is not None:
            raise ValueError(f"the learner in {folder} was made without a backbone: leave network out")
        return None
    numbers = [float, None]
    kinds = {"mean": numbers, "std": numbers, "size": (int, None), "rate": float, "name": str, "digest": str}
    check_json(saved, kinds, str(folder))
    if network is None and not saved["name"]:
        raise DataError(
            f"the learner in {folder} was made with a backbone, which a save does not hold: give the module again, "
            "Learner.load(folder, network=module)"
        )
    found = as_backbone(network if network is not None else saved["name"])
    if found is None:
        raise ValueError(f"network should be a torch.nn.Module, timm:... or hf:..., but got {network!r}")
    found = replace(found, **{name: saved[name] for name in ("mean", "std", "size", "rate", "name")})
    if found.digest != saved["digest"]:
        raise DataError(f"the learner in {folder} was made with a backbone of other weights than the one given")
    return found


def restore(learner: Learner, settings: Mapping[str, Any], tensors: Tensors) -> None:
    """Put a learner that was made with these settings into a saved state; a ValueError names what does not fit."""
    parts: dict[str, dict[str, Tensor]] = {"predictor": {}, "pending": {}}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = value
    begun = settings["consolidation"]
    learner.seen, learner.seen_of = settings["seen"], Counter(dict(enumerate(settings["seen_of"])))
    learner.consolidating.count = settings["consolidations"]
    learner.consolidating.begun = Consolidation(**begun) if begun else None
    learner.memory.load_state(parts["memory"], len(learner.classes), learner.seen)
    learner.source_ids = dict(settings["ids"])
    learner.monitor.seconds = dict(settings["seconds"])
    learner.monitor.load_state(parts["monitor"])
    learner.noise.load_state(parts["noise"], len(learner.classes))
    learner.edits.load_state(settings["pending"], parts["pending"])
    if learner.classes:
        learner.trainer.load_state(parts["trainer"])
        learner.predictor.load_state(parts["predictor"])
    for name, generator in learner.generators.items():
        generator.set_state(parts["generator"][name])
