"""Layers of the package's networks: BatchNorm fused with what follows it, convolution with BatchNorm, and the head."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import threading
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.errors import first_line
from puridiver.options import Options

logger = logging.getLogger(__name__)

# What may follow the norm: nothing, ReLU, ReLU and then the addition of a residual, or the addition and then ReLU.
FOLLOWERS = ("none", "relu", "relu_add", "add_relu")

# Initial weights ---------------------------------------------------------------------------------------------------

_global_generator = threading.RLock()


@contextlib.contextmanager
def global_draws(seed: int | None = None) -> Iterator[None]:
    """Seed torch's global CPU generator inside the context and restore it afterwards.

    Constructors of torch's layers draw from this generator. Lanes are threads of one process, so one thread at a time
    may enter.
    """
    with _global_generator, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed the GPUs' generators
        yield


@torch.no_grad()
def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of convolutions and linear layers from one CPU generator, so that every device gets the same."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            fan_out = part.out_channels * part.kernel_size[0] * part.kernel_size[1]
            part.weight.copy_(torch.randn(part.weight.shape, generator=generator) * math.sqrt(2 / fan_out))
        elif isinstance(part, nn.Linear):
            for values in (part.weight, part.bias):
                if values is not None:
                    uniform = torch.rand(values.shape, generator=generator) * 2 - 1
                    values.copy_(uniform * (1 / math.sqrt(part.in_features)))


def initialise_afresh(module: nn.Module, generator: torch.Generator) -> None:
    """Reset weights and BatchNorm statistics in place to those of a new module."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.reset_parameters()
    initialise(module, generator)


# Layers ------------------------------------------------------------------------------------------------------------


class Norm(nn.BatchNorm2d):
    """BatchNorm2d with the ReLU and the addition that follow: fused kernels on a GPU, torch's functions elsewhere.

    It does not count batches: torch's forward does, with a kernel each time.
    """

    momentum: float

    def forward(self, x: Tensor, then: str = "none", residual: Tensor | None = None) -> Tensor:
        if not x.is_cuda or not fused_norm_works(x.device):
            y = F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
            )
            return follow(y, then, residual)
        from puridiver.nets._fused_norm import MODES, FusedNorm

        with torch.cuda.device(x.device):  # Triton launches on the current device
            return FusedNorm.apply(
                x, residual, self.weight, self.bias, self.running_mean, self.running_var, self.training,
                self.momentum, self.eps, MODES[then],
            )  # fmt: skip


def follow(y: Tensor, then: str, residual: Tensor | None) -> Tensor:
    """Apply ReLU and addition as separate operations."""
    if then in ("relu", "relu_add"):
        y = F.relu(y)
    if residual is not None:
        y = y + residual
    return F.relu(y) if then == "add_relu" else y


@functools.cache
def fused_norm_works(device: torch.device) -> bool:
    """Try once whether the fused kernels compile and run here; they need Triton and a C compiler."""
    try:
        from puridiver.nets._fused_norm import FusedNorm

        x = torch.ones(4, 16, 2, 2, device=device, requires_grad=True)
        ones = torch.ones(16, device=device)
        with torch.enable_grad():
            FusedNorm.apply(x, None, ones, ones, ones.clone(), ones.clone(), True, 0.1, 1e-5, 1).sum().backward()
    except Exception as error:  # a missing or unsuitable compiler raises errors of many types
        logger.warning("BatchNorm runs unfused, about a third slower: %s", first_line(error))
        return False
    return True


class ConvNorm(nn.Module):
    """A convolution, its BatchNorm, and what follows: `then` is one of FOLLOWERS.

    On a CPU, in float32, in eval mode and without gradients, BatchNorm is folded into the convolution's weights. That
    saves a pass over every activation at each inference.
    """

    def __init__(
        self, width_in: int, width: int, kernel: int, stride: int, settings: Options, then: str = "none"
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width_in, width, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = Norm(width, eps=settings.batchnorm_epsilon)
        self.then = then

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        foldable = x.device.type == "cpu" and x.dtype == torch.float32
        if self.training or torch.is_grad_enabled() or not foldable:
            return self.norm(self.conv(x), self.then, residual)
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        weight, bias = self.conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
        return follow(F.conv2d(x, weight, bias, self.conv.stride, self.conv.padding), self.then, residual)


class Head(nn.Module):
    """The classifier: a linear layer, or one without bias and BatchNorm on the logits."""

    def __init__(self, width: int, n_classes: int, settings: Options) -> None:
        super().__init__()
        self.epsilon = settings.batchnorm_epsilon
        self.linear = nn.Linear(width, n_classes, bias=settings.head == "linear")
        self.norm: nn.Module = nn.Identity()
        if settings.head == "linear_batchnorm":
            self.norm = nn.BatchNorm1d(n_classes, eps=self.epsilon)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(self.linear(features))

    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        """Add classes and keep all that was learnt for the old ones."""
        old = {name: value.clone() for name, value in self.state_dict().items()}
        with global_draws():
            self.linear = nn.Linear(self.linear.in_features, n_classes, bias=self.linear.bias is not None)
        if isinstance(self.norm, nn.BatchNorm1d):
            self.norm = nn.BatchNorm1d(n_classes, eps=self.epsilon)
        self.train(self.training)
        initialise(self, generator)
        new = self.state_dict()
        for name, value in old.items():
            if value.ndim:
                new[name][: len(value)] = value.to(new[name].device)
            else:  # num_batches_tracked has no class axis
                new[name].copy_(value)
