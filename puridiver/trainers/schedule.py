"""Learning rates of a consolidation, as pure functions of the epoch."""

import math
from collections.abc import Callable

RESTART_FLOOR = 0.01  # warm restarts end at this share of the first rate


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


def lows(rate: Callable[[int, int], float], epochs: int) -> list[int]:
    """The numbers of epochs after which a rate (of the epoch and their number) rises again, and the last."""
    return [*(done for done in range(1, epochs) if rate(done, epochs) > rate(done - 1, epochs)), epochs]
