"""Image files as data: load a folder or a table of them, and describe what it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from puridiver.data.base import UNKNOWN, DataSource, FileOptions, ImageSet, OnProgress, own_defaults, printable
from puridiver.data.cache import open_cache
from puridiver.data.listing import Listing, list_folder
from puridiver.data.table import list_table
from puridiver.errors import DataError, few, few_lines

DEFAULT_SIDE = 32
BAD_FILES = ("refuse", "skip")


def list_own(path: Path, test_share: float | None) -> Listing:
    """The image files of a folder or of a table."""
    if not path.exists():
        raise DataError(f"there is no {path}")
    return list_folder(path, test_share) if path.is_dir() else list_table(path, test_share)


def load_listing(listing: Listing, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
    """A data source of the listed files, decoded once, into the cache in `root`."""
    if options.bad_files not in BAD_FILES:
        raise ValueError(f"bad_files should be one of {', '.join(BAD_FILES)}, but got {options.bad_files!r}")
    found = open_cache(listing, options.image_size or DEFAULT_SIDE, root, on_progress)
    if found.bad and options.bad_files == "refuse":
        told = f"{len(found.bad)} of {len(listing.files)} files of {listing.origin} cannot be read:"
        lines = few_lines(f"{name}: {problem}" for name, problem in found.bad.items())
        raise DataError("\n  ".join([told, *lines]) + ";\nmend or remove them, or leave them out with --bad-files skip")
    good, images, parts, start = listing.files.iloc[found.rows], torch.from_numpy(found.images), [], 0
    for is_test in (False, True):
        files = good[good["is_test"] == is_test]
        stop = start + len(files)
        labels, true = (torch.tensor(files[column].to_numpy()) for column in ("label", "true_label"))
        times = torch.tensor(files["time"].to_numpy()) if "time" in files else None
        names = [printable(path) for path in files["path"]]
        part = ImageSet(images[start:stop], labels, true, times, names, f"{found.digest} {start} {stop}")
        parts.append(part.trusted() if options.trust_labels else part)
        start = stop
    train, test = parts
    if not len(train):
        raise DataError(f"{listing.origin} has no train image that can be read")
    return DataSource(
        listing.name, listing.class_names, train, test.to_test_on(), None, own_defaults(train.labels), tuple(found.bad)
    )


def inspect(path: Path, root: Path, options: FileOptions, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """What `path` holds, ready for JSON. Bad files are named, whatever `options` say of them."""
    listing, side = list_own(path, options.test_share), options.image_size or DEFAULT_SIDE
    found, names = open_cache(listing, side, root, on_progress), listing.class_names
    good = listing.files.iloc[found.rows].assign(pixels=[one.tobytes() for one in found.hashes])
    good["path"] = good["path"].map(printable)
    counts = [good["label"][good["is_test"] == part].value_counts() for part in (False, True)]
    train, test = ({name: int(count.get(label, 0)) for label, name in enumerate(names)} for count in counts)
    areas = found.sizes.astype(int).prod(axis=1)
    groups = [group for _, group in good[good["pixels"].duplicated(keep=False)].groupby("pixels", sort=False)]
    return {
        "name": listing.name,
        "files": len(listing.files),
        "images": len(good),
        "train": sum(train.values()),
        "test": sum(test.values()),
        "per_class": train,
        "test_per_class": test,
        "smallest": found.sizes[areas.argmin()].tolist(),  # width and height
        "largest": found.sizes[areas.argmax()].tolist(),
        "image_size": side,
        "true_labels": int((good["true_label"][~good["is_test"]] != UNKNOWN).sum()),  # known ones of train images
        "timestamps": "time" in good,
        "ignored": listing.ignored,
        "stray": listing.stray,
        "bad": found.bad,
        "duplicates": [group["path"].tolist() for group in groups],  # files with the same pixels
        "conflicts": [  # with different labels
            [f"{file.path} ({names[file.label]})" for file in group.itertuples()]
            for group in groups
            if group["label"].nunique() > 1
        ],
        "shared": sum(group["is_test"].nunique() > 1 for group in groups),  # between train and test
    }


def describe(found: dict[str, Any]) -> list[str]:
    """The findings of `inspect` in lines for people; long lists are shortened."""
    per_class, bad, conflicts = found["per_class"], found["bad"], found["conflicts"]
    known = f"known of {found['true_labels']:,} train images" if found["true_labels"] else "not known"
    copies = sum(len(group) - 1 for group in found["duplicates"])
    shared = f"; {found['shared']} groups are in train and test" if found["shared"] else ""
    sizes = (*found["smallest"], *found["largest"], found["image_size"], found["image_size"])
    lines = [
        f"{found['images']:,} images in {len(per_class)} {'class' if len(per_class) == 1 else 'classes'}: "
        f"{found['train']:,} to train, {found['test']:,} to test",
        f"train images a class: {min(per_class.values()):,} to {max(per_class.values()):,}",
    ]
    for part, counts in (("train", per_class), ("test", found["test_per_class"] if found["test"] else {})):
        if missing := [repr(name) for name, count in counts.items() if not count]:
            lines.append(f"classes without a {part} image: {few(missing)}")
    lines += [
        "sizes: {} x {} to {} x {}, all cut to {} x {}".format(*sizes),
        f"true labels: {known}; timestamps: {'yes' if found['timestamps'] else 'none'}",
        f"unreadable files: {len(bad)}",
        *(f"  {line}" for line in few_lines(f"{name}: {problem}" for name, problem in bad.items())),
        f"duplicates: {copies:,} images have the same pixels as another{shared}",
        f"conflicting duplicates (same pixels, different labels): {len(conflicts)} "
        f"{'group' if len(conflicts) == 1 else 'groups'}",
        *(f"  {line}" for line in few_lines(map(few, conflicts))),
    ]
    if found["stray"]:
        lines.append(f"images in no class's folder, or in a second part to test on, left out: {found['stray']}")
    return [*lines, f"other files, left out by their names: {found['ignored']}"] if found["ignored"] else lines
