"""What networks are made of: the base class, the head, convolution with a fused BatchNorm, and initial weights."""

import contextlib
import functools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.errors import worked
from puridiver.options import Option, Options

# What may follow the norm: nothing, ReLU, ReLU and then the addition of a residual, or the addition and then ReLU.
FOLLOWERS = ("none", "relu", "relu_add", "add_relu")
MOMENTUM = 0.1  # of BatchNorm's running statistics

_global_generator = threading.RLock()


class Outputs(NamedTuple):
    """Features (N, d) and logits (N, C) of one pass."""

    features: Tensor
    logits: Tensor


class Network(nn.Module, ABC):
    """Base of every network. A subclass sets `self.head` and computes `features`.

    The package calls `Subclass(n_classes, input_shape, settings)` with the shape (height, width, channels), or (d,) of
    vectors if the class `takes_vectors`, and the run's options. A network from outside the package keeps the weights
    of its constructor (`keeps_weights`), random or read from a file; torch's global generator is seeded meanwhile. Most
    of the package's networks, and classes that derive from them, get the weights of convolutions and linear layers from
    `initialise`.
    """

    name: str
    title: str
    summary: str
    own_options: ClassVar[Mapping[str, Option]] = {}  # the options that only this network has
    keeps_weights = True
    light = False  # small enough to learn from a stream on a CPU, step by step
    takes_vectors = False  # float32 (N, d) in the place of images
    head: "Head"
    made_as: tuple[int, tuple[int, ...], Options]  # the constructor's arguments

    @classmethod
    def is_own(cls) -> bool:
        """Whether the package itself defines the network."""
        return cls.__module__.partition(".")[0] == __name__.partition(".")[0]

    def rate_share(self, parameter: str) -> float:
        """At which share of the learning rate a parameter of this name learns."""
        return 1.0

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Compute representation vectors f(x), float32 (N, d), of scaled images (N, C, H, W), or of vectors."""

    def forward(self, images: Tensor) -> Outputs:
        features = self.features(images)
        return Outputs(features, self.head(features))


class Head(nn.Module):
    """The classifier: a linear layer, or one without bias and BatchNorm on the logits."""

    def __init__(self, width: int, n_classes: int, settings: Options) -> None:
        super().__init__()
        self.settings = settings
        self.linear = nn.Linear(width, n_classes, bias=settings.head == "linear")
        self.norm: nn.Module = nn.Identity()
        if settings.head == "linear_batchnorm":
            self.norm = nn.BatchNorm1d(n_classes, eps=settings.batchnorm_epsilon)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(self.linear(features))

    @torch.no_grad()
    def grow(self, n_classes: int, generator: torch.Generator) -> None:
        """Add classes and keep all that was learnt for the old ones."""
        with global_draws():
            new = Head(self.linear.in_features, n_classes, self.settings).train(self.training)
        initialise(new, generator)
        for name, value in self.state_dict().items():  # num_batches_tracked has no class axis
            new.state_dict()[name][slice(len(value)) if value.ndim else ...] = value.cpu()
        self.linear, self.norm = new.linear, new.norm

    @torch.no_grad()
    def drop_class(self, number: int) -> None:
        """Remove a class and keep all that was learnt for the others."""
        with global_draws():
            new = Head(self.linear.in_features, self.linear.out_features - 1, self.settings).train(self.training)
        new.load_state_dict({name: without_row(value, number) for name, value in self.state_dict().items()})
        self.linear, self.norm = new.linear, new.norm


def without_row(values: Tensor, number: int) -> Tensor:
    """A tensor without a row; itself if it has no such row."""
    return values if not values.ndim or number >= len(values) else torch.cat([values[:number], values[number + 1 :]])


class ConvNorm(nn.Module):
    """A convolution, pooling if asked for, its BatchNorm, and what follows: `then` is one of FOLLOWERS.

    Fused kernels run on a GPU. On a CPU, in float32, in eval mode and without gradients, BatchNorm is folded into the
    convolution's weights, which saves a pass over every activation. BatchNorm does not count its batches: that would
    cost a kernel each time.
    """

    def __init__(
        self, width_in: int, width: int, kernel: int, stride: int, settings: Options, then: str = "none",
        pool: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv = nn.Conv2d(width_in, width, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(width, eps=settings.batchnorm_epsilon, momentum=MOMENTUM)
        self.then, self.pool = then, pool

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        conv, norm, mean, var = self.conv, self.norm, self.norm.running_mean, self.norm.running_var
        assert mean is not None
        assert var is not None
        folds = x.device.type == "cpu" and x.dtype == torch.float32 and not self.pool
        if folds and not self.training and not torch.is_grad_enabled():
            scale = norm.weight * (var + norm.eps).rsqrt()
            weight, bias = conv.weight * scale[:, None, None, None], norm.bias - mean * scale
            return follow(F.conv2d(x, weight, bias, conv.stride, conv.padding), self.then, residual)
        x = conv(x)
        if self.pool:
            x = F.max_pool2d(x, 2, ceil_mode=True)
        if x.is_cuda and fused_norm_works(x.device):
            return fused_norm(x, residual, norm.weight, norm.bias, mean, var, self.training, norm.eps, self.then)
        x = F.batch_norm(x, mean, var, norm.weight, norm.bias, self.training, MOMENTUM, norm.eps)
        return follow(x, self.then, residual)


def follow(y: Tensor, then: str, residual: Tensor | None) -> Tensor:
    """Apply ReLU and addition as separate operations."""
    if then in ("relu", "relu_add"):
        y = F.relu(y)
    if residual is not None:
        y = y + residual
    return F.relu(y) if then == "add_relu" else y


def fused_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor,
    by_batch: bool, epsilon: float, then: str,
) -> Tensor:  # fmt: skip
    """BatchNorm by batch or running statistics and what follows, in Triton's kernels."""
    from puridiver.nets._fused_norm import FusedNorm

    with torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext():  # Triton launches on the current one
        mode = FOLLOWERS.index(then)
        return FusedNorm.apply(x, residual, weight, bias, mean, var, by_batch, MOMENTUM, epsilon, mode)


