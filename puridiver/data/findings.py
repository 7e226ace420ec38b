"""What a folder or a table of images holds: counts, sizes, unreadable files, duplicates."""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.base import UNKNOWN, FileOptions, OnProgress
from puridiver.data.cache import open_cache
from puridiver.data.files import DEFAULT_SIDE, NAMED, list_own
from puridiver.data.listing import printable
from puridiver.errors import few

MOST_COMPARED, SIMILAR = 300, 0.85  # class names that are compared with all others, and how alike two may be


@dataclass(frozen=True)
class Findings:
    """Of one data set. Lists of files are whole; `lines` shows the first few."""

    name: str
    files: int
    images: int
    train: int
    test: int
    per_class: dict[str, int]  # readable train images
    test_per_class: dict[str, int]
    smallest: tuple[int, int]  # (width, height) by area
    largest: tuple[int, int]
    image_size: int
    true_labels: int  # train images whose true label is known
    timestamps: bool
    ignored: int
    stray: int  # images in no class's folder, or in parts that are not used
    bad: dict[str, str]
    duplicates: list[list[str]]  # groups of files with the same pixels
    conflicts: list[list[str]]  # those groups whose labels differ: "file (label)"
    shared: int  # groups with members in train and in test

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """For people to read."""
        counts = sorted(self.per_class.values())
        found = [
            f"{self.images:,} images in {len(counts)} {'class' if len(counts) == 1 else 'classes'}: {self.train:,} to "
            f"train, {self.test:,} to test",
            f"train images a class: {counts[0]:,} to {counts[-1]:,}",
            *_without("train", self.per_class),
            *(_without("test", self.test_per_class) if self.test else []),
            *(
                f"class names that may be one: {first!r} ({self.per_class[first]:,}) and {other!r} "
                f"({self.per_class[other]:,})"
                for first, other in alike(list(self.per_class))[:NAMED]
            ),
            "sizes: {} x {} to {} x {}, ".format(*self.smallest, *self.largest)
            + f"all cut to {self.image_size} x {self.image_size}",
            f"true labels: {f'known of {self.true_labels:,} train images' if self.true_labels else 'not known'}; "
            f"timestamps: {'yes' if self.timestamps else 'none'}",
            f"unreadable files: {len(self.bad)}",
            *_first([f"{name}: {problem}" for name, problem in self.bad.items()]),
            f"duplicates: {sum(len(group) - 1 for group in self.duplicates):,} images have the same pixels as another"
            + (f"; {self.shared} groups are in train and test" if self.shared else ""),
            f"conflicting duplicates (same pixels, different labels): {len(self.conflicts)} "
            f"{'group' if len(self.conflicts) == 1 else 'groups'}",
            *_first([few(group) for group in self.conflicts]),
        ]
        if self.stray:
            found.append(f"images in no class's folder, or in a second part to test on, left out: {self.stray}")
        return [*found, f"other files, left out by their names: {self.ignored}"] if self.ignored else found


def _without(part: str, per_class: dict[str, int]) -> list[str]:
    """Names the classes that a part has no image of."""
    missing = [repr(name) for name, count in per_class.items() if not count]
    return [f"classes without a {part} image: {few(missing)}"] if missing else []


def _first(items: list[str]) -> list[str]:
    more = [f"  ... and {len(items) - NAMED} more"] if len(items) > NAMED else []
    return [f"  {item}" for item in items[:NAMED]] + more


def alike(names: list[str]) -> list[tuple[str, str]]:
    """Pairs of long names that differ in case, spaces, encoded accents or a letter or two: most likely one class."""
    plain = ["".join(unicodedata.normalize("NFKC", name).casefold().split()) for name in names]
    found = []
    for number, word in enumerate(plain[:MOST_COMPARED]):
        for other, another in enumerate(plain[number + 1 : MOST_COMPARED], start=number + 1):
            long = min(len(word), len(another)) > 4 and word[0] == another[0] and (word + another).isalpha()
            if word == another or (long and difflib.SequenceMatcher(None, word, another).ratio() > SIMILAR):
                found.append((names[number], names[other]))
    return found


def look_into(path: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None = None) -> Findings:
    """What `path` holds; bad files are told, whatever is to happen with them."""
    listing, side = list_own(path, options), options.image_size or DEFAULT_SIDE
    found = open_cache(listing, side, cache, on_progress)
    good = listing.taken(found.rows)
    names, labels, n_classes = [printable(path) for path in good.paths], good.labels, len(good.class_names)
    train, test = (np.bincount(labels[part], minlength=n_classes).tolist() for part in (~good.is_test, good.is_test))
    areas = found.sizes.astype(np.int64).prod(axis=1)
    smallest, largest = (tuple(found.sizes[row].tolist()) for row in (areas.argmin(), areas.argmax()))
    groups = same_pixels(found.hashes)
    return Findings(
        name=good.name, files=len(listing), images=len(good), train=sum(train), test=sum(test),
        per_class=dict(zip(good.class_names, train, strict=True)),
        test_per_class=dict(zip(good.class_names, test, strict=True)),
        smallest=smallest, largest=largest, image_size=side,
        true_labels=0 if good.true is None else int((good.true[~good.is_test] != UNKNOWN).sum()),
        timestamps=good.times is not None, ignored=listing.ignored, stray=listing.stray, bad=found.bad,
        duplicates=[[names[row] for row in group] for group in groups],
        conflicts=[
            [f"{names[row]} ({good.class_names[labels[row]]})" for row in group]
            for group in groups
            if len(set(labels[group].tolist())) > 1
        ],
        shared=sum(len(set(good.is_test[group].tolist())) > 1 for group in groups),
    )  # fmt: skip


def same_pixels(hashes: np.ndarray) -> list[np.ndarray]:
    """Rows with equal hashes, each group of at least two in rising order."""
    _, group, counts = np.unique(hashes, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    members = np.split(order, np.cumsum(counts)[:-1])
    return sorted((rows for rows in members if len(rows) > 1), key=lambda rows: int(rows[0]))
