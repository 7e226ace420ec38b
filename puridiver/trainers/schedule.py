"""How a consolidation proceeds: its learning rates, as pure functions of the epoch, and the batches of an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

RESTART_FLOOR = 0.01  # warm restarts end at this share of the first rate
FEWEST_ROWS = 2  # of a pass in training: BatchNorm has no statistics of a single one


def cosine(epoch: int, epochs: int, lr: float) -> float:
    """One half-cosine from `lr` towards 0 over all epochs."""
    return 0.5 * lr * (1 + math.cos(math.pi * epoch / epochs))


def warm_restarts(epoch: int, epochs: int, lr: float) -> float:
    """Cosine periods of 1, 2, 4, ... epochs, each from `lr` down to 1 % of it; 255 epochs end at a low."""
    period, start = 1, 0
    while epoch >= start + period:
        start += period
        period *= 2
    low = RESTART_FLOOR * lr
    return low + 0.5 * (lr - low) * (1 + math.cos(math.pi * (epoch - start) / period))


SCHEDULES = {"cosine": cosine, "warm_restarts": warm_restarts}


def ends_low(epochs: int) -> bool:
    """Whether warm restarts of so many epochs end with a whole period, at its low: 1, 3, 7, 15, 31, ..."""
    return epochs & (epochs + 1) == 0


def lows(rate: Callable[[int, int], float], epochs: int) -> list[int]:
    """The numbers of epochs after which a rate (of the epoch and their number) rises again, and the last."""
    return [*(done for done in range(1, epochs) if rate(done, epochs) > rate(done - 1, epochs)), epochs]


def in_batches(order: Tensor, size: int, with_rest: bool = False, fewest: int = FEWEST_ROWS) -> list[Tensor]:
    """The rows in parts of batches of equal size, each part (steps, size): the whole batches come first.

    With fewer rows than `size` they are one batch. What fills no batch is left out, or with `with_rest` is a smaller
    batch and a part of its own (row 24), unless it has fewer than `fewest` rows.
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
