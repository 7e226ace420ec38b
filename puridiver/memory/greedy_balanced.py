"""GBS: the greedy balancing sampler of GDumb (Prabhu et al., 2020)."""

from __future__ import annotations

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples, drop_one_of_largest, rows_by_class


class GreedyBalanced(Sampler):
    """Takes a sample while its class is below its fair share; a full memory drops one of the largest class."""

    name = "gbs"
    title = "GBS"
    summary = "greedy balancing: equal shares for all classes seen, by given label"

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        labels = moment.runtime.read(pool.labels).tolist()
        rows_of = rows_by_class(labels[:n_old])
        for row in range(n_old, len(pool)):
            own = rows_of.setdefault(labels[row], [])
            if len(own) >= capacity / len(rows_of):
                continue
            if sum(map(len, rows_of.values())) >= capacity:
                if own and len(own) + 1 >= max(map(len, rows_of.values())):
                    continue  # a share that is no whole number: classes would take turns for ever
                drop_one_of_largest(rows_of, moment.generator)
            own.append(row)
        return torch.tensor(sorted(row for rows in rows_of.values() for row in rows), dtype=torch.int64)
