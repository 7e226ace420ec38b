"""Label noise: which labels of a stream are wrong, and what they say instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from puridiver.streams.checks import IntArray, as_labels, check_choice, check_share, format_share, parse_share
from puridiver.streams.human import HUMAN_SETS, human
from puridiver.streams.instance import instance_dependent
from puridiver.streams.matrix import (
    MATRIX,
    PREFIX,
    Matrix,
    as_matrix,
    by_matrix,
    matrix_name,
    read_matrix,
    refuse_as_map,
)

ClassMap = dict[int, int]


def symmetric(labels: IntArray, n_classes: int, rate: float, rng: np.random.Generator) -> IntArray:
    """Give exactly round(rate * N) labels, chosen uniformly, another class drawn uniformly."""
    noisy = as_labels(labels, n_classes)
    n_wrong = round(check_share("noise rate", rate) * len(noisy))
    if n_wrong and n_classes < 2:
        raise ValueError(f"symmetric noise needs at least 2 classes, but got {n_classes}")
    if n_wrong == 0:
        return noisy
    wrong = rng.choice(len(noisy), size=n_wrong, replace=False)
    other = rng.integers(n_classes - 1, size=n_wrong)
    noisy[wrong] = other + (other >= noisy[wrong])  # step over the true class
    return noisy


def asymmetric(labels: IntArray, class_map: ClassMap, rate: float, rng: np.random.Generator) -> IntArray:
    """Flip exactly round(rate * n) of the n samples whose class is in the map to what it maps to."""
    check_class_map(class_map)
    noisy = np.array(labels, dtype=np.int64)
    eligible = np.flatnonzero(np.isin(noisy, list(class_map)))
    n_wrong = round(check_share("noise rate", rate) * len(eligible))
    wrong = rng.choice(eligible, size=n_wrong, replace=False) if n_wrong else eligible[:0]
    noisy[wrong] = [class_map[label] for label in noisy[wrong].tolist()]
    return noisy


def check_class_map(class_map: ClassMap, n_classes: int | None = None) -> None:
    """Refuse a map that sends a class to itself or leaves the range of class ids."""
    for source, target in class_map.items():
        if source == target:
            raise ValueError(f"a noise map should send each class to another one, but class {source} to itself")
        if min(source, target) < 0 or (n_classes is not None and max(source, target) >= n_classes):
            allowed = "at least 0" if n_classes is None else f"0 to {n_classes - 1}"
            raise ValueError(f"class ids of a noise map should be {allowed}, but got {source} -> {target}")


def next_class_map(n_classes: int) -> ClassMap:
    """Each class to the next one, the last to the first."""
    if n_classes < 2:
        raise ValueError(f"the next-class map needs at least 2 classes, but got {n_classes}")
    return {label: (label + 1) % n_classes for label in range(n_classes)}


def pair_map(n_classes: int) -> ClassMap:
    """Classes in pairs by lot, each to its partner and back; of an odd number one is left out.

    The published asymmetric streams are made like this, with other pairs at each seed.
    """
    if n_classes < 2:
        raise ValueError(f"pairs of classes need at least 2, but got {n_classes}")
    order = np.random.default_rng(n_classes).permutation(n_classes).tolist()
    pairs = list(zip(order[::2], order[1::2], strict=False))
    return dict(sorted(pairs + [(other, one) for one, other in pairs]))


def spr_cifar10_map() -> ClassMap:
    """SPR's CIFAR-10 map: truck to automobile, bird to airplane, deer to horse, cat to dog, dog to cat.

    It covers half of the classes, so a rate of 0.4 makes 20 % of all labels wrong.
    """
    airplane, automobile, bird, cat, deer, dog, _frog, horse, _ship, truck = range(10)
    return {truck: automobile, bird: airplane, deer: horse, cat: dog, dog: cat}


# Maps that can be asked for by name; each is a function of the number of classes.
NAMED_MAPS: dict[str, Callable[[int], ClassMap]] = {
    "next": next_class_map,
    "pairs": pair_map,
    "spr-cifar10": lambda n_classes: spr_cifar10_map(),
}


def named_map(name: str, n_classes: int) -> ClassMap:
    """The class map of that name."""
    refuse_as_map(name)
    if name not in NAMED_MAPS:
        raise ValueError(f"a noise map should be one of {', '.join(NAMED_MAPS)}, but got {name!r}")
    return NAMED_MAPS[name](n_classes)


@dataclass(frozen=True)
class Spoiling:
    """What a kind of noise may look at."""

    labels: IntArray
    samples: IntArray  # where they stand among the train images
    n_classes: int
    rate: float
    rng: np.random.Generator
    class_map: ClassMap | None
    images: Tensor  # all train images, uint8 (N, H, W, C)
    noise_file: Path | str | None
    matrix: Matrix | None = None


@dataclass(frozen=True)
class NoiseKind:
    """One kind of label noise: labels in, labels out."""

    description: str
    apply: Callable[[Spoiling], IntArray]
    uses_map: bool = False
    has_rate: bool = True
    from_file: bool = False  # its labels come from a file of published ones
    told_as: str = "asym"  # what a trainer may be told of it: where some classes take the others' place, asymmetric


def _human(name: str) -> NoiseKind:
    return NoiseKind(
        HUMAN_SETS[name].description,
        lambda s: human(s.labels, s.samples, s.n_classes, name, s.noise_file),
        has_rate=False,
        from_file=True,
    )


def _refuse_custom(spoiling: Spoiling) -> IntArray:
    raise ValueError(
        "custom noise is that of labels given by hand, which come with their manifest (puridiver.write_manifest), and "
        "cannot be planted: name another noise, or the manifest (--stream FILE.json)"
    )


NOISE_KINDS: dict[str, NoiseKind] = {
    "none": NoiseKind(
        "labels as the source gives them",
        lambda s: as_labels(s.labels, s.n_classes),
        has_rate=False,
        told_as="none",
    ),
    "sym": NoiseKind(
        "any other class, uniformly",
        lambda s: symmetric(s.labels, s.n_classes, s.rate, s.rng),
        told_as="sym",
    ),
    "asym": NoiseKind(
        "the class that a map names",
        lambda s: asymmetric(s.labels, s.class_map or {}, s.rate, s.rng),
        uses_map=True,
    ),
    "instance": NoiseKind(
        "a class that depends on the image",
        lambda s: instance_dependent(s.labels, s.images, s.samples, s.n_classes, s.rate, s.rng),
    ),
    **{f"human:{name}": _human(name) for name in HUMAN_SETS},
    "custom": NoiseKind("labels as they were given by hand", _refuse_custom, has_rate=False, from_file=True),
    MATRIX: NoiseKind(
        "labels by a transition matrix of your own",
        lambda s: by_matrix(s.labels, s.matrix or (), s.rng),
        has_rate=False,
    ),
}
RATELESS = tuple(name for name, kind in NOISE_KINDS.items() if not kind.has_rate)


def parse_noise(spec: str) -> tuple[str, float]:
    """Read "sym-40", "sym40", "asym-0.35", "instance-30", "human:worst", "none" or "clean" as (kind, rate).

    Integers are percent, decimals below 1 are fractions; kinds without a rate have the rate 0. The kind of
    "matrix:T.npy" is "matrix:" and a hash of what the file holds.
    """
    if spec.startswith(PREFIX):
        return matrix_name(read_matrix(spec.removeprefix(PREFIX))), 0.0
    if spec == "clean" or (spec in RATELESS and spec != MATRIX):
        return ("none" if spec == "clean" else spec), 0.0
    match = re.fullmatch(r"([a-z]+)-?([\d.]+)", spec)
    if match is None or match[1] not in NOISE_KINDS or match[1] in RATELESS:
        raise ValueError(
            'noise should be "none", "clean", "sym-RATE", "asym-RATE" or "instance-RATE", such as "sym-40", or '
            f'"human:SET" with one of {", ".join(HUMAN_SETS)}, or "matrix:FILE" with an '
            f".npy or .csv file, but got {spec!r}"
        )
    return match[1], parse_share(match[2], f"the rate of noise {spec!r}")


def noise_name(kind: str, rate: float) -> str:
    """The spec that `parse_noise` reads back: "sym-40", "none"."""
    return kind if is_matrix(kind) or kind in RATELESS else f"{kind}-{format_share(rate)}"


def is_matrix(kind: str) -> bool:
    """Whether the kind of a noise is a matrix of one's own."""
    return kind.startswith(PREFIX)


def noise_kind(kind: str) -> NoiseKind:
    """What there is to know of a kind, also of the matrices, each of which is a kind of its own."""
    return NOISE_KINDS[MATRIX if is_matrix(kind) else kind]


def check_noise_kind(kind: str, matrix: Matrix | None, n_classes: int) -> None:
    """Refuse a kind that there is not, or a matrix that is not the one that the kind names."""
    if not is_matrix(kind):
        check_choice("noise", kind, (name for name in NOISE_KINDS if name != MATRIX))
        if matrix is not None:
            raise ValueError(f"a noise matrix should go with the noise matrix, but the noise is {kind!r}")
        return
    if matrix is None:
        raise ValueError(f"the noise {kind!r} needs its matrix (noise_matrix)")
    if matrix_name(as_matrix(matrix, n_classes)) != kind:
        raise ValueError(f"noise_matrix should be the matrix of {kind!r}, but is {matrix_name(matrix)!r}")
