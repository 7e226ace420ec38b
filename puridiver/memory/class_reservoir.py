"""CRSV: a reservoir for each class. What the paper's released program runs under the name of GBS."""

from __future__ import annotations

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples, drop_one_of_largest, rows_by_class


class ClassReservoir(Sampler):
    """Takes a sample with the share of its class that is held, and drops one of the largest class for it.

    GDumb's sampler (`GreedyBalanced`) keeps what came first of each class; this one every part of the stream alike.
    """

    name = "crsv"
    title = "CRSV"
    summary = "a reservoir for each class, kept level; the paper's released program runs it as GBS"

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        labels = moment.runtime.read(pool.labels).tolist()
        rows_of = rows_by_class(labels[:n_old])
        seen_of = {label: max(moment.seen_of.get(label, 0), len(rows)) for label, rows in rows_of.items()}
        for row in range(n_old, len(pool)):
            label = labels[row]
            own = rows_of.setdefault(label, [])
            seen_of[label] = seen_of.get(label, moment.seen_of.get(label, 0)) + 1
            if sum(map(len, rows_of.values())) < capacity:
                own.append(row)
            elif float(torch.rand((), generator=moment.generator)) < (len(own) + 1) / seen_of[label]:
                own.append(row)
                drop_one_of_largest(rows_of, moment.generator, newest=label)
        return torch.tensor(sorted(row for rows in rows_of.values() for row in rows), dtype=torch.int64)
