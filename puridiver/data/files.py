"""Data sources made of image files: your own folders and tables, and what there is to say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.data.base import UNKNOWN, DataSource, ImageSet, suited_tasks
from puridiver.data.cache import ImageCache, OnProgress, open_cache
from puridiver.data.listing import Listing, list_folder, printable
from puridiver.data.table import READERS, list_table
from puridiver.errors import DataError

DEFAULT_SIDE = 32
NAMED = 10  # files that a message lists one by one
BAD_FILES = ("refuse", "skip")


@dataclass(frozen=True)
class FileOptions:
    """How image files become a data source.

    Parameters
    ----------
    image_size
        Pixels of the square that every image is cut and resized to; None: what suits the data.
    test_share
        Share of each class that is kept out of the stream for testing, where the data have no test part.
    bad_files
        What happens with files that cannot be read: "refuse" the data or "skip" the files.
    trust_labels
        Take the labels for true where the data say nothing of true ones; then noise can be planted and measured.
    """

    image_size: int | None = None
    test_share: float | None = None
    bad_files: str = "refuse"
    trust_labels: bool = False

    def __post_init__(self) -> None:
        if self.bad_files not in BAD_FILES:
            raise ValueError(f"bad_files should be one of {', '.join(BAD_FILES)}, but got {self.bad_files!r}")

    def refuse_any(self, name: str, but: str = "") -> None:
        """For data that are not made of image files."""
        for field in ("image_size", "test_share"):
            if field != but and getattr(self, field) is not None:
                raise ValueError(f"{field} is for data made of image files: leave it out with {name}")


def is_own(name: str) -> bool:
    """Whether this names a folder or a table of image files."""
    return Path(name).suffix.lower() in READERS or Path(name).is_dir()


def is_own_or_arrays(name: str) -> bool:
    """Whether this names data of one's own: image files, or arrays in an .npz file."""
    return is_own(name) or name.endswith(".npz")


def load_own(path: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None = None) -> DataSource:
    """The images of a folder or a table; decoded once, into `cache`."""
    return load_listing(list_own(path, options), cache, options, on_progress)


def list_own(path: Path, options: FileOptions) -> Listing:
    if not path.exists():
        raise DataError(f"there is no {path}")
    if not (path.is_dir() or path.is_file()):
        raise DataError(f"{path} is neither a file nor a folder")
    if not is_own(str(path)):
        hint = f"; arrays are read by --data {path}" if path.suffix == ".npz" else ""
        raise DataError(f"{path} should be a folder of images, or a table that ends in {', '.join(READERS)}{hint}")
    reader: Callable[[Path, float | None], Listing] = list_folder if path.is_dir() else list_table
    return reader(path, options.test_share)


def load_listing(
    listing: Listing,
    cache: Path,
    options: FileOptions,
    on_progress: OnProgress | None = None,
    defaults: dict[str, Any] | None = None,
) -> DataSource:
    """A data source of the listing's files. Labels pass as they came, so that no noise is added unless asked for."""
    found = open_cache(listing, options.image_size or DEFAULT_SIDE, cache, on_progress)
    if found.bad and options.bad_files == "refuse":
        raise DataError(bad_files_message(listing, found))
    train = found.rows[~listing.is_test[found.rows]]
    suited = {"noise": "none", "tasks": suited_tasks(listing.labels[train]), **(defaults or {})}
    return source_of(listing, found, options, suited)


def trust_message(data: str) -> str:
    return (
        f"{data} says of some images what their true labels are, so that those it gives cannot be taken for true: "
        "leave --trust-labels out"
    )


def source_of(listing: Listing, found: ImageCache, options: FileOptions, defaults: dict[str, Any]) -> DataSource:
    good = listing.taken(found.rows)
    n_train = int((~good.is_test).sum())
    if n_train == 0:
        raise DataError(f"{listing.origin} has no train image that can be read")
    images = torch.from_numpy(found.images)
    unknown = good.true is None or (good.true == UNKNOWN).all()
    if options.trust_labels and not unknown:
        raise DataError(trust_message(listing.origin))
    true = None if options.trust_labels else good.true

    def part(start: int, stop: int, true: np.ndarray | None) -> ImageSet:
        rows = slice(start, stop)
        return ImageSet(
            images[rows],
            torch.from_numpy(good.labels[rows].copy()),
            None if true is None else torch.from_numpy(true[rows].copy()),
            None if good.times is None else torch.from_numpy(good.times[rows].copy()),
            [printable(path) for path in good.paths[rows]],
            f"{found.digest} {start} {stop}",
        )

    test = part(n_train, len(good), true).to_test_on()
    return DataSource(listing.name, listing.class_names, part(0, n_train, true), test, None, defaults, tuple(found.bad))


def bad_files_message(listing: Listing, found: ImageCache) -> str:
    n = len(found.bad)
    shown = "".join(f"\n  {name}: {problem}" for name, problem in list(found.bad.items())[:NAMED])
    more = f"\n  ... and {n - NAMED} more" if n > NAMED else ""
    return (
        f"{n} of {len(listing)} files of {listing.origin} cannot be read:{shown}{more}\n"
        "mend or remove them, or leave them out with --bad-files skip"
    )
