"""Image files as data: load a folder or a table of them, and describe what it holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from puridiver.data.base import UNKNOWN, DataSource, FileOptions, ImageSet, OnProgress, own_defaults, printable
from puridiver.data.cache import open_cache
from puridiver.data.listing import Listing, list_folder
from puridiver.data.table import list_table
from puridiver.errors import DataError, few

DEFAULT_SIDE = 32
BAD_FILES = ("refuse", "skip")
MOST_BAD = 10  # unreadable files that a description names


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
        lines = few((f"\n  {name}: {problem}" for name, problem in found.bad.items()), between="")
        raise DataError(f"{told}{lines};\nmend or remove them, or leave them out with --bad-files skip")
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


def describe(
    path: Path, root: Path, options: FileOptions, on_progress: OnProgress | None = None
) -> list[tuple[str, str]]:
    """What `path` holds, as rows of a table. Bad files are named, whatever `options` say of them."""
    listing, side = list_own(path, options.test_share), options.image_size or DEFAULT_SIDE
    found, names = open_cache(listing, side, root, on_progress), np.array(listing.class_names, dtype=object)
    good = listing.files.iloc[found.rows].assign(pixels=[hash(image.tobytes()) for image in found.images])
    good["path"] = good["path"].map(printable) + " (" + names[good["label"]] + ")"
    train, test = (np.bincount(good["label"][good["is_test"] == part], minlength=len(names)) for part in (False, True))
    known = int((good["true_label"][~good["is_test"]] != UNKNOWN).sum())
    copies = good[good["pixels"].duplicated(keep=False)].groupby("pixels", sort=False)
    conflicts = [few(group["path"]) for _, group in copies if group["label"].nunique() > 1]
    rows = [
        ("images", f"{len(good):,}: {train.sum():,} to train, {test.sum():,} to test"),
        ("classes", f"{len(names):,}, with {train.min():,} to {train.max():,} train images each"),
        ("classes without train images", few(names[train == 0])),
        ("classes without test images", few(names[test == 0]) if test.any() else ""),
        ("true labels", f"known of {known:,} train images" if known else "not known"),
        ("timestamps", "yes" if "time" in good else "none"),
        ("unreadable files", str(len(found.bad))),
        *(("  " + name, problem) for name, problem in list(found.bad.items())[:MOST_BAD]),
        ("copies with different labels", few([f"{len(conflicts):,} groups", *conflicts], between="; ")),
    ]
    return [(what, told) for what, told in rows if told]
