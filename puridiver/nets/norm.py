"""BatchNorm with the ReLU and the residual addition that follow it, as one operation."""

from __future__ import annotations

import functools
import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.errors import first_line

logger = logging.getLogger(__name__)

# What may follow the norm: nothing, ReLU, ReLU and then the addition of a residual, or the addition and then ReLU.
FOLLOWERS = ("none", "relu", "relu_add", "add_relu")


class Norm(nn.BatchNorm2d):
    """BatchNorm2d that goes on with ReLU and addition: one fused operation on a GPU, torch's functions elsewhere.

    It does not count its batches (torch does, with a kernel each time, for a momentum that is not used here).
    """

    num_batches_tracked: None

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__(width, eps=epsilon)
        self.num_batches_tracked = None

    def reset_running_stats(self) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def _load_from_state_dict(self, *args: Any) -> None:
        nn.Module._load_from_state_dict(self, *args)  # BatchNorm's own would ask for the count

    def forward(self, x: Tensor, then: str = "none", residual: Tensor | None = None) -> Tensor:
        if not x.is_cuda or not fused_norm_works(x.device):
            return follow(super().forward(x), then, residual)
        from puridiver.nets.fused_norm import MODES, FusedNorm

        with torch.cuda.device(x.device):  # Triton launches on the current one
            return FusedNorm.apply(
                x, residual, self.weight, self.bias, self.running_mean, self.running_var, self.training,
                self.momentum, self.eps, MODES[then],
            )  # fmt: skip


def follow(y: Tensor, then: str, residual: Tensor | None) -> Tensor:
    """ReLU and addition as separate operations."""
    if then in ("relu", "relu_add"):
        y = F.relu(y)
    if residual is not None:
        y = y + residual
    return F.relu(y) if then == "add_relu" else y


@functools.cache
def fused_norm_works(device: torch.device) -> bool:
    """Whether the fused kernels compile and run here: they need Triton and a C compiler. Tried once."""
    try:
        from puridiver.nets.fused_norm import FusedNorm

        # Not the caller's stream of work: a try must not end up in a capture or wait for other lanes.
        x = torch.ones(4, 16, 2, 2, device=device, requires_grad=True)
        ones = torch.ones(16, device=device)
        with torch.enable_grad():
            FusedNorm.apply(x, None, ones, ones, ones.clone(), ones.clone(), True, 0.1, 1e-5, 1).sum().backward()
    except Exception as error:  # whatever a missing or unfitting compiler raises
        logger.warning("BatchNorm runs unfused, about a third slower: %s", first_line(error))
        return False
    return True
