"""What the learner needs of a network: features, logits, the classifier's weights, and a head that can grow."""

from __future__ import annotations

import contextlib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.nets.norm import FOLLOWERS, Norm, follow
from puridiver.options import Option, Options

_drawing = threading.RLock()


@contextlib.contextmanager
def global_draws(seed: int | None = None) -> Iterator[None]:
    """For what makes torch's layers, which draw from the global generator of the CPU: it is as before afterwards.

    One thread at a time: that generator is the whole process's, and lanes are threads.
    """
    with _drawing, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.default_generator.manual_seed(seed)  # (torch.manual_seed would set the GPUs' generators, too)
        yield


class Outputs(NamedTuple):
    """Features (N, d) and logits (N, C) of one pass."""

    features: Tensor
    logits: Tensor


class Head(nn.Module):
    """The classifier: a linear layer, optionally followed by BatchNorm on the logits."""

    def __init__(self, width: int, n_classes: int, settings: Options) -> None:
        super().__init__()
        builders = {"linear": nn.Identity, "linear_batchnorm": self._logit_norm}
        if settings.head not in builders:
            raise ValueError(f"head should be one of {sorted(builders)}, but got {settings.head!r}")
        self.epsilon = settings.batchnorm_epsilon
        self.linear = nn.Linear(width, n_classes, bias=settings.head == "linear")
        self.norm = builders[settings.head](n_classes)

    def _logit_norm(self, n_classes: int) -> nn.Module:
        return nn.BatchNorm1d(n_classes, eps=self.epsilon)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(self.linear(features))

    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        """Add classes; what was learnt for the old ones stays as it is."""
        old = {name: value.clone() for name, value in self.state_dict().items()}
        with global_draws():
            self.linear = nn.Linear(self.linear.in_features, n_classes, bias=self.linear.bias is not None)
        if isinstance(self.norm, nn.BatchNorm1d):
            self.norm = self._logit_norm(n_classes)
        self.train(self.training)
        initialise(self, generator)
        new = self.state_dict()
        for name, value in old.items():
            if value.ndim:  # (num_batches_tracked has no class axis)
                new[name][: len(value)] = value.to(new[name].device)
            else:
                new[name].copy_(value)


class ConvNorm(nn.Module):
    """A convolution, its BatchNorm, and what follows: `then` is one of `puridiver.nets.norm.FOLLOWERS`.

    On a CPU, in float32, without gradients and in eval mode, convolution and norm are one convolution: folding the
    norm into the weights saves a pass over every activation whenever a sampler or a trainer looks through the network.
    """

    def __init__(
        self, width_in: int, width: int, kernel: int, stride: int, settings: Options, then: str = "none"
    ) -> None:
        super().__init__()
        if then not in FOLLOWERS:
            raise ValueError(f"then should be one of {', '.join(FOLLOWERS)}, but got {then!r}")
        self.conv = nn.Conv2d(width_in, width, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = Norm(width, settings.batchnorm_epsilon)
        self.then = then

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        foldable = x.device.type == "cpu" and x.dtype == torch.float32
        if self.training or torch.is_grad_enabled() or not foldable:
            return self.norm(self.conv(x), self.then, residual)
        weight, bias = self.folded()
        y = F.conv2d(x, weight, bias, self.conv.stride, self.conv.padding)
        return follow(y, self.then, residual)

    def folded(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of the one convolution that does what both do in eval mode."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        return self.conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale


class Network(nn.Module, ABC):
    """Base of every network. A subclass sets `self.head` and computes `features`.

    It is made as `Subclass(n_classes, image_shape, settings)`, with the shape (height, width, channels). One of your
    own (docs/METHODS.md) keeps the weights that its constructor gives it (`keeps_weights`), drawn at random or read
    from a file: torch's global generator is seeded meanwhile. The package's, and what is derived from them, have the
    weights of their convolutions and linear layers drawn by `initialise`.
    """

    name: str
    title: str
    summary: str
    own_options: Mapping[str, Option] = {}  # what only this network has; the constructor's `settings` holds the values
    keeps_weights = True
    head: Head
    made_as: tuple[int, tuple[int, int, int], Options]  # the constructor's arguments

    @classmethod
    def is_own(cls) -> bool:
        """Whether it is one of the package's, of which convolutions alone are to be of a lower precision."""
        return cls.__module__.partition(".")[0] == __name__.partition(".")[0]

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Representation vectors f(x), float32 (N, d), of scaled images (N, C, H, W)."""

    def outputs(self, images: Tensor) -> Outputs:
        features = self.features(images)
        return Outputs(features, self.head(features))

    def forward(self, images: Tensor, with_features: bool = False) -> Tensor | Outputs:
        """Logits; or features and logits, for callers that reach a network only by calling it."""
        outputs = self.outputs(images)
        return outputs if with_features else outputs.logits

    @property
    def class_weights(self) -> Tensor:
        """w(e, c) of Definition 1, (C, d)."""
        return self.head.linear.weight


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights from one explicit CPU generator: equal on every device, no global seed touched."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            fan_out = part.out_channels * part.kernel_size[0] * part.kernel_size[1]
            _normal(part.weight, math.sqrt(2 / fan_out), generator)
        elif isinstance(part, nn.Linear):
            _uniform(part.weight, 1 / math.sqrt(part.in_features), generator)
            if part.bias is not None:
                _uniform(part.bias, 1 / math.sqrt(part.in_features), generator)


@torch.no_grad()
def _normal(parameter: Tensor, std: float, generator: torch.Generator) -> None:
    parameter.copy_(torch.randn(parameter.shape, generator=generator) * std)


@torch.no_grad()
def _uniform(parameter: Tensor, bound: float, generator: torch.Generator) -> None:
    parameter.copy_((torch.rand(parameter.shape, generator=generator) * 2 - 1) * bound)


def initialise_afresh(module: nn.Module, generator: torch.Generator) -> None:
    """Weights and statistics as of a new module, in place."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.reset_parameters()
    initialise(module, generator)
