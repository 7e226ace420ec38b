"""Decoded images in one file of fixed-size pixels that is memory-mapped: made once, in parallel, with a checksum.

A cache is a folder: `images.u8` holds the good images, one after the other; `facts.npz` says of each its row in the
listing, and what is wrong with the bad files. Each opening tries bad files again.
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

from puridiver.data.arrays import read_arrays
from puridiver.data.base import OnProgress, printable
from puridiver.data.images import decode
from puridiver.data.listing import Listing
from puridiver.errors import DataError
from puridiver.files import file_lock

FORMAT = 4  # of the cache and of what `decode` returns: a new number makes every cache anew
BLOCK = 256  # files that the threads have before them at a time
FOLDER, IMAGES, FACTS = "image-cache", "images.u8", "facts.npz"


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
