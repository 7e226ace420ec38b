"""A network whose training has diverged: all that it says is nan, and it learns nothing any more."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from puridiver.errors import DivergedError

logger = logging.getLogger(__name__)


def check(probabilities: np.ndarray) -> None:
    """The likeliest class of nan would be the first one, whatever the image."""
    if not np.isfinite(probabilities).all():
        raise DivergedError(
            "the network predicts nan: its training has diverged, and it will not recover; load an earlier save, or "
            "make a learner with a lower rate (online_lr, lr)"
        )


def warn_of(probabilities: np.ndarray) -> bool:
    """Whether there was anything to warn of."""
    if np.isfinite(probabilities).all():
        return False
    logger.warning("the network predicts nan: its training has diverged; a lower rate (online_lr, lr) may help")
    return True


def is_in(tensors: Mapping[str, Tensor]) -> bool:
    """Whether a learner's state has weights that are not finite."""
    weights = (value for name, value in tensors.items() if name.startswith("trainer.network"))
    return not all(bool(value.isfinite().all()) for value in weights)
