"""A running average of a network's weights: steadier than the network itself while it learns from a stream."""

from __future__ import annotations

import torch
from torch import nn


class Average:
    """The exponential average of a network's weights and BatchNorm statistics over its last steps.

    Its tensors keep their addresses, so that captured steps may refer to them.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        named = [*network.named_parameters(), *network.named_buffers()]
        self._live = {name: value.detach() for name, value in named if value.is_floating_point()}
        self.held = {name: value.clone() for name, value in self._live.items()}

    def follow(self) -> None:
        """Move a little towards the network; after every step of it."""
        torch._foreach_lerp_(list(self.held.values()), list(self._live.values()), 1 - self.decay)

    def restart(self) -> None:
        """Forget what was: be the network as it is."""
        torch._foreach_copy_(list(self.held.values()), list(self._live.values()))

    def take_over(self) -> None:
        """Make the network what its average is."""
        torch._foreach_copy_(list(self._live.values()), list(self.held.values()))

    def inherit(self, older: Average) -> None:
        """Go on from the average of the same network before it grew: rows of new classes are the network's."""
        for name, value in older.held.items():
            self.held[name][: len(value)] = value
