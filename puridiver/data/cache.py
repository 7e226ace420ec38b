"""Decoded images in one file of fixed-size uint8 pixels that is mapped, not read: made once, in parallel, verified.

A cache is a folder: `images.u8` (the good images, one after the other), `facts.npz` (of every good image its row in the
listing, its size and the hash of its pixels) and `index.json` (the checksum, what was wrong with the bad ones). It is
built beside its final place and moved there when whole. Files that could not be read are tried again when a cache is
opened; if one can be read by then, the cache is made anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from puridiver.data.base import OnProgress
from puridiver.data.decode import HASH_BYTES, Decoded, decode, require_pillow
from puridiver.data.listing import Listing, printable
from puridiver.data.numpy_files import read_arrays
from puridiver.errors import DataError
from puridiver.files import file_lock, read_json, sync_folder, write_atomically

FORMAT = 2  # of the cache, and of what `decode` makes of a file: a new one makes every cache anew
BLOCK = 256  # files that the threads have before them at a time
IMAGES, FACTS, INDEX = "images.u8", "facts.npz", "index.json"


@dataclass(frozen=True)
class ImageCache:
    """The good images of a listing."""

    images: np.ndarray  # uint8 (N, S, S, 3), mapped from the file
    rows: np.ndarray  # int64 (N,): where each stands in the listing
    sizes: np.ndarray  # int32 (N, 2): width and height before resizing
    hashes: np.ndarray  # uint8 (N, 16): of all pixels before resizing
    bad: dict[str, str]  # file -> what is wrong with it
    digest: str  # SHA-256 of the pixels


def open_cache(listing: Listing, side: int, folder: Path, on_progress: OnProgress | None = None) -> ImageCache:
    """The cache of these files at this size below `folder`; built if there is none, rebuilt if it is damaged."""
    if not 1 <= side <= 4096:
        raise ValueError(f"image size should be from 1 to 4096 pixels, but got {side}")
    key = hashlib.sha256(f"{FORMAT} {side} {listing.fingerprint()}".encode()).hexdigest()[:16]
    name = "".join(c if c.isalnum() and c.isascii() else "-" for c in listing.name)[:40] or "images"
    place = folder / f"{name}-{side}px-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / f".{place.name}.lock", what=f"the image cache {place}"):
        found = _load(place, side)
        if found is None or _any_readable(listing, side, found):
            shutil.rmtree(place, ignore_errors=True)
            _build(listing, side, place, on_progress or (lambda done, total: None))
            found = _load(place, side)
        if found is None:
            raise DataError(f"the image cache {place} was damaged while it was written: is the disk sound?")
    if not len(found.rows):
        name, problem = next(iter(found.bad.items()))
        raise DataError(f"none of the {len(listing)} files of {listing.origin} can be read; {name}: {problem}")
    return found


def _load(place: Path, side: int) -> ImageCache | None:
    """The cache, its checksum compared; None where there is none or it is damaged."""
    try:
        index, facts = read_json(place / INDEX), read_arrays(place / FACTS, ("rows", "sizes", "hashes"))
        with (place / IMAGES).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != index["images_sha256"]:
                return None
        shape = (len(facts["rows"]), side, side, 3)
        # "c": the system reads on demand, and what is written to the array stays in memory. Nothing cannot be mapped.
        images = np.memmap(place / IMAGES, np.uint8, "c", shape=shape) if shape[0] else np.zeros(shape, np.uint8)
        return ImageCache(images, **facts, bad=index["bad"], digest=index["images_sha256"])
    except (DataError, OSError, ValueError, KeyError, TypeError):
        return None


def _any_readable(listing: Listing, side: int, found: ImageCache) -> bool:
    """Whether a bad file can be read by now: a disk, a network or a permission may have failed for a while."""
    bad = np.setdiff1d(np.arange(len(listing)), found.rows).tolist()
    return any(not one.problem for one in _decode_rows(listing, side, bad))


def _decode_rows(listing: Listing, side: int, rows: Iterable[int]) -> Iterator[Decoded]:
    """Decode in as many threads as there are processors; results come in order, some at a time."""
    require_pillow()
    rows = list(rows)
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(min(32, workers)) as pool, warnings.catch_warnings():
        # Pillow warns of odd metadata and of large pictures; the latter are refused by their size.
        warnings.simplefilter("ignore")
        for start in range(0, len(rows), BLOCK):
            yield from pool.map(lambda row: decode(listing.full_path(row), side), rows[start : start + BLOCK])


def _build(listing: Listing, side: int, place: Path, on_progress: OnProgress) -> None:
    scratch = place.with_name(place.name + ".building")
    shutil.rmtree(scratch, ignore_errors=True)  # left by a killed process: we hold the lock
    scratch.mkdir()
    digest, bad = hashlib.sha256(), {}
    rows, sizes, hashes = [], [], []
    try:
        with (scratch / IMAGES).open("wb") as images:
            for row, one in enumerate(_decode_rows(listing, side, range(len(listing)))):
                if row % BLOCK == 0:
                    on_progress(row, len(listing))
                if one.pixels is None:
                    bad[printable(listing.paths[row])] = one.problem
                    continue
                pixels = one.pixels.tobytes()
                images.write(pixels)
                digest.update(pixels)
                rows.append(row)
                sizes.append(one.size)
                hashes.append(one.digest)
            images.flush()
            os.fsync(images.fileno())
        on_progress(len(listing), len(listing))
        facts = io.BytesIO()
        np.savez(
            facts, rows=np.array(rows, dtype=np.int64), sizes=np.array(sizes, dtype=np.int32).reshape(-1, 2),
            hashes=np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(-1, HASH_BYTES),
        )  # fmt: skip
        write_atomically(scratch / FACTS, facts.getvalue())
        write_atomically(scratch / INDEX, json.dumps({"images_sha256": digest.hexdigest(), "bad": bad}).encode())
        os.rename(scratch, place)
    except OSError as error:  # a write that fails does not say where
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, str(place.parent)) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sync_folder(place.parent)
