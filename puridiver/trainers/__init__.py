"""Robust trainers: one file each, all with the two moves of `Trainer`."""

from puridiver.discovery import members
from puridiver.options import declare_family
from puridiver.trainers.answering import FEWEST_EPOCHS
from puridiver.trainers.base import Trainer
from puridiver.trainers.context import NoiseHint, TrainerContext, as_hint
from puridiver.trainers.own_loss import LossTrainer
from puridiver.trainers.schedule import lows
from puridiver.trainers.split import SET_NAMES, Sets, Split, split_memory

__all__ = [
    "FEWEST_EPOCHS",
    "SET_NAMES",
    "TRAINERS",
    "LossTrainer",
    "NoiseHint",
    "Sets",
    "Split",
    "Trainer",
    "TrainerContext",
    "as_hint",
    "lows",
    "split_memory",
]

TRAINERS: dict[str, type[Trainer]] = members(__name__, Trainer)
declare_family("trainer", TRAINERS)
