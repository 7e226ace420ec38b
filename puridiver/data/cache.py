"""Decoded images in one file of fixed-size uint8 pixels that is mapped, not read: made once, in parallel, verified.

A cache is a folder: `images.u8` (the good images, one after the other), `facts.safetensors` (of every good image its
row in the listing, its size and the hash of its pixels) and `index.json` (checksums, what was wrong with the bad ones).
It is built beside its final place, block by block with a line of `progress.jsonl` for each, and moved there when whole:
a build that was killed goes on where it stopped. Files that could not be read are tried again when a cache is opened;
if one can be read by then, the cache is made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from puridiver.data.decode import HASH_BYTES, Decoded, decode, require_pillow
from puridiver.data.listing import Listing, printable
from puridiver.errors import DataError
from puridiver.files import file_lock, sync_folder, write_atomically

FORMAT = 1  # of the cache, and of what `decode` makes of a file: a new one makes every cache anew
BLOCK = 256  # files between two lines of progress
READ_BYTES = 16 << 20
IMAGES, FACTS, INDEX, PROGRESS = "images.u8", "facts.safetensors", "index.json", "progress.jsonl"

OnProgress = Callable[[int, int], None]


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
    fingerprint = listing.fingerprint()
    key = hashlib.sha256(f"{FORMAT} {side} {fingerprint}".encode()).hexdigest()[:16]
    place = folder / f"{_safe(listing.name)}-{side}px-{key}"
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / f".{place.name}.lock", what=f"the image cache {place}"):
        found = _load(place, side)
        if found is None or _any_readable(listing, side, _bad_rows(listing, found)):
            found = _made_anew(listing, side, place, on_progress or (lambda done, total: None))
    if not len(found.rows):
        name, problem = next(iter(found.bad.items()))
        raise DataError(f"none of the {len(listing)} files of {listing.origin} can be read; {name}: {problem}")
    return found


def _made_anew(listing: Listing, side: int, place: Path, on_progress: OnProgress) -> ImageCache:
    shutil.rmtree(place, ignore_errors=True)
    try:
        _build(listing, side, place, on_progress)
    except OSError as error:  # a write that fails does not say where
        if error.errno is None or error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, str(place.parent)) from error
    found = _load(place, side)
    if found is None:
        raise DataError(f"the image cache {place} was damaged while it was written: is the disk sound?")
    return found


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in name)[:40] or "images"


# Reading -----------------------------------------------------------------------------------------------------------


def _load(place: Path, side: int) -> ImageCache | None:
    """The cache, its checksums compared; None where there is none or it is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        index = json.loads((place / INDEX).read_text())
        facts = (place / FACTS).read_bytes()
        sound = hashlib.sha256(facts).hexdigest() == index["facts_sha256"]
        if not sound or file_digest(place / IMAGES) != index["images_sha256"]:
            return None
        found = load(facts)
        shape = (len(found["rows"]), side, side, 3)
        return ImageCache(map_images(place / IMAGES, shape), **found, bad=index["bad"], digest=index["images_sha256"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None


def _bad_rows(listing: Listing, found: ImageCache) -> list[int]:
    return np.setdiff1d(np.arange(len(listing)), found.rows).tolist()


def _any_readable(listing: Listing, side: int, bad: list[int]) -> bool:
    """Whether a file that could not be read now can: a disk, a network or a permission may have failed for a while."""
    if not bad:
        return False
    require_pillow()
    with ThreadPoolExecutor(_workers()) as pool, _quietly():
        return any(pool.map(lambda row: not _decode_row(listing, side, row).problem, bad))


def _workers() -> int:
    return min(32, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def map_images(path: Path, shape: tuple[int, int, int, int]) -> np.ndarray:
    """The file's pixels as an array that the system reads on demand; what is written to it stays in memory."""
    if 0 in shape:  # nothing cannot be mapped
        return np.zeros(shape, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="c", shape=shape)


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# Building ----------------------------------------------------------------------------------------------------------


def _build(listing: Listing, side: int, place: Path, on_progress: OnProgress) -> None:
    require_pillow()
    scratch = place.with_name(place.name + ".building")
    scratch.mkdir(exist_ok=True)
    with (scratch / IMAGES).open("r+b" if (scratch / IMAGES).exists() else "w+b") as images:
        blocks = _decode_all(listing, side, scratch, images, on_progress)
        _finish(listing, side, scratch, images, blocks)
    os.rename(scratch, place)
    sync_folder(place.parent)


def _decode_all(
    listing: Listing, side: int, scratch: Path, images: BinaryIO, on_progress: OnProgress
) -> list[dict[str, Any]]:
    """What is known of every block; those that an earlier process wrote whole are not decoded again."""
    size, total = side * side * 3, len(listing)
    blocks = _blocks_done(listing, side, scratch / PROGRESS, images)
    images.seek(len(blocks) * BLOCK * size)
    with ThreadPoolExecutor(_workers()) as pool, _quietly(), (scratch / PROGRESS).open("a") as progress:
        for start in range(len(blocks) * BLOCK, total, BLOCK):
            on_progress(start, total)
            rows = range(start, min(start + BLOCK, total))
            decoded = list(pool.map(partial(_decode_row, listing, side), rows))
            pixels = b"".join(bytes(size) if one.pixels is None else one.pixels.tobytes() for one in decoded)
            images.write(pixels)
            images.flush()
            blocks.append(_block_facts(start, decoded, pixels))
            progress.write(json.dumps(blocks[-1]) + "\n")
            progress.flush()
    on_progress(total, total)
    return blocks


def _decode_row(listing: Listing, side: int, row: int) -> Decoded:
    return decode(listing.full_path(row), side)


@contextmanager
def _quietly() -> Iterator[None]:
    """Pillow warns of odd metadata and of large pictures; the latter are refused by their size."""
    with warnings.catch_warnings():  # here and not in the threads, which share the filters
        warnings.simplefilter("ignore")
        yield


def _block_facts(start: int, decoded: list[Decoded], pixels: bytes) -> dict[str, Any]:
    return {
        "start": start,
        "sha256": hashlib.sha256(pixels).hexdigest(),
        "sizes": [one.size for one in decoded],
        "hashes": b"".join(one.digest for one in decoded).hex(),
        "bad": {i: one.problem for i, one in enumerate(decoded) if one.problem},
    }


def _blocks_done(listing: Listing, side: int, progress: Path, images: BinaryIO) -> list[dict[str, Any]]:
    """The blocks that are on the disk as the progress file says, up to the first that is damaged or can be bettered."""
    try:
        lines = progress.read_text().splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        lines = []
    blocks: list[dict[str, Any]] = []
    images.seek(0)
    for line in lines:
        try:
            block = json.loads(line)
            pixels = images.read(len(block["sizes"]) * side * side * 3)
            whole = hashlib.sha256(pixels).hexdigest() == block["sha256"] and block["start"] == len(blocks) * BLOCK
            bad = [block["start"] + int(i) for i in block["bad"]]
        except (ValueError, KeyError, TypeError):
            break  # half a line: the process was killed while it wrote it
        if not whole or _any_readable(listing, side, bad):
            break
        blocks.append(block)
    write_atomically(progress, "".join(json.dumps(block) + "\n" for block in blocks).encode())
    return blocks


def _finish(listing: Listing, side: int, scratch: Path, images: BinaryIO, blocks: list[dict[str, Any]]) -> None:
    from safetensors.numpy import save

    bad = {block["start"] + int(i): problem for block in blocks for i, problem in block["bad"].items()}
    good = np.setdiff1d(np.arange(len(listing)), np.array(sorted(bad), dtype=np.int64))
    hashes = np.frombuffer(bytes.fromhex("".join(block["hashes"] for block in blocks)), dtype=np.uint8)
    sizes = np.array([size for block in blocks for size in block["sizes"]], dtype=np.int32)
    # From here on the pixels move: a build that is killed now has to begin again.
    (scratch / PROGRESS).unlink()
    _close_gaps(images, good, side * side * 3)
    facts = save({"rows": good, "sizes": sizes[good], "hashes": hashes.reshape(-1, HASH_BYTES)[good]})
    write_atomically(scratch / FACTS, facts)
    index = {
        "format": FORMAT,
        "side": side,
        "images": len(good),
        "images_sha256": file_digest(scratch / IMAGES),
        "facts_sha256": hashlib.sha256(facts).hexdigest(),
        "bad": {printable(listing.paths[row]): problem for row, problem in bad.items()},
    }
    write_atomically(scratch / INDEX, json.dumps(index, indent=1).encode())


def _close_gaps(images: BinaryIO, good: np.ndarray, size: int) -> None:
    """Move the good images together, so that train and test are each one stretch of the file, and cut the rest off."""
    for new, old in enumerate(good.tolist()):
        if new != old:
            images.seek(old * size)
            pixels = images.read(size)
            images.seek(new * size)
            images.write(pixels)
    images.truncate(len(good) * size)
    images.flush()
    os.fsync(images.fileno())
