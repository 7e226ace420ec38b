"""AutoAugment's policy for CIFAR-10, one sub-policy per sample.

Source: Cubuk et al., "AutoAugment: Learning Augmentation Strategies from Data", CVPR 2019 (arXiv 1805.09501):
the ranges of its table of operations, and the 25 sub-policies of its appendix for reduced CIFAR-10.
As in common implementations, factors of colour, contrast, brightness and sharpness lie within 1 ± 0.9, and shifts
are shares of the image's side (at most 150 / 331).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from puridiver.augment import ops
from puridiver.augment.base import Policy


class Step(NamedTuple):
    """One operation of a sub-policy: its name, its probability, and its magnitude from 0 to 9."""

    operation: str
    probability: float
    magnitude: int


class Operation(NamedTuple):
    """`apply(images, value, fill)`: the value is `centre ± levels[magnitude]`, + only unless `signed`."""

    apply: Callable[..., Tensor]
    levels: tuple[float, ...] = (0.0,) * 10
    signed: bool = False
    centre: float = 0.0


def _ramp(start: float, end: float) -> tuple[float, ...]:
    return tuple(start + (end - start) * index / 9 for index in range(10))


def _enhancement(kind: str) -> Operation:
    return Operation(lambda images, factor, _: ops.enhance(images, factor, kind), _ramp(0, 0.9), True, centre=1.0)


def _shift(entry: int, furthest: float) -> Operation:
    return Operation(partial(ops.shift, entry=entry), _ramp(0, furthest), signed=True)


OPERATIONS: dict[str, Operation] = {
    "autocontrast": Operation(lambda images, *_: ops.autocontrast(images)),
    "brightness": _enhancement("brightness"),
    "colour": _enhancement("colour"),
    "contrast": _enhancement("contrast"),
    "equalise": Operation(lambda images, *_: ops.equalise(images)),
    "invert": Operation(lambda images, *_: ~images),
    "posterise": Operation(lambda images, bits, _: ops.posterise(images, bits), tuple(map(round, _ramp(8, 4)))),
    "rotate": Operation(ops.rotate, _ramp(0, 30), signed=True),
    "sharpness": _enhancement("sharpness"),
    "shear_y": _shift(3, 0.3),
    "solarise": Operation(lambda images, threshold, _: ops.solarise(images, threshold), _ramp(256, 0)),
    "translate_x": _shift(2, 150 / 331),
    "translate_y": _shift(5, 150 / 331),
}

# the publication prints magnitudes of invert, autocontrast and equalise, but these have no effect
CIFAR10_POLICY: tuple[tuple[Step, Step], ...] = (
    (Step("invert", 0.1, 7), Step("contrast", 0.2, 6)),
    (Step("rotate", 0.7, 2), Step("translate_x", 0.3, 9)),
    (Step("sharpness", 0.8, 1), Step("sharpness", 0.9, 3)),
    (Step("shear_y", 0.5, 8), Step("translate_y", 0.7, 9)),
    (Step("autocontrast", 0.5, 8), Step("equalise", 0.9, 2)),
    (Step("shear_y", 0.2, 7), Step("posterise", 0.3, 7)),
    (Step("colour", 0.4, 3), Step("brightness", 0.6, 7)),
    (Step("sharpness", 0.3, 9), Step("brightness", 0.7, 9)),
    (Step("equalise", 0.6, 5), Step("equalise", 0.5, 1)),
    (Step("contrast", 0.6, 7), Step("sharpness", 0.6, 5)),
    (Step("colour", 0.7, 7), Step("translate_x", 0.5, 8)),
    (Step("equalise", 0.3, 7), Step("autocontrast", 0.4, 8)),
    (Step("translate_y", 0.4, 3), Step("sharpness", 0.2, 6)),
    (Step("brightness", 0.9, 6), Step("colour", 0.2, 8)),
    (Step("solarise", 0.5, 2), Step("invert", 0.0, 3)),
    (Step("equalise", 0.2, 0), Step("autocontrast", 0.6, 0)),
    (Step("equalise", 0.2, 8), Step("equalise", 0.6, 4)),
    (Step("colour", 0.9, 9), Step("equalise", 0.6, 6)),
    (Step("autocontrast", 0.8, 4), Step("solarise", 0.2, 8)),
    (Step("brightness", 0.1, 3), Step("colour", 0.7, 0)),
    (Step("solarise", 0.4, 5), Step("autocontrast", 0.9, 3)),
    (Step("translate_y", 0.9, 9), Step("translate_y", 0.7, 9)),
    (Step("autocontrast", 0.9, 2), Step("solarise", 0.8, 3)),
    (Step("equalise", 0.8, 8), Step("invert", 0.1, 3)),
    (Step("translate_y", 0.7, 9), Step("autocontrast", 0.9, 1)),
)


class AutoAugmentDraw(NamedTuple):
    """Each sample's sub-policy (n,), which of its two steps are applied (n, 2), and their signs ±1 (n, 2)."""

    sub_policy: Tensor
    applied: Tensor
    sign: Tensor


