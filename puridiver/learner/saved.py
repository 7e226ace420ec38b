"""What a learner is saved with: its settings, and its tensors by part."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from puridiver import plugins
from puridiver.errors import DataError
from puridiver.learner import divergence, storage
from puridiver.learner.consolidation import Consolidation
from puridiver.learner.inputs import is_whole
from puridiver.learner.replay import Replay
from puridiver.memory import Keeper
from puridiver.options import Options
from puridiver.trainers import NoiseHint, Trainer

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

# What a learner is saved with and made again from as it is.
GIVEN = ("memory", "sampler", "trainer", "network", "seed", "grow", "precision", "graphs")
IN_RUN = "learner"  # where the folder of a run has the learner
GROUPS = ("memory", "delayed", "trainer", "generator", "replay")


def described(learner: Learner) -> str:
    """A learner in a line."""
    return (
        f"<Learner: {len(learner.classes)} classes{', growing' if learner.grow else ''}; images "
        f"{'x'.join(map(str, learner.image_shape))}; sampler {learner.sampler.name}, trainer {learner.trainer_name}, "
        f"network {learner.network} on {learner.runtime.device}; {learner.seen} samples seen, {len(learner.memory)} in "
        f"a memory of {learner.capacity}{f'; {learner.begun}' if learner.begun else ''}>"
    )


def settings_of(learner: Learner) -> dict[str, Any]:
    """What the learner is and how far it has come, as JSON."""
    return {
        "classes": learner.classes,
        "image_shape": list(learner.image_shape),
        "memory": learner.capacity,
        "sampler": learner.sampler.name,
        "trainer": learner.trainer_name,
        "network": learner.network,
        "seed": learner.seed,
        "grow": learner.grow,
        "precision": learner.runtime.precision,
        "graphs": learner.runtime.graphs,
        "hint": {"kind": learner.hint.kind, "rate": learner.hint.rate} if learner.hint else None,
        "options": {**learner.options.changed(), **learner.options.of(learner.methods)},
        "plugins": plugins.codes(
            ("sampler", learner.sampler.name), ("trainer", learner.trainer_name), ("network", learner.network)
        ),
        "seen": learner.seen,
        "seen_of": [learner.seen_of[number] for number in range(len(learner.classes))],
        "consolidations": learner.consolidations,
        "consolidation": dataclasses.asdict(learner.begun) if learner.begun else None,
    }


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and tensors of the learner that was saved in a folder, or that a run left in its own."""
    kept = folder / IN_RUN
    in_run = (kept / storage.INDEX).exists() and not (folder / storage.INDEX).exists()
    settings, tensors = storage.load(kept if in_run else folder)
    _warn_of_edited_plugins(folder, settings)
    return settings, tensors


def _warn_of_edited_plugins(folder: Path, settings: Mapping[str, Any]) -> None:
    then = settings.get("plugins", {})  # older saves do not tell it
    now = plugins.codes(*(tuple(key.split(" ", 1)) for key in then))
    if edited := [key for key, code in then.items() if now.get(key, code) != code]:
        logger.warning(
            "%s was saved with another state of %s: what it answers and learns may be another", folder,
            " and ".join(edited),
        )  # fmt: skip


def arguments(settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    """What a learner with these settings is made from."""
    hint, given = settings["hint"], {name: settings[name] for name in GIVEN}
    if device == "cpu" or not torch.cuda.is_available():
        given["precision"] = "float32"  # whatever it was on a GPU
    return {
        **given,
        "classes": settings["classes"] or None,
        "image_shape": tuple(settings["image_shape"]),
        "device": device,
        "recipe": Options(**settings["options"]),
        "hint": NoiseHint(**hint) if hint else None,
    }


def consolidation_of(settings: Mapping[str, Any]) -> Consolidation | None:
    """The one that a learner was saved in the middle of."""
    begun = settings.get("consolidation")
    return Consolidation(**begun) if begun else None


def changed(settings: Mapping[str, Any], grow: bool | None, memory: int | None) -> dict[str, Any]:
    """Settings with what is said anew of them. Which samples a smaller memory would lose is for no one to say here."""
    if memory is not None and (not is_whole(memory) or memory < settings["memory"]):
        raise ValueError(
            f"memory should be a whole number, at least the {settings['memory']} samples that the learner was saved "
            f"with, but got {memory!r}"
        )
    said = {"grow": None if grow is None else bool(grow), "memory": None if memory is None else int(memory)}
    return {**settings, **{name: value for name, value in said.items() if value is not None}}


def check_place(folder: Path) -> None:
    """A learner has a folder of its own: a new one, an empty one, or one with an older save."""
    if folder.is_file():
        raise DataError(f"{folder} is a file: a learner is saved to a folder, so name another")
    if (folder / IN_RUN / storage.INDEX).exists() and not (folder / storage.INDEX).exists():
        raise DataError(
            f"{folder} is the folder of a run, whose learner is one of its results: save to a folder of its own, such "
            f"as {folder.name}-later, which `puridiver predict` and `Learner.load` take just so"
        )
    if folder.is_dir() and not (folder / storage.INDEX).exists():
        names = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
        others = sorted(name for name in names if not storage.is_of_a_save(name))
        if others:
            raise DataError(
                f"{folder} has other files and no learner ({', '.join(others[:3])}{', ...' * (len(others) > 3)}): "
                "name a new folder, or one that a learner was saved to"
            )


def frozen(folder: Path, settings: dict[str, Any], tensors: dict[str, Tensor]) -> storage.Frozen:
    """A learner's state, ready to be written to a folder that may hold it."""
    check_place(folder)
    if divergence.is_in(tensors):
        logger.warning(
            "the learner that is saved to %s has diverged: its network's weights are not finite; keep an earlier save",
            folder,
        )
    return storage.freeze(settings, tensors)


class Parts(NamedTuple):
    """What of a learner is saved as tensors."""

    keeper: Keeper
    trainer: Trainer | None
    replay: Replay
    generators: dict[str, torch.Generator]

    def state(self) -> dict[str, Tensor]:
        tensors = self.keeper.state()
        tensors |= {f"generator.{name}": generator.get_state() for name, generator in self.generators.items()}
        if self.trainer is not None:
            tensors |= {f"trainer.{name}": value for name, value in self.trainer.state().items()}
        return tensors | {f"replay.{name}": value for name, value in self.replay.state().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        groups = _grouped(tensors)
        self.keeper.load_state(groups["memory"], groups["delayed"])
        if self.trainer is not None:
            self.trainer.load_state(groups["trainer"])
        self.replay.load_state(groups["replay"])
        for name, generator in self.generators.items():
            generator.set_state(groups["generator"][name])


def _grouped(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Tensors named "trainer.weights" and the like, by part."""
    groups: dict[str, dict[str, Tensor]] = {part: {} for part in GROUPS}
    for name, value in tensors.items():
        part, _, rest = name.partition(".")
        groups[part][rest] = value
    return groups
