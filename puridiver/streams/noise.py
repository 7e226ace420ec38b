"""Label noise: the base class of all kinds, how a noise is written, and class maps.

Each kind is one file in `puridiver/streams/noises`. A manifest records a kind by its name ("sym"), with a variant where
there are several ("human:worst", "matrix:HASH").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import Tensor

from puridiver.data.base import DataSource
from puridiver.discovery import member, members
from puridiver.streams.checks import IntArray, as_labels, check_choice, check_share, format_share, parse_share
from puridiver.streams.names import MATRIX_FILE

PACKAGE = "puridiver.streams.noises"

ClassMap = dict[int, int]
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class NoiseSetting:
    """What a kind of noise may use beside the labels and a generator."""

    n_classes: int
    rate: float
    samples: IntArray  # rows of the labelled samples among all train images
    images: Tensor  # all train images, uint8 (N, H, W, C)
    class_map: ClassMap | None = None
    noise_file: Path | str | None = None
    matrix: Matrix | None = None
    variant: str = ""  # of the kind, such as "worst" of "human:worst"


class Noise:
    """One kind of label noise: labels in, labels out."""

    name: ClassVar[str]
    title: ClassVar[str]  # what a wrong label is
    written: ClassVar[str]  # how users write it; empty if they cannot
    has_rate: ClassVar[bool] = True
    uses_map: ClassVar[bool] = False
    from_file: ClassVar[bool] = False  # a seed alone cannot make its labels again
    hint: ClassVar[str] = "asym"  # the kind that a run tells its trainer with `tell_noise`

    def variant_kind(self, variant: str) -> str:
        """The kind that a manifest records for "name:variant"."""
        raise ValueError(f"noise {self.name!r} has no variants, but got {self.name}:{variant}")

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        """The noisy labels; `labels` stay as they are."""
        raise NotImplementedError


def noise_kind(kind: str) -> Noise:
    """The noise of a kind as a manifest records it."""
    name = kind.partition(":")[0]
    found = member(PACKAGE, Noise, name)
    if found is None:
        check_choice("noise", name, members(PACKAGE, Noise))
        raise AssertionError("unreachable")
    return found()


def apply_noise(kind: str, labels: IntArray, rng: np.random.Generator, setting: NoiseSetting) -> IntArray:
    """The labels with the noise of that kind; the labels and the rate are checked."""
    check_share("noise rate", setting.rate)
    setting = replace(setting, variant=kind.partition(":")[2])
    return noise_kind(kind).apply(rng, as_labels(labels, setting.n_classes), setting)


def parse_noise(spec: str) -> tuple[str, float]:
    """Read "sym-40", "sym40", "asym-0.35", "human:worst", "matrix:T.npy", "none" or "clean" as (kind, rate).

    Integers are percent, decimals below 1 are fractions; kinds without a rate have the rate 0.
    """
    match = re.fullmatch(r"([a-z_]+)(?::(.+)|-?([\d.]+))?", spec, re.DOTALL)
    name = "none" if spec == "clean" else match[1] if match else ""
    found = member(PACKAGE, Noise, name) if name else None
    if match is None or found is None or not found.written or found.has_rate != bool(match[3]):
        raise ValueError(f"noise should be one of {', '.join(map(repr, written_noises()))}, but got {spec!r}")
    if match[3]:
        return name, parse_share(match[3], f"the rate of noise {spec!r}")
    if match[2] or ":" in found.written:
        return found().variant_kind(match[2] or ""), 0.0
    return name, 0.0


def written_noises() -> list[str]:
    """How users write each kind, such as "sym-RATE"."""
    return [kind.written for kind in members(PACKAGE, Noise).values() if kind.written]


def noise_name(kind: str, rate: float) -> str:
    """The spec that `parse_noise` reads back, such as "sym-40"; of a matrix its recorded kind."""
    return f"{kind}-{format_share(rate)}" if noise_kind(kind).has_rate else kind


def is_matrix(kind: str) -> bool:
    """Whether a noise is that of a transition matrix."""
    return kind.startswith(MATRIX_FILE)


# Class maps of asymmetric noise ------------------------------------------------------------------------------------


def check_class_map(class_map: ClassMap, n_classes: int) -> None:
    """Refuse a map that sends a class to itself or leaves the range of class ids."""
    for source, target in class_map.items():
        if source == target:
            raise ValueError(f"a noise map should send each class to another one, but class {source} to itself")
        if min(source, target) < 0 or max(source, target) >= n_classes:
            raise ValueError(f"class ids of a noise map should be 0 to {n_classes - 1}, but got {source} -> {target}")


def next_class_map(n_classes: int) -> ClassMap:
    """Each class to the next one, the last to the first."""
    return {label: (label + 1) % n_classes for label in range(n_classes)}


def pair_map(n_classes: int) -> ClassMap:
    """Classes in random pairs, each to its partner and back; of an odd number one is left out.

    The published asymmetric streams are made like this, with other pairs at each seed.
    """
    order = np.random.default_rng(n_classes).permutation(n_classes).tolist()
    pairs = list(zip(order[::2], order[1::2], strict=False))
    return dict(sorted(pairs + [(other, one) for one, other in pairs]))


def spr_cifar10_map(n_classes: int = 10) -> ClassMap:
    """SPR's CIFAR-10 map: truck to automobile, bird to airplane, deer to horse, cat to dog, dog to cat.

    It covers half of the classes, so a rate of 0.4 makes 20 % of all labels wrong.
    """
    airplane, automobile, bird, cat, deer, dog, _frog, horse, _ship, truck = range(10)
    return {truck: automobile, bird: airplane, deer: horse, cat: dog, dog: cat}


NAMED_MAPS: dict[str, Callable[[int], ClassMap]] = {
    "next": next_class_map,
    "pairs": pair_map,
    "spr-cifar10": spr_cifar10_map,
}


def named_map(name: str, n_classes: int) -> ClassMap:
    """The class map of that name."""
    if name not in NAMED_MAPS:
        matrix = f"; a transition matrix is a noise: --noise matrix:{name}" if name.endswith((".npy", ".csv")) else ""
        raise ValueError(f"a noise map should be one of {', '.join(NAMED_MAPS)}, but got {name!r}{matrix}")
    return NAMED_MAPS[name](n_classes)


def plant(labels: IntArray, source: DataSource, noise: str, rng: np.random.Generator) -> IntArray:
    """The labels with symmetric or asymmetric noise ("sym-20", "asym-40"), to see what an audit finds."""
    kind, rate = parse_noise(noise)
    if kind not in ("sym", "asym"):
        raise ValueError(f'noise to plant should be "sym-RATE" or "asym-RATE", such as "sym-20", but got {noise!r}')
    n_classes = len(source.class_names)
    class_map = (source.asymmetric_map or next_class_map(n_classes)) if kind == "asym" else None
    setting = NoiseSetting(n_classes, rate, np.arange(len(labels)), source.train.images, class_map)
    return apply_noise(kind, labels, rng, setting)
