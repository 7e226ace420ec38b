"""Image files as data: load a folder or a table of them, decoded once into a cache, and describe what it holds.

A cache is a folder: `images.u8` holds the good images, one after the other, and is memory-mapped. `facts.npz` has a
checksum of it, the row in the listing of each image, and what is wrong with the bad files. Each opening tries these
again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.data.arrays import read_arrays
from puridiver.data.base import UNKNOWN, DataSource, FileOptions, ImageSet, OnProgress, own_defaults, printable
from puridiver.data.images import decode
from puridiver.data.listing import Listing, list_folder
from puridiver.data.table import list_table
from puridiver.errors import DataError, few
from puridiver.files import file_lock

DEFAULT_SIDE = 32
BAD_FILES = ("refuse", "skip")
MOST_BAD = 10  # unreadable files that a description names
FORMAT = 4  # of the cache and of what `decode` returns: a new number makes every cache anew
BLOCK = 256  # files that the threads have before them at a time
FOLDER, IMAGES, FACTS = "image-cache", "images.u8", "facts.npz"


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


# The cache ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageCache:
    """The good images of a listing."""

    images: np.ndarray  # uint8 (N, S, S, 3), mapped from the file
    rows: np.ndarray  # int64 (N,): rows of the listing
    bad: dict[str, str]  # file name and what is wrong with it
    digest: str  # SHA-256 of the pixels


def open_cache(listing: Listing, side: int, root: Path, on_progress: OnProgress | None = None) -> ImageCache:
    """The cache of these files at this size; built in `root` if there is none, rebuilt if it is damaged."""
    if not 1 <= side <= 4096:
        raise ValueError(f"image size should be from 1 to 4096 pixels, but got {side}")
    paths = [os.path.join(os.path.realpath(listing.root), path) for path in listing.files["path"]]
    place = root / FOLDER / f"{side}px-{_key(paths)}"
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = file_lock(place.with_name(f".{place.name}.lock"), what=f"the image cache {place}")
    with lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of odd metadata, and of large pictures that we refuse
        found = _load(place, side)
        bad = [] if found is None else np.setdiff1d(np.arange(len(paths)), found.rows).tolist()
        # A bad file may be readable by now: a disk or a network may have failed.
        if found is None or any(not isinstance(decode(paths[row], side), str) for row in bad):
            _build(listing, paths, side, place, on_progress or (lambda done, total: None))
            found = _load(place, side)
    if found is None:
        raise DataError(f"the image cache {place} was damaged while it was written: is the disk sound?")
    if not len(found.rows):
        name, problem = next(iter(found.bad.items()))
        raise DataError(f"none of the {len(paths)} files of {listing.origin} can be read; {name}: {problem}")
    return found


def _key(paths: list[str]) -> str:
    """Changes with the names, sizes, times and order of files."""
    digest = hashlib.sha256(str(FORMAT).encode())
    for path in paths:
        found = os.stat(path) if os.path.exists(path) else None
        # The time of change, too: programs that copy or pack files set the time of writing.
        facts = found and (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        digest.update(path.encode("utf-8", "surrogatepass") + f"\0{facts}\n".encode())
    return digest.hexdigest()[:16]


def _load(place: Path, side: int) -> ImageCache | None:
    """The cache, its checksum compared; None where there is none or it is damaged."""
    try:
        facts: dict[str, Any] = read_arrays(place / FACTS, ("rows", "index"))
        index = json.loads(str(facts.pop("index")))
        with (place / IMAGES).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != index["digest"]:
                return None
        shape = (len(facts["rows"]), side, side, 3)
        # "c": the system reads on demand, and writes to the array stay in memory. An empty file cannot be mapped.
        images = np.memmap(place / IMAGES, np.uint8, "c", shape=shape) if shape[0] else np.zeros(shape, np.uint8)
        return ImageCache(images, **facts, **index)
    except (DataError, OSError, ValueError):
        return None


def _build(listing: Listing, paths: list[str], side: int, place: Path, on_progress: OnProgress) -> None:
    """Decode every file. The facts are written last: without them, or with another checksum, there is no cache."""
    shutil.rmtree(place, ignore_errors=True)  # damaged, or left by a killed process: we hold the lock
    place.mkdir()
    digest, bad, good = hashlib.sha256(), {}, []
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with (place / IMAGES).open("wb") as images, ThreadPoolExecutor(min(32, workers)) as pool:
        for start in range(0, len(paths), BLOCK):
            on_progress(start, len(paths))
            block = pool.map(lambda path: decode(path, side), paths[start : start + BLOCK])
            for row, one in enumerate(block, start):
                if isinstance(one, str):
                    bad[printable(listing.files["path"][row])] = one
                    continue
                images.write(one.tobytes())
                digest.update(one.tobytes())
                good.append(row)
    on_progress(len(paths), len(paths))
    index = json.dumps({"digest": digest.hexdigest(), "bad": bad})
    np.savez(place / FACTS, rows=np.array(good, dtype=np.int64), index=index)
