"""The episodic memory and the samplers that choose what it keeps: one file a sampler, found by listing the folder."""

from puridiver.discovery import members
from puridiver.memory.base import REPLAY_AHEAD, Memory, Moment, Sampler, Samples
from puridiver.options import declare_family

__all__ = ["REPLAY_AHEAD", "SAMPLERS", "Memory", "Moment", "Sampler", "Samples"]

SAMPLERS: dict[str, type[Sampler]] = members(__name__, Sampler)  # type: ignore[type-abstract]
declare_family("sampler", SAMPLERS)
