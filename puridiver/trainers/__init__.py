"""Robust trainers: one file each, found by listing the folder, all with the two moves of `Trainer`."""

from puridiver.discovery import members
from puridiver.options import declare_family
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.hint import NoiseHint
from puridiver.trainers.online import StreamBatch
from puridiver.trainers.plain import LossTrainer
from puridiver.trainers.split import SET_NAMES, Sets, Split, split_memory

__all__ = [
    "SET_NAMES", "TRAINERS", "LossTrainer", "NoiseHint", "Sets", "Split", "StreamBatch", "Trainer", "TrainerContext",
    "split_memory",
]  # fmt: skip

TRAINERS: dict[str, type[Trainer]] = members(__name__, Trainer)
declare_family("trainer", TRAINERS)
