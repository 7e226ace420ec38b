"""Saving and loading a learner: what its state is, where it may be saved, and what loading checks."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from puridiver import plugins
from puridiver.errors import DataError, few, first_line
from puridiver.files import check_json
from puridiver.learner import storage
from puridiver.learner.consolidation import Consolidation
from puridiver.learner.storage import FILE, State, Tensors
from puridiver.learner.verdicts import Neighbours
from puridiver.nets import Backbone, as_backbone
from puridiver.options import Options
from puridiver.runtime.device import choose_runtime
from puridiver.trainers import NoiseHint

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

IN_RUN = "learner"  # where the folder of a run has the learner
# What a save holds. The fields of `GIVEN` are arguments of `Learner` as they are.
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


def save(learner: Learner, folder: Path) -> Path:
    """What `Learner.save` does."""
    check_place(folder)
    with learner.save_lock:  # so that an older state never replaces a newer one
        frozen = learner.lock.run(lambda: storage.freeze(*learner.state()))
        weights = [value for name, value in frozen[1].items() if name.startswith("trainer.network")]
        if not all(bool(value.isfinite().all()) for value in weights):
            logger.warning("the learner saved to %s has diverged: its weights are not finite", folder)
        return storage.write(folder, frozen)  # the disk takes its time: others need not wait for it


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


def load(
    kind: type[Learner], folder: Path, device: str, grow: bool | None, memory: int | None, network: Any
) -> Learner:
    """What `Learner.load` does; `kind` is the class to make."""
    settings, tensors = _read(folder, grow)
    backbone = _backbone(settings, network, folder)
    choose_runtime(device)  # a device that is not there is no fault of the save
    try:
        learner = made_again(kind, settings, tensors, device, backbone)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, OverflowError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else first_line(error)
        raise DataError(f"{folder} does not hold a whole learner of this version: {why}") from error
    if memory is not None:
        learner.resize(memory)
    return learner


def _read(folder: Path, grow: bool | None) -> State:
    """The state that was saved in a folder, or that a run left there; `grow` replaces the saved setting."""
    in_run = (folder / IN_RUN / FILE).exists() and not (folder / FILE).exists()
    place = folder / IN_RUN if in_run else folder
    settings, tensors = storage.load(place)
    check_json(settings, LEARNER_FIELDS, str(place / FILE))
    then = settings["plugins"]
    now = plugins.codes(*((key.partition(" ")[0], key.partition(" ")[2]) for key in then))
    if edited := [key for key, code in then.items() if now.get(key, code) != code]:
        found = " and ".join(edited)
        logger.warning("%s was saved with another version of %s: it may predict and learn otherwise", folder, found)
    if grow is not None:
        settings["grow"] = bool(grow)
    return settings, tensors


def _backbone(settings: Mapping[str, Any], network: Any, folder: Path) -> Backbone | None:
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


def made_again(
    kind: type[Learner], settings: dict[str, Any], tensors: dict[str, Tensor], device: str, backbone: Backbone | None
) -> Learner:
    """The learner of a state."""
    hint, given = settings["hint"], {name: settings[name] for name in GIVEN}
    if device == "cpu" or not torch.cuda.is_available():
        given["precision"] = "float32"  # whatever it was on a GPU
    if backbone is not None:
        given["network"] = backbone
    learner = kind(
        **given,
        classes=settings["classes"] or None,
        input_shape=tuple(settings["input_shape"]),
        device=device,
        recipe=Options(**settings["options"]),
        hint=NoiseHint(**hint) if hint else None,
    )
    learner.grow = settings["grow"]
    learner.load_state(settings, tensors)
    return learner


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
    parts["noise"] = learner.noise.state()
    if learner.classes:
        parts |= {"trainer": learner.trainer.state(), "predictor": learner.predictor.state()}
    return settings, {f"{part}.{name}": value for part, found in parts.items() for name, value in found.items()}


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
    learner.neighbours = Neighbours()
    learner.edits.load_state(settings["pending"], parts["pending"])
    if learner.classes:
        learner.trainer.load_state(parts["trainer"])
        learner.predictor.load_state(parts["predictor"])
    for name, generator in learner.generators.items():
        generator.set_state(parts["generator"][name])
