"""Nesterov SGD on a CPU, in few calls: torch's own imports torch's compiler, which takes a second."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor


class SGD:
    """Takes the steps of `torch.optim.SGD(nesterov=momentum > 0)`; a step overwrites the gradients.

    Each group has "params" and "lr", a tensor that may change between steps.
    """

    def __init__(self, groups: Iterable[Mapping[str, Any]], momentum: float, weight_decay: float) -> None:
        self.groups = [(list(group["params"]), group["lr"]) for group in groups]
        self.momentum, self.weight_decay = momentum, weight_decay
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)
        for parameters, _ in self.groups if momentum else []:
            for each in parameters:
                self.state[each]["momentum_buffer"] = torch.zeros_like(each)

    def zero_grad(self) -> None:
        for parameters, _ in self.groups:
            for each in parameters:
                each.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameters, rate in self.groups:
            weights = [each for each in parameters if each.grad is not None]
            if not weights:
                continue
            grads = [each.grad for each in weights]
            sums = [self.state[each]["momentum_buffer"] for each in weights] if self.momentum else []
            if all(each.dtype == torch.float32 for each in weights):  # the kernel leaves shorter floats as they are
                torch._fused_sgd_(  # in the order of memory, which autograd keeps alike for weights and gradients
                    weights, grads, sums, weight_decay=self.weight_decay, momentum=self.momentum, lr=float(rate),
                    dampening=0.0, nesterov=self.momentum > 0, maximize=False, is_first_step=False,
                )  # fmt: skip
                continue
            if self.weight_decay:
                torch._foreach_add_(grads, weights, alpha=self.weight_decay)
            if self.momentum:
                torch._foreach_mul_(sums, self.momentum)
                torch._foreach_add_(sums, grads)
                torch._foreach_add_(grads, sums, alpha=self.momentum)
            torch._foreach_add_(weights, grads, alpha=-float(rate))
