"""Is this the official CIFAR? Sizes first, then what the files hold."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from puridiver.data.base import DataSource
from puridiver.data.cifar import CIFAR10, CIFAR100, Layout, file_problems, load_cifar10, load_cifar100
from puridiver.errors import DataError

CIFAR10_FINGERPRINT = "f81fe13277584ec2ba5a8d2cac17a5d2197d49c1a2b8330877374abf2929e213"
CIFAR100_PER_CLASS = {"train": 500, "test": 100}


def check_cifar10(root: Path) -> list[str]:
    """Problems with the CIFAR-10 under `root`: its files, their sizes, the fingerprint of their content."""
    problems = file_problems(CIFAR10, root)
    if problems:
        return problems
    try:
        found = load_cifar10(root).fingerprint
    except DataError as error:
        return [str(error)]
    if found == CIFAR10_FINGERPRINT:
        return []
    return [f"the data differ from the official ones: fingerprint {found}, expected {CIFAR10_FINGERPRINT}"]


def check_cifar100(root: Path) -> list[str]:
    """Problems with the CIFAR-100 under `root`: its files, their sizes, label ranges and class balance."""
    problems = file_problems(CIFAR100, root)
    if problems:
        return problems
    try:
        source = load_cifar100(root)
    except DataError as error:
        return [str(error)]
    return superclass_problems(source) + [
        problem
        for part, labels in (("train", source.train.labels), ("test", source.test.labels))
        for problem in balance_problems(part, labels, CIFAR100, CIFAR100_PER_CLASS[part])
    ]


def superclass_problems(source: DataSource) -> list[str]:
    """CIFAR-100's 100 classes form 20 cycles of five: a cycle of another length means wrong coarse labels."""
    following = source.asymmetric_map or {}
    wrong = [label for label in following if _cycle_length(following, label) != 5]
    if not wrong:
        return []
    return [f"every superclass should hold 5 classes, but {len(wrong)} classes lie in larger or smaller ones"]


def balance_problems(part: str, labels: Tensor, layout: Layout, expected: int) -> list[str]:
    """The classes of one part that do not have `expected` images."""
    counts = torch.bincount(labels, minlength=len(layout.class_names)).tolist()
    return [
        f"{part} should hold {expected} images of class {name}, but holds {count}"
        for name, count in zip(layout.class_names, counts, strict=True)
        if count != expected
    ]


def _cycle_length(following: dict[int, int], start: int) -> int:
    length, label = 1, following[start]
    while label != start:
        length, label = length + 1, following[label]
    return length
