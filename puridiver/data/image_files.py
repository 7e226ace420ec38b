"""Image files as data: load a folder or a table of them, decoded once into a cache, and describe what it holds.

A cache is a folder: `images.u8` holds the good images, one after the other, and is memory-mapped. `facts.json` has a
checksum of it, and what is wrong with the bad files. Each opening tries these again.
"""

import hashlib
import os
import shutil
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from puridiver.data.base import UNKNOWN, DataSource, FileOptions, ImageSet, OnProgress, own_defaults, printable
from puridiver.data.images import decode, look
from puridiver.data.listing import Listing, list_folder, list_table
from puridiver.errors import DataError, counted, few
from puridiver.files import check_json, file_lock, read_json, to_json, write_atomically
from puridiver.runtime.device import cores

DEFAULT_SIDE = 32
KEPT_SIDES = range(4, 65)  # px: images that all have one size keep it where both sides are among these
BAD_FILES = ("refuse", "skip")
FORMAT = 6  # of the cache and of what `decode` returns: a new number makes every cache anew
BLOCK = 256  # files that the threads decode before the next progress report
FOLDER, IMAGES, FACTS = "image-cache", "images.u8", "facts.json"


def list_own(path: Path, test_share: float | None) -> Listing:
    """The image files of a folder or of a table."""
    if not path.exists():
        raise DataError(f"there is no {path}")
    return list_folder(path, test_share) if path.is_dir() else list_table(path, test_share)


def load_listing(listing: Listing, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
    """A data source of the listed files, decoded once, into the cache in `root`."""
    if options.bad_files not in BAD_FILES:
        raise ValueError(f"bad_files should be one of {', '.join(BAD_FILES)}, but got {options.bad_files!r}")
    found = open_cache(listing, options.image_size, root, on_progress)
    if found.bad and options.bad_files == "refuse":
        told = f"{len(found.bad)} of {len(listing.files)} files of {listing.origin} cannot be read:"
        lines = few((f"\n  {name}: {problem}" for name, problem in found.bad.items()), between="")
        raise DataError(f"{told}{lines};\nmend or remove them, or leave them out with --bad-files skip")
    files = listing.files.iloc[found.rows]
    n_train, names = int((~files["is_test"]).sum()), [printable(path) for path in files["path"]]
    if not n_train:
        raise DataError(f"{listing.origin} has no train image that can be read")
    labels, true = (torch.tensor(files[column].to_numpy()) for column in ("label", "true_label"))
    times = torch.tensor(files["time"].to_numpy()) if "time" in files else None
    both = ImageSet(torch.from_numpy(found.images), labels, true, times, names)
    train, test = (
        replace(both.part(slice(start, stop)), pixels_digest=f"{found.digest} {start} {stop}")
        for start, stop in ((0, n_train), (n_train, len(files)))
    )
    defaults, bad = own_defaults(train.labels), tuple(found.bad)
    return DataSource(listing.name, listing.class_names, train, test.to_test_on(), None, defaults, bad)


def describe(
    path: Path, root: Path, options: FileOptions, on_progress: OnProgress | None = None
) -> list[tuple[str, str]]:
    """What `path` holds, as rows of a table. Bad files are named, whatever `options` say of them."""
    listing = list_own(path, options.test_share)
    found = open_cache(listing, options.image_size, root, on_progress)
    names = np.array(listing.class_names, dtype=object)
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
        *(("  " + name, problem) for name, problem in list(found.bad.items())[:10]),
        ("copies with different labels", few([counted(len(conflicts), "group"), *conflicts], between="; ")),
    ]
    return [(what, told) for what, told in rows if told]


# The cache ---------------------------------------------------------------------------------------------------------


class ImageCache(NamedTuple):
    """The good images of a listing."""

    images: np.ndarray  # uint8 (N, H, W, 1 or 3), mapped from the file
    rows: list[int]  # of the listing, N
    bad: dict[str, str]  # file name and what is wrong with it
    digest: str  # SHA-256 of the pixels


