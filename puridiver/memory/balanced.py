"""Samplers that keep the classes level: GBS (GDumb, Prabhu et al., 2020), and CRSV, the released program's GBS."""

import torch
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples


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


def rows_by_class(labels: list[int]) -> dict[int, list[int]]:
    """The rows of each class, in order."""
    rows_of: dict[int, list[int]] = {}
    for row, label in enumerate(labels):
        rows_of.setdefault(label, []).append(row)
    return rows_of


def drop_one_of_largest(rows_of: dict[int, list[int]], generator: torch.Generator, newest: int | None = None) -> None:
    """Drop any row of the largest class: of that of the newest sample, itself included, if none is larger."""
    most = max(map(len, rows_of.values()))
    largest = [label for label, rows in sorted(rows_of.items()) if len(rows) == most]
    chosen = newest if newest in largest else largest[int(torch.randint(len(largest), (), generator=generator))]
    rows_of[chosen].pop(int(torch.randint(most, (), generator=generator)))
