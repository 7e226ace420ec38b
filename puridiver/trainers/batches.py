"""How the rows of an epoch are put into batches."""

from __future__ import annotations

from torch import Tensor

FEWEST_ROWS = 2  # of a pass in training: BatchNorm has no statistics of a single one


def in_batches(order: Tensor, size: int, with_rest: bool = False, fewest: int = FEWEST_ROWS) -> list[Tensor]:
    """The rows in parts of batches of equal size, each part (steps, size): the whole batches come first.

    With fewer rows than `size` they are one batch. What fills none is left out, or with `with_rest` is a smaller batch
    and a part of its own (row 24), unless it has fewer than `fewest` rows.
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