def open_cache(
    listing: Listing, size: int | tuple[int, int] | None, root: Path, on_progress: OnProgress | None = None
) -> ImageCache:
    """The cache of these files at this size; built in `root` if there is none, rebuilt if it is damaged.

    Without a size, small images that all have one size keep it, and others get DEFAULT_SIDE. Images stay grey where all
    are.
    """
    size = (size, size) if isinstance(size, int) else size
    if size is not None and not all(1 <= side <= 4096 for side in size):
        raise ValueError(f"image size should be from 1 to 4096 pixels, but got {size[0]}")
    folder = os.path.realpath(listing.root)
    files = [(printable(path), os.path.join(folder, path)) for path in listing.files["path"]]
    place = root / FOLDER / f"{'x'.join(map(str, size)) if size else 'own'}px-{_key(files)}"
    place.parent.mkdir(parents=True, exist_ok=True)
    lock = file_lock(place.with_name(f".{place.name}.lock"), what=f"the image cache {place}")
    with lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of odd metadata, and of large pictures that we refuse
        found = _load(place, files)
        bad = [] if found is None else [path for name, path in files if name in found.bad]
        # A bad file may be readable by now: a disk or a network may have failed.
        if found is None or any(not isinstance(decode(path, found.images.shape[1:]), str) for path in bad):
            _build(place, files, size, on_progress or (lambda done, total: None))
            found = _load(place, files)
    if found is None:
        raise DataError(f"the image cache {place} was damaged while it was written: is the disk sound?")
    if not found.rows:
        name, problem = next(iter(found.bad.items()))
        raise DataError(f"none of the {len(files)} files of {listing.origin} can be read; {name}: {problem}")
    return found


def _key(files: list[tuple[str, str]]) -> str:
    """A hash of the names, sizes, times and order of the files."""
    digest = hashlib.sha256(str(FORMAT).encode())
    for _, path in files:
        found = os.stat(path) if os.path.exists(path) else None
        # ctime as well: programs that copy or unpack files set mtime.
        facts = found and (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        digest.update(path.encode("utf-8", "surrogatepass") + f"\0{facts}\n".encode())
    return digest.hexdigest()[:16]


def _load(place: Path, files: list[tuple[str, str]]) -> ImageCache | None:
    """The cache, its checksum compared; None where there is none or it is damaged."""
    try:
        facts = check_json(read_json(place / FACTS), {"digest": str, "bad": {str: str}, "shape": [int, 3]}, str(place))
        with (place / IMAGES).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != facts["digest"]:
                return None
        rows = [row for row, (name, _) in enumerate(files) if name not in facts["bad"]]
        shape = (len(rows), *facts["shape"])
        # "c": the system reads on demand, and writes to the array stay in memory. An empty file cannot be mapped.
        images = np.memmap(place / IMAGES, np.uint8, "c").reshape(shape) if rows else np.zeros(shape, np.uint8)
        return ImageCache(images, rows, facts["bad"], facts["digest"])
    except (DataError, OSError, ValueError):
        return None


def _shape(files: list[tuple[str, str]], size: tuple[int, int] | None) -> tuple[int, int, int]:
    """(height, width, channels) for these files; opens only as many of them as it needs."""
    sizes, all_grey = set[tuple[int, int]](), True
    for found in filter(None, (look(path) for _, path in files)):
        sizes.add(found[0])
        all_grey = all_grey and found[1]
        if not all_grey and (size is not None or len(sizes) > 1):
            break
    if size is None:
        own = next(iter(sizes)) if len(sizes) == 1 else ()
        size = own if own and set(own) <= set(KEPT_SIDES) else (DEFAULT_SIDE, DEFAULT_SIDE)
    return *size, 1 if all_grey and sizes else 3


def _build(place: Path, files: list[tuple[str, str]], size: tuple[int, int] | None, on_progress: OnProgress) -> None:
    """Decode every file. The facts are written last: without them, or with another checksum, there is no cache."""
    shutil.rmtree(place, ignore_errors=True)  # damaged, or left by a killed process: we hold the lock
    place.mkdir()
    digest, bad, shape = hashlib.sha256(), {}, _shape(files, size)
    with (place / IMAGES).open("wb") as images, ThreadPoolExecutor(min(32, cores())) as pool:
        for start in range(0, len(files), BLOCK):
            on_progress(start, len(files))
            block = files[start : start + BLOCK]
            decoded = pool.map(lambda file: decode(file[1], shape), block)
            for (name, _), one in zip(block, decoded, strict=True):
                if isinstance(one, str):
                    bad[name] = one
                else:
                    images.write(one.tobytes())
                    digest.update(one.tobytes())
    on_progress(len(files), len(files))
    write_atomically(place / FACTS, to_json({"digest": digest.hexdigest(), "bad": bad, "shape": shape}).encode())
