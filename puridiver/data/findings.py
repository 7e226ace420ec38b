"""What a folder or a table of images holds: counts, sizes, unreadable files, duplicates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from puridiver.data.base import UNKNOWN, FileOptions, OnProgress
from puridiver.data.cache import open_cache
from puridiver.data.files import DEFAULT_SIDE, NAMED, list_own
from puridiver.data.listing import printable
from puridiver.errors import few


def look_into(path: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None = None) -> dict[str, Any]:
    """What `path` holds, ready for JSON. Bad files are named, whatever `options` say of them."""
    listing, side = list_own(path, options.test_share), options.image_size or DEFAULT_SIDE
    found, names = open_cache(listing, side, cache, on_progress), listing.class_names
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
    """The findings of `look_into` in lines for people; long lists are shortened."""
    per_class, conflicts = found["per_class"], found["conflicts"]
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
        f"unreadable files: {len(found['bad'])}",
        *_first([f"{name}: {problem}" for name, problem in found["bad"].items()]),
        f"duplicates: {copies:,} images have the same pixels as another{shared}",
        f"conflicting duplicates (same pixels, different labels): {len(conflicts)} "
        f"{'group' if len(conflicts) == 1 else 'groups'}",
        *_first([few(group) for group in conflicts]),
    ]
    if found["stray"]:
        lines.append(f"images in no class's folder, or in a second part to test on, left out: {found['stray']}")
    return [*lines, f"other files, left out by their names: {found['ignored']}"] if found["ignored"] else lines


def _first(items: list[str]) -> list[str]:
    more = [f"  ... and {len(items) - NAMED} more"] if len(items) > NAMED else []
    return [f"  {item}" for item in items[:NAMED]] + more
