"""Robust trainers: one file each, all with the two moves of `Trainer`."""

from puridiver.trainers.answering import FEWEST_EPOCHS
from puridiver.trainers.base import Trainer
from puridiver.trainers.context import NoiseHint, TrainerContext, as_hint
from puridiver.trainers.coteaching import CoTeaching
from puridiver.trainers.dividemix import DivideMix
from puridiver.trainers.elr import EarlyLearning
from puridiver.trainers.gce import GeneralisedCrossEntropy
from puridiver.trainers.own_loss import LossTrainer
from puridiver.trainers.plain import Plain
from puridiver.trainers.puridiver import PuriDivERTrainer
from puridiver.trainers.sce import SymmetricCrossEntropy
from puridiver.trainers.schedule import lows
from puridiver.trainers.selfie import Selfie
from puridiver.trainers.split import SET_NAMES, Sets, Split, split_memory
from puridiver.trainers.spr import SelfReplay

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

TRAINERS: dict[str, type[Trainer]] = {
    trainer.name: trainer
    for trainer in (
        Plain, Selfie, CoTeaching, DivideMix, PuriDivERTrainer, SelfReplay,
        GeneralisedCrossEntropy, SymmetricCrossEntropy, EarlyLearning,
    )
}  # fmt: skip
