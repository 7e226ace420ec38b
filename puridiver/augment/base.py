"""The base class of policies."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor


class Policy(ABC):
    """A strong augmentation, chosen by its name with the option `strong`. A subclass writes `apply`."""

    name: ClassVar[str]

    @abstractmethod
    def apply(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment each image of a uint8 batch (N, C, H, W), with random numbers from the generator alone."""
