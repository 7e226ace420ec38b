"""The episodic memory: fixed-capacity tensors on the run's device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from puridiver.memory.samples import Samples


class Memory:
    """At most `capacity` samples. A sampler chooses what stays; the memory only holds it."""

    def __init__(self, capacity: int, image_shape: tuple[int, int, int], device: torch.device) -> None:
        height, width, channels = image_shape
        self.capacity = capacity
        self.samples = Samples(
            torch.empty(0, channels, height, width, dtype=torch.uint8, device=device),
            torch.empty(0, dtype=torch.int64, device=device),
            torch.empty(0, dtype=torch.int64, device=device),
            torch.empty(0, dtype=torch.float32, device=device),
        )

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def full(self) -> bool:
        return len(self) == self.capacity

    def replace(self, samples: Samples) -> None:
        if len(samples) > self.capacity:
            raise ValueError(f"the memory holds at most {self.capacity} samples, but got {len(samples)}")
        self.samples = samples

    def relabel(self, labels: Mapping[int, int], checked: bool = True) -> int:
        """Give samples labels, by their arrival, and say if a person has checked those; how many of them are here."""
        old = self.samples
        new = torch.tensor([labels.get(arrival, -1) for arrival in old.arrivals.tolist()], dtype=torch.int64)
        given = new.to(old.labels.device)
        is_given = given >= 0
        self.samples = replace(
            old,
            labels=torch.where(is_given, given, old.labels),
            checked=old.checked | is_given if checked else old.checked & ~is_given,
        )
        return int((new >= 0).sum())

    def clear(self) -> None:
        self.samples = Samples(*(tensor[:0].clone() for tensor in self.samples.tensors().values()))

    def state(self) -> dict[str, Tensor]:
        return self.samples.tensors()

    def load_state(self, state: dict[str, Tensor]) -> None:
        device = self.samples.labels.device
        self.replace(Samples(**{name: value.to(device) for name, value in state.items()}))
