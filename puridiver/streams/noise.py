"""Label noise: the base class of all kinds, how a noise is written, and class maps.

Each kind is one file in `puridiver/streams/noises`. A manifest records a kind by its name ("sym"), with a variant where
there are several ("human:worst", "matrix:HASH").
"""

import re
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from torch import Tensor

from puridiver.data.base import WRONG, DataSource
from puridiver.discovery import member, members
from puridiver.streams.checks import IntArray, require

PACKAGE = "puridiver.streams.noises"
MATRIX_FILE = "matrix:"  # before the path of a noise matrix

ClassMap = dict[int, int]
Matrix = tuple[tuple[float, ...], ...]


class NoiseSetting(NamedTuple):
    """What a kind of noise may use besides the labels and a generator."""

    n_classes: int
    rate: float
    samples: IntArray  # rows of the labelled samples among all train images
    images: Tensor  # all train images, uint8 (N, H, W, C), or vectors, float32 (N, d)
    class_map: ClassMap | None = None
    noise_file: Path | str | None = None
    matrix: Matrix | None = None


class Noise:
    """One kind of label noise: labels in, labels out."""

    name: ClassVar[str]
    written: ClassVar[str]  # how users write it: "sym-RATE", "human:worst|fine", "matrix:FILE"; empty if they cannot
    uses_map: ClassVar[bool] = False
    hint: ClassVar[str] = "asym"  # the kind that a run tells its trainer with `tell_noise`

    def __init__(self, variant: str = "") -> None:
        variants = self.written.partition(":")[2].split("|")
        fine = variant in variants or (variant and variants == ["FILE"])
        require(fine, f"the variant of noise {self.name}", f"one of {', '.join(variants)}", repr(variant))
        self.variant, self.has_rate = variant, self.written.endswith("-RATE")

    def apply(self, rng: np.random.Generator, labels: IntArray, setting: NoiseSetting) -> IntArray:
        """The noisy labels; `labels` stay as they are."""
        raise NotImplementedError


def noise_kind(kind: str) -> Noise:
    """The noise of a kind as a manifest records it."""
    name, _, variant = kind.partition(":")
    if (found := member(PACKAGE, Noise, name)) is None:
        raise ValueError(f"noise should be one of {', '.join(members(PACKAGE, Noise))}, but got {kind!r}")
    return found(variant)


def parse_noise(spec: str) -> tuple[str, float]:
    """Read "sym-40", "sym40", "asym-0.35", "human:worst" or "none" as (kind, rate).

    Integers are percent, decimals below 1 are fractions; kinds without a rate have the rate 0.
    """
    match = re.fullmatch(r"([a-z_]+)(?::.+|-?([\d.]+))?", spec, re.DOTALL)
    found = member(PACKAGE, Noise, match[1]) if match else None
    if match is None or found is None or not found.written or found.written.endswith("-RATE") != bool(match[2]):
        written = [repr(kind.written) for kind in members(PACKAGE, Noise).values() if kind.written]
        raise ValueError(f"noise should be one of {', '.join(written)}, but got {spec!r}")
    if match[2]:
        return found.name, parse_share(match[2], f"the rate of noise {spec!r}")
    noise_kind(match[0])  # has that variant
    return match[0], 0.0


def noise_name(kind: str, rate: float) -> str:
    """The spec that `parse_noise` reads back, such as "sym-40"; of a matrix its recorded kind."""
    return f"{kind}-{format_share(rate)}" if noise_kind(kind).has_rate else kind


def parse_share(text: str, what: str) -> float:
    """Read "40" (percent) or "0.4" (a fraction below 1) as 0.4."""
    fine = re.fullmatch(r"\d{1,2}|0?\.\d+", text)
    require(fine, what, "a percentage from 0 to 99 or a decimal fraction below 1", text)
    return float(text) if "." in text else int(text) / 100


def format_share(share: float) -> str:
    """The shortest text that `parse_share` reads back to the same share: "40" for 0.4, "0.125" for 0.125."""
    percent = round(share * 100)
    return str(percent) if percent / 100 == share else np.format_float_positional(share)


def read_noise(
    source: DataSource, noise: str, noise_map: ClassMap | None
) -> tuple[str, float, ClassMap | None, Matrix | None]:
    """The kind and the rate of a noise, and the class map and the matrix that it uses."""
    n_classes, matrix = len(source.class_names), None
    if noise.startswith(MATRIX_FILE):
        from puridiver.streams.noises.matrix import matrix_name, read_matrix

        matrix = read_matrix(noise.removeprefix(MATRIX_FILE), n_classes)
        noise = matrix_name(matrix)
    kind, rate = parse_noise(noise)
    uses_map = noise_kind(kind).uses_map
    require(uses_map or noise_map is None, "noise_map", "left out but for asymmetric noise", f"one for {kind}")
    class_map = dict(noise_map or source.asymmetric_map or named_map("next", n_classes)) if uses_map else None
    for a, b in (class_map or {}).items():
        fine = a != b and 0 <= a < n_classes and 0 <= b < n_classes
        require(fine, "a noise map", f"of classes 0 to {n_classes - 1} to other ones", f"{a} -> {b}")
    if kind != "none" and not source.train.truth_known:  # the share of wrong labels would be unknown afterwards
        unknown = f"noise cannot be planted in {source.name!r}, whose true labels are unknown"
        raise ValueError(f"{unknown}: say --trust-labels")
    if kind != "none" and (source.train.true_labels == WRONG).any():  # another wrong label may be the right one
        raise ValueError(f"noise cannot be planted in {source.name!r}: it has wrong labels whose true ones are unknown")
    return kind, rate, class_map, matrix


def named_map(name: str, n_classes: int) -> ClassMap:
    """The class map of that name."""
    order = np.random.default_rng(n_classes).permutation(n_classes).tolist()
    pairs = dict(zip(order[::2], order[1::2], strict=False))  # of an odd number one is left out
    maps = {
        "next": {label: (label + 1) % n_classes for label in range(n_classes)},
        # Random pairs, each class to its partner and back, as published.
        "pairs": dict(sorted([*pairs.items(), *((other, one) for one, other in pairs.items())])),
        # SPR's, of half of the classes: truck to automobile, bird to airplane, deer to horse, cat to dog, dog to cat.
        "spr-cifar10": {9: 1, 2: 0, 4: 7, 3: 5, 5: 3},
    }
    require(name in maps, "a noise map", f"one of {', '.join(maps)}", name)
    return maps[name]


def plant(labels: IntArray, source: DataSource, noise: str, rng: np.random.Generator) -> IntArray:
    """The labels with symmetric or asymmetric noise ("sym-20", "asym-40"), to see what an audit finds."""
    (kind, rate), n_classes = parse_noise(noise), len(source.class_names)
    require(kind in ("sym", "asym"), "noise to plant", "sym-RATE or asym-RATE", noise)
    class_map = source.asymmetric_map or named_map("next", n_classes)
    setting = NoiseSetting(n_classes, rate, np.arange(len(labels)), source.train.images, class_map)
    return noise_kind(kind).apply(rng, labels, setting)
