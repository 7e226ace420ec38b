"""Which rows of the memory each step of an epoch takes: plain batches, and those of C, R and U (rows 9, 24 and 29)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from puridiver.trainers.split import CLEAN, RELABEL, UNLABELLED

FEWEST_ROWS = 2  # of a training pass: BatchNorm has no statistics of a single row


@dataclass(frozen=True)
class EpochPlan:
    """The memory rows of each step in a part of an epoch: (steps, rows), sorted C, R, U.

    The first `n_clean` columns are clean in every step; the last `n_tail` hold the unlabelled ones.
    """

    rows: Tensor
    n_clean: int
    n_tail: int


def in_batches(order: Tensor, size: int, with_rest: bool = False, fewest: int = FEWEST_ROWS) -> list[Tensor]:
    """Split rows into parts of batches of equal size, each part (steps, size): the whole batches come first.

    Fewer rows than `size` are one batch. Rows that fill no batch are left out, or with `with_rest` are a smaller batch
    and a part of its own (row 24), unless they are fewer than `fewest`.
    """
    size = min(size, len(order))
    n_whole = len(order) // size * size
    parts = [order[:n_whole].view(-1, size)]
    rest = order[n_whole:]
    if with_rest and len(rest) >= fewest:
        parts.append(rest[None])
    return parts


def rounded_up(n: int) -> int:
    """The next even number, from 12 on the next multiple of 4; at least 2. Fewer shapes, fewer captures."""
    multiple = 2 if n <= 12 else 4
    return max(2, -(-n // multiple) * multiple)


def proportional_plans(
    codes: Tensor, size: int, generator: torch.Generator, with_rest: bool = False
) -> list[EpochPlan]:
    """Batches of `size` in which C, R and U have their share of the memory, each to within one sample.

    `codes` (on the host) tells the set of each memory row. With `with_rest` a second plan has what fills no batch.
    """
    everything = torch.cat(_shuffled_sets(codes, generator))
    # What fills no batch is drawn from all, not always from the end.
    order = torch.randperm(len(everything), generator=generator)
    return [_spread(everything, part, codes) for part in in_batches(order, size, with_rest)]


def _spread(everything: Tensor, part: Tensor, codes: Tensor) -> EpochPlan:
    """Spread each set over the steps: of the rows, sorted C, R, U, those at the places in `part`, (steps, size)."""
    steps, size = part.shape
    rows = everything[part.flatten().sort().values].view(size, steps).T.contiguous()  # sorted C, R, U in each batch
    n_clean, n_tail = (codes[rows] == CLEAN).sum(dim=1).min(), (codes[rows] == UNLABELLED).sum(dim=1).max()
    return EpochPlan(rows, int(n_clean), int(n_tail))


def clean_full_plans(
    codes: Tensor, size: int, generator: torch.Generator, with_rest: bool = False, by_share: bool = False
) -> list[EpochPlan]:
    """`size` clean samples a step; R and U batches so large that an epoch passes each once (at least 2).

    Their sizes are rounded up to even numbers, and above 12 to multiples of 4, so that few shapes need to be captured.
    With `by_share` they are each set's share of C, rounded down, as released (row 29): an epoch may leave some of R and
    U out, their losses weigh less, and more shapes are captured. With `with_rest` a second plan has one step more: the
    clean samples that fill no batch, even a single one if others join it, and R and U as in the steps before.
    """
    clean, *others = _shuffled_sets(codes, generator)
    parts = in_batches(clean, size, with_rest, fewest=1 if any(map(len, others)) else FEWEST_ROWS)
    steps = [len(part) for part in parts]
    columns = [parts]
    for rows in others:
        n = max(2, len(rows) * size // len(clean)) if by_share else rounded_up(-(-len(rows) // sum(steps)))
        columns.append(list(_cycled(rows, sum(steps), n).split(steps)))
    return [
        EpochPlan(torch.cat(sets, dim=1), sets[0].shape[1], sets[2].shape[1]) for sets in zip(*columns, strict=True)
    ]


def _shuffled_sets(codes: Tensor, generator: torch.Generator) -> list[Tensor]:
    """The rows of C, R and U, each in random order."""
    sets = [(codes == code).nonzero().squeeze(1) for code in (CLEAN, RELABEL, UNLABELLED)]
    return [rows[torch.randperm(len(rows), generator=generator)] for rows in sets]


def _cycled(rows: Tensor, steps: int, size: int) -> Tensor:
    """Batches of `size` rows, or of all if there are fewer, (steps, size); after the last row they begin again."""
    size = min(len(rows), size)
    cycles = -(-steps * size // max(1, len(rows)))
    return rows.repeat(cycles)[: steps * size].view(steps, size)
