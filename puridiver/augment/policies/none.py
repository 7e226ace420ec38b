"""The policy that adds nothing."""

import torch
from torch import Tensor

from puridiver.augment.base import Policy


class NoPolicy(Policy):
    """Nothing beyond crop and flip."""

    name = "none"

    def apply(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return images
