"""Adam, for the trainers that want it instead of SGD."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def adam(parameters: Iterable[Any], rate: Tensor, clip: float | None = None) -> torch.optim.Optimizer:
    """Adam at a rate that is a tensor; `clip` is the largest entry of a gradient."""
    optimiser = torch.optim.Adam(parameters, lr=rate, fused=rate.is_cuda, capturable=rate.is_cuda)
    if clip is not None:
        every = [parameter for group in optimiser.param_groups for parameter in group["params"]]
        optimiser.register_step_pre_hook(lambda *_: torch.nn.utils.clip_grad_value_(every, clip))
    return optimiser