@functools.cache
def fused_norm_works(device: torch.device) -> bool:
    """Try once whether the fused kernels compile and run here; they need Triton and a C compiler."""

    def attempt() -> None:
        x = torch.ones(4, 16, 2, 2, device=device, requires_grad=True)
        weight, bias, mean, var = torch.ones(4, 16, device=device)
        with torch.enable_grad():
            fused_norm(x, None, weight, bias, mean, var, True, 1e-5, "relu").sum().backward()

    return worked(attempt, "BatchNorm runs unfused, about a third slower")


# Initial weights ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def global_draws(seed: int = 0) -> Iterator[None]:
    """Seed torch's global CPU generator inside the context and restore it afterwards.

    Constructors of torch's layers draw from this generator. Lanes are threads of one process, so one thread at a time
    may enter.
    """
    with _global_generator, torch.random.fork_rng(devices=[]):
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


@torch.no_grad()
def check_new(network: Network, n_classes: int, input_shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless a new network from outside has a fitting head, and features of its width."""
    head, told = getattr(network, "head", None), f"network {network.name!r}:"
    if not isinstance(head, Head):
        raise ValueError(f"{told} set self.head = puridiver.Head(width, n_classes, settings), for features (N, width)")
    if head.linear.out_features != n_classes:
        raise ValueError(f"{told} the head should have {n_classes} classes, but has {head.linear.out_features}")
    features = network.eval().features(torch.zeros(2, *input_shape[2:], *input_shape[:2]))
    network.train()
    found = f"{getattr(features, 'dtype', type(features))} {tuple(getattr(features, 'shape', ()))}"
    expected = f"torch.float32 {(2, head.linear.in_features)}"
    if found != expected:
        raise ValueError(f"{told} features of 2 images should be {expected} for its head, but are {found}")
