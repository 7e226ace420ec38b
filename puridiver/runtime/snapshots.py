"""Copies of a network's weights that others may look through: as they once were, or averaged over its last steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Copy:
    """A network's weights and BatchNorm statistics at some moment.

    Its tensors keep their addresses, so that captured steps may refer to them.
    """

    def __init__(self, network: nn.Module) -> None:
        named = [*network.named_parameters(), *network.named_buffers()]
        self._live = {name: value.detach() for name, value in named if value.is_floating_point()}
        self.held: dict[str, Tensor] = {name: value.clone() for name, value in self._live.items()}

    def restart(self) -> None:
        """Forget what was: be the network as it is."""
        torch._foreach_copy_(list(self.held.values()), list(self._live.values()))


class Average(Copy):
    """The exponential average of a network's weights and statistics over its last steps.

    Steadier than the network itself while it learns from a stream.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__(network)
        self.decay = decay

    def follow(self) -> None:
        """Move a little towards the network; after every step of it."""
        torch._foreach_lerp_(list(self.held.values()), list(self._live.values()), 1 - self.decay)

    def take_over(self) -> None:
        """Make the network what its average is."""
        torch._foreach_copy_(list(self._live.values()), list(self.held.values()))

    def inherit(self, older: Average) -> None:
        """Go on from the average of the same network before it grew: rows of new classes are the network's."""
        for name, value in older.held.items():
            rows = slice(len(value)) if value.ndim else ...  # a network from outside may have scalars
            self.held[name][rows] = value
