"""The episodic memory and the samplers that choose what it keeps: one file a sampler."""

from puridiver.memory.base import Moment, NetworkView, Sampler
from puridiver.memory.class_reservoir import ClassReservoir
from puridiver.memory.greedy_balanced import GreedyBalanced
from puridiver.memory.keeper import Keeper
from puridiver.memory.memory import Memory
from puridiver.memory.ntd import NTDSampler
from puridiver.memory.puridiver import PuriDivERSampler
from puridiver.memory.rainbow import RainbowMemory
from puridiver.memory.reservoir import Reservoir
from puridiver.memory.spr import SelfCenteredFilter

__all__ = ["SAMPLERS", "Keeper", "Memory", "Moment", "NetworkView", "Sampler"]

SAMPLERS: dict[str, type[Sampler]] = {
    sampler.name: sampler
    for sampler in (
        Reservoir,
        GreedyBalanced,
        ClassReservoir,
        RainbowMemory,
        PuriDivERSampler,
        NTDSampler,
        SelfCenteredFilter,
    )
}
