"""The state of a learner: as it is saved (settings, which are JSON, and tensors by part), and as `status` tells it.

Reading a save checks all of it.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from puridiver import plugins
from puridiver.errors import DataError, few
from puridiver.learner import storage
from puridiver.learner.consolidation import Consolidation
from puridiver.learner.inputs import as_whole
from puridiver.learner.storage import Tensors
from puridiver.memory import Samples
from puridiver.options import Options
from puridiver.trainers import SET_NAMES, NoiseHint

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

IN_RUN = "learner"  # where the folder of a run has the learner
# What a learner is saved with. Those of `GIVEN` are arguments that make it again, as they are.
GIVEN = {
    "memory": int, "sampler": str, "trainer": str, "network": str, "seed": int, "grow": bool, "precision": str,
    "graphs": bool,
}  # fmt: skip
FIELDS: dict[str, Any] = GIVEN | {
    "classes": list, "image_shape": list, "hint": dict | None, "options": dict, "plugins": dict, "seen": int,
    "seen_of": list, "consolidations": int, "consolidation": dict | None, "ids": list,
}  # fmt: skip
SAMPLE_TYPES = {
    "images": torch.uint8, "labels": torch.int64, "arrivals": torch.int64, "notes": torch.float32,
    "came_with": torch.int64,
}  # fmt: skip


# Saving ------------------------------------------------------------------------------------------------------------


def settings_of(learner: Learner) -> dict[str, Any]:
    """What the learner is and how far it has come, as JSON."""
    names = {"sampler": learner.sampler.name, "trainer": learner.trainer_name, "network": learner.network}
    begun = learner.begun
    return {
        "classes": learner.classes,
        "image_shape": list(learner.image_shape),
        "memory": learner.capacity,
        **names,
        "seed": learner.seed,
        "grow": learner.grow,
        "precision": learner.runtime.precision,
        "graphs": learner.runtime.graphs,
        "hint": asdict(learner.hint) if learner.hint else None,
        "options": {**learner.options.changed(), **learner.options.of(learner.methods)},
        "plugins": plugins.codes(*names.items()),
        "seen": learner.seen,
        "seen_of": [learner.seen_of[number] for number in range(len(learner.classes))],
        "consolidations": learner.consolidations,
        "consolidation": begun and {"epochs_done": begun.epochs_done, "epochs": begun.epochs},
        "ids": list(learner.held_ids().items()),  # as pairs: JSON's objects have no numbers as keys
    }


def tensors_of(learner: Learner) -> dict[str, Tensor]:
    """Every tensor that the learner's future depends on, under names such as "trainer.network0.head.linear.weight"."""
    parts = {"generator": {name: generator.get_state() for name, generator in learner.generators.items()}}
    if learner.classes:
        parts |= {"trainer": learner.trainer.state(), "predictor": learner.predictor.state()}
    held = {"memory": learner.memory.samples, "waiting": learner.memory.waiting}
    held |= {f"replay.{number}": part for number, part in enumerate(learner.memory.replay_stock)}
    parts |= {part: vars(samples) for part, samples in held.items()}
    return {f"{part}.{name}": value for part, tensors in parts.items() for name, value in tensors.items()}


def frozen(learner: Learner, folder: Path) -> storage.Frozen:
    """A learner's state, ready to be written to a folder that may hold it."""
    check_place(folder)
    tensors = tensors_of(learner)
    weights = [value for name, value in tensors.items() if name.startswith("trainer.network")]
    if not all(bool(value.isfinite().all()) for value in weights):
        logger.warning("the learner saved to %s has diverged: its weights are not finite; keep an older save", folder)
    return storage.freeze(settings_of(learner), tensors)


def check_place(folder: Path) -> None:
    """A learner has a folder of its own: a new one, an empty one, or one with an older save."""
    if folder.is_file():
        raise DataError(f"{folder} is a file: a learner is saved to a folder, so name another")
    if not folder.is_dir() or (folder / storage.INDEX).exists():
        return
    if (folder / IN_RUN / storage.INDEX).exists():
        raise DataError(
            f"{folder} is the folder of a run, whose learner is one of its results: save to a folder of its own, such "
            f"as {folder.name}-later"
        )
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if others := [name for name in names if not storage.is_of_a_save(name)]:
        raise DataError(
            f"{folder} has other files and no learner ({few(others, 3)}): name a new folder, or one that a learner was "
            "saved to"
        )


# Loading -----------------------------------------------------------------------------------------------------------


