"""The episodic memory and the samplers that choose what it keeps: one file a sampler."""

from puridiver.discovery import members
from puridiver.memory.base import Moment, NetworkView, Sampler
from puridiver.memory.keeper import Keeper
from puridiver.memory.memory import Memory
from puridiver.options import declare_family

__all__ = ["SAMPLERS", "Keeper", "Memory", "Moment", "NetworkView", "Sampler"]

SAMPLERS: dict[str, type[Sampler]] = members(__name__, Sampler)
declare_family("sampler", SAMPLERS)
