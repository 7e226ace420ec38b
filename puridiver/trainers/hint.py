"""What a user may tell a trainer about the noise."""

from dataclasses import dataclass
from numbers import Real


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