def read(folder: Path, grow: bool | None, memory: int | None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and tensors of the learner that was saved in a folder, or that a run left in its own.

    `grow` and `memory` replace what it was saved with; nobody can tell which samples a smaller memory should lose.
    """
    in_run = (folder / IN_RUN / storage.INDEX).exists() and not (folder / storage.INDEX).exists()
    place = folder / IN_RUN if in_run else folder
    settings, tensors = storage.load(place)
    for name, kind in FIELDS.items():
        if not isinstance(settings.get(name, ...), kind):
            came = type(settings[name]).__name__ if name in settings else "nothing"
            words = getattr(kind, "__name__", str(kind))
            raise DataError(f"{place / storage.INDEX} holds no learner: its {name!r} should be {words}, but is {came}")
    counts = [settings["seen"], settings["consolidations"], *settings["seen_of"]]
    if not all(type(count) is int and 0 <= count < 2**62 for count in counts):
        raise DataError(f"{place / storage.INDEX} holds no learner: its counts should be whole numbers from 0")
    then = settings["plugins"]
    now = plugins.codes(*((key.partition(" ")[0], key.partition(" ")[2]) for key in then))
    if edited := [key for key, code in then.items() if now.get(key, code) != code]:
        found = " and ".join(edited)
        logger.warning("%s was saved with another version of %s: it may predict and learn otherwise", folder, found)
    if memory is not None:
        settings["memory"] = as_whole(memory, "memory", settings["memory"], " samples, as it was saved with")
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
        "image_shape": tuple(settings["image_shape"]),
        "device": device,
        "recipe": Options(**settings["options"]),
        "hint": NoiseHint(**hint) if hint else None,
    }


def restore(learner: Learner, settings: Mapping[str, Any], tensors: Tensors) -> None:
    """Put a learner that was made with these settings into a saved state; a ValueError names what does not fit."""
    groups, begun = _grouped(tensors), settings["consolidation"]
    learner.seen, learner.seen_of = settings["seen"], Counter(dict(enumerate(settings["seen_of"])))
    learner.consolidating.count = settings["consolidations"]
    learner.consolidating.begun = Consolidation(**begun) if begun else None
    learner.memory.load_state(*(as_samples(groups[part], part, learner) for part in ("memory", "waiting")))
    learner.source_ids = dict(settings["ids"])
    if learner.classes:
        kept = groups.get("predictor", {})
        _check_weights(learner.trainer.state(), groups["trainer"], kept)
        learner.trainer.load_state(groups["trainer"])
        learner.predictor.load_state(kept)
    stock = _grouped(groups.get("replay", {}))
    learner.memory.replay_stock = [as_samples(stock[k], f"replay.{k}", learner) for k in sorted(stock, key=int)]
    for name, generator in learner.generators.items():
        generator.set_state(groups["generator"][name])


def _grouped(tensors: Tensors) -> dict[str, dict[str, Tensor]]:
    """Tensors named "trainer.weights" and the like, by part."""
    groups: dict[str, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        groups.setdefault(part, {})[rest] = value
    return groups


def _check_weights(expected: Tensors, trainer: Tensors, predictor: Tensors) -> None:
    """Compare types with those of the trainer's state, and shapes of snapshots, which may know fewer classes.

    Snapshots and the optimiser's state have names such as "kept0.x" for "network0.x".
    """
    for part, tensors in (("trainer", trainer), ("predictor", predictor)):
        for name, value in tensors.items():
            like = expected.get(name, expected.get(re.sub(r"^[a-z_]+(?=\d+\.)", "network", name)))
            if like is not None and value.dtype != like.dtype:
                raise ValueError(f"{part}.{name} should be {like.dtype}, but is {value.dtype}")
            if like is None or part != "predictor":
                continue
            shape = tuple(like.shape)
            if ".head." in name and shape:  # of as many classes as the snapshot's last layer
                shape = (len(tensors[re.sub(r"(?<=\.head\.).*", "linear.weight", name)]), *shape[1:])
            if value.shape != shape or (shape and not 0 < len(value) <= len(like)):
                raise ValueError(f"{part}.{name} should be {shape}, but is {tuple(value.shape)}")


def as_samples(tensors: Tensors, where: str, learner: Learner) -> Samples:
    """Saved samples on the learner's device; a ValueError names a field that does not fit the learner."""
    height, width, channels = learner.image_shape
    n = len(tensors["labels"]) if "labels" in tensors and tensors["labels"].ndim else 0
    for name, dtype in SAMPLE_TYPES.items():
        shape = (n, channels, height, width) if name == "images" else (n,)
        found = tensors.get(name)
        if found is None or found.dtype != dtype or tuple(found.shape) != shape:
            came = "nothing" if found is None else f"{found.dtype} {tuple(found.shape)}"
            raise ValueError(f"{where}.{name} should be {dtype} {shape}, but is {came}")
    n_classes = len(learner.classes)
    for name, least, end in (("labels", 0, n_classes), ("came_with", -1, n_classes), ("arrivals", 0, learner.seen)):
        if n and not (int(tensors[name].min()) >= least and int(tensors[name].max()) < end):
            low, high = int(tensors[name].min()), int(tensors[name].max())
            raise ValueError(f"{where}.{name} should be from {least} to {end - 1}, but is from {low} to {high}")
    return Samples(**{name: learner.runtime.move(tensors[name]) for name in SAMPLE_TYPES})


# Status ------------------------------------------------------------------------------------------------------------


def status_of(learner: Learner) -> dict[str, Any]:
    """What `Learner.status` tells. No lock is taken: while a batch is learnt it may tell only a part of it."""
    held, checked = learner.memory.counts()  # before the classes: a class is there before its first sample
    classes: list[dict[str, Any]] = [
        {"label": label, "seen": learner.seen_of[k], "held": held[k], "checked": checked[k]}
        for k, label in enumerate(learner.classes)
    ]
    sets, going = learner.trainer.sets if learner.classes else None, learner.consolidating
    begun, waiting = going.begun, len(learner.memory.waiting)
    return {
        "samples_seen": learner.seen,
        "classes_seen": sum(known["seen"] > 0 for known in classes),
        "classes": classes,
        "memory": {
            "held": held.total(), "waiting": waiting, "checked": checked.total(), "capacity": learner.capacity
        },
        "consolidations": going.count,
        "consolidation": begun and {"running": going.running, **asdict(begun)},
        "last_consolidation": going.last,
        "sets": None if sets is None else dict(zip(SET_NAMES, sets.sizes(), strict=True)),
        "diverged": learner.has_said_nan,
        "observed_at": learner.observed_at,
        "saved_at": learner.saved_at,
    }  # fmt: skip
