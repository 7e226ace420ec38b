"""What a trainer is made of, and what a user may tell it about the noise."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import torch

from puridiver.options import Options
from puridiver.runtime.device import Runtime


@dataclass(frozen=True)
class NoiseHint:
    """What a user may tell a trainer about the noise: its kind ("sym" or "asym") and its rate. Never needed."""

    kind: str
    rate: float

    def __post_init__(self) -> None:
        if self.kind not in ("none", "sym", "asym") or not isinstance(self.rate, Real) or not 0 <= self.rate < 1:
            raise ValueError(
                f"a hint should be none, sym or asym with a rate in [0, 1), but got {self.kind!r}, {self.rate}"
            )
        object.__setattr__(self, "rate", float(self.rate))  # also a NumPy number, which could not be saved


def as_hint(hint: object) -> NoiseHint | None:
    """What a user gave as a hint, if it is one."""
    if hint is not None and not isinstance(hint, NoiseHint):
        raise ValueError(f"hint should be a NoiseHint, such as NoiseHint('sym', 0.4), or None, but got {hint!r}")
    return hint


@dataclass(frozen=True)
class TrainerContext:
    """Everything a trainer is made of."""

    options: Options
    network: str
    n_classes: int
    image_shape: tuple[int, int, int]
    runtime: Runtime
    generator: torch.Generator  # on the CPU: initial weights, augmentation, order of batches
    hint: NoiseHint | None = None
