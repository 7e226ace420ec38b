"""RSV: reservoir sampling (Vitter, 1985; Riemer et al., 2019)."""

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples


class Reservoir(Sampler):
    """Every sample of the stream so far is in the memory with the same probability."""

    name = "rsv"
    title = "RSV"
    summary = "reservoir: every sample so far is equally likely to be in the memory"

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        slots = list(range(n_old))
        for i in range(len(pool) - n_old):
            row, seen = n_old + i, moment.seen_before + i
            if len(slots) < capacity:
                slots.append(row)
                continue
            slot = int(torch.randint(seen + 1, (), generator=moment.generator))
            if slot < capacity:
                slots[slot] = row
        return torch.tensor(slots, dtype=torch.int64)