def draw_autoaugment(n: int, generator: torch.Generator) -> AutoAugmentDraw:
    """Draw for each sample a sub-policy of CIFAR10_POLICY, which steps apply, and their signs."""
    sub_policy = torch.randint(len(CIFAR10_POLICY), (n,), generator=generator)
    applied = torch.rand(n, 2, generator=generator) < _PROBABILITY[sub_policy]
    sign = 2 * torch.randint(2, (n, 2), generator=generator) - 1
    return AutoAugmentDraw(sub_policy, applied, sign)


def autoaugment(images: Tensor, draw: AutoAugmentDraw, fill: int = 0, rotates_both_ways: bool = True) -> Tensor:
    """Apply to each image its drawn steps; `fill` is the grey level of pixels from outside the image."""
    augmented, may_turn = images.clone(), _SIGNED.clone()
    may_turn[_NAMES.index("rotate")] = rotates_both_ways
    for step in (0, 1):
        operation = _OPERATION[draw.sub_policy, step]  # of each sample, an index of _NAMES
        sign = torch.where(may_turn[operation], draw.sign[:, step], 1)
        value = _CENTRE[operation] + sign * _LEVEL[draw.sub_policy, step]
        sample = draw.applied[:, step].nonzero().squeeze(1)
        sample = sample[operation[sample].argsort(stable=True)]  # grouped: an operation takes all its samples at once
        sizes = operation[sample].bincount(minlength=len(_NAMES)).tolist()
        # one transfer; the groups are views of it
        groups = zip(sample.to(images.device, non_blocking=True).split(sizes), value[sample].split(sizes), strict=True)
        for name, (index, values) in zip(_NAMES, groups, strict=True):
            if len(index):
                group = OPERATIONS[name].apply(augmented.index_select(0, index), values, fill)
                augmented.index_copy_(0, index, group)
    return augmented


def _table(entry: Callable[[Step], float], dtype: torch.dtype) -> Tensor:
    """One entry for each step of the policy, (25, 2)."""
    return torch.tensor([[entry(step) for step in steps] for steps in CIFAR10_POLICY], dtype=dtype)


_NAMES = tuple(OPERATIONS)
_OPERATION = _table(lambda step: _NAMES.index(step.operation), torch.int64)
_PROBABILITY = _table(lambda step: step.probability, torch.float32)
_LEVEL = _table(lambda step: OPERATIONS[step.operation].levels[step.magnitude], torch.float64)
_SIGNED = torch.tensor([OPERATIONS[name].signed for name in _NAMES])
_CENTRE = torch.tensor([OPERATIONS[name].centre for name in _NAMES], dtype=torch.float64)


class AutoAugment(Policy):
    """AutoAugment with black borders and rotations in both directions."""

    name = "autoaugment"
    fill, rotates_both_ways = 0, True

    def apply(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return autoaugment(images, draw_autoaugment(len(images), generator), self.fill, self.rotates_both_ways)


class AutoAugmentGrey(AutoAugment):
    """AutoAugment as in the released program: grey borders, and rotations in one direction."""

    name = "autoaugment_grey"
    fill, rotates_both_ways = 128, False
