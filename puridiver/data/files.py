"""Data sources made of image files: folders and tables of one's own, and data sets published as lists of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from puridiver.data.base import UNKNOWN, DataSet, DataSource, FileOptions, ImageSet, OnProgress, suited_tasks
from puridiver.data.cache import ImageCache, open_cache
from puridiver.data.listing import Listing, list_folder, printable
from puridiver.data.table import READERS, list_table
from puridiver.errors import DataError
from puridiver.files import open_regular

DEFAULT_SIDE = 32
NAMED = 10  # files that a message lists one by one


def list_own(path: Path, options: FileOptions) -> Listing:
    """The files of a folder or of a table."""
    if not path.exists():
        raise DataError(f"there is no {path}")
    if path.is_dir():
        return list_folder(path, options.test_share)
    if path.suffix.lower() not in READERS:
        hint = f"; arrays are read by --data {path}" if path.suffix == ".npz" else ""
        raise DataError(f"{path} should be a folder of images, or a table that ends in {', '.join(READERS)}{hint}")
    return list_table(path, options.test_share)


def load_listing(
    listing: Listing,
    cache: Path,
    options: FileOptions,
    on_progress: OnProgress | None = None,
    defaults: dict[str, Any] | None = None,
) -> DataSource:
    """A data source of the listing's files, decoded once, into `cache`. Labels pass as they came, without noise."""
    found = open_cache(listing, options.image_size or DEFAULT_SIDE, cache, on_progress)
    if found.bad and options.bad_files == "refuse":
        raise DataError(bad_files_message(listing, found))
    good = listing.taken(found.rows)
    n_train = int((~good.is_test).sum())
    if n_train == 0:
        raise DataError(f"{listing.origin} has no train image that can be read")
    truth_known = good.true is not None and bool((good.true != UNKNOWN).any())
    if options.trust_labels and truth_known:
        raise DataError(trust_message(listing.origin))
    true = None if options.trust_labels else good.true
    images = torch.from_numpy(found.images)

    def part(start: int, stop: int) -> ImageSet:
        rows = slice(start, stop)
        return ImageSet(
            images[rows],
            torch.from_numpy(good.labels[rows].copy()),
            None if true is None else torch.from_numpy(true[rows].copy()),
            None if good.times is None else torch.from_numpy(good.times[rows].copy()),
            [printable(path) for path in good.paths[rows]],
            f"{found.digest} {start} {stop}",
        )

    train, test = part(0, n_train), part(n_train, len(good)).to_test_on()
    suited = {"noise": "none", "tasks": suited_tasks(train.labels.numpy()), **(defaults or {})}
    return DataSource(listing.name, listing.class_names, train, test, None, suited, tuple(found.bad))


def trust_message(data: str) -> str:
    """Why labels cannot be trusted of data that know better."""
    return (
        f"{data} says of some images what their true labels are, so that those it gives cannot be taken for true: "
        "leave --trust-labels out"
    )


def bad_files_message(listing: Listing, found: ImageCache) -> str:
    """Counts the files that cannot be read, names the first ones and says what to do."""
    n = len(found.bad)
    shown = "".join(f"\n  {name}: {problem}" for name, problem in list(found.bad.items())[:NAMED])
    more = f"\n  ... and {n - NAMED} more" if n > NAMED else ""
    return (
        f"{n} of {len(listing)} files of {listing.origin} cannot be read:{shown}{more}\n"
        "mend or remove them, or leave them out with --bad-files skip"
    )


class PublishedList(DataSet):
    """A data set that its home publishes as image files and lists of them; nobody knows its true train labels."""

    folders: ClassVar[tuple[str, ...]]  # that it may lie in, below the data root
    proof: ClassVar[str]  # a file that shows that a folder is the right one
    counts: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]]  # how many train images there may be, and test images
    side: ClassVar[int] = 224
    image_files = True

    def read(self, folder: Path) -> tuple[tuple[str, ...], list[FileRow], list[FileRow]]:
        """Class names, train rows and test rows."""
        raise NotImplementedError

    def load(self, root: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        if options.test_share is not None:
            raise ValueError(f"{self.name} has a test part of its own: leave the test share out")
        sized = FileOptions(options.image_size or self.side, None, options.bad_files, options.trust_labels)
        return load_listing(self.listing(root), cache, sized, on_progress, self.defaults)

    def listing(self, root: Path) -> Listing:
        folder = self.find_folder(root)
        if folder is None:
            raise DataError(
                f"{self.name} is not in {root}: {self.proof} should be there, or in one of {', '.join(self.folders)}; "
                "docs/data.md says what to fetch and where to put it"
            )
        class_names, train, test = self.read(folder)
        rows = [*train, *test]
        paths, labels, true = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
        is_test = np.arange(len(rows)) >= len(train)
        return Listing(
            self.name, str(folder), paths, np.array(labels, dtype=np.int64), is_test, class_names,
            np.array(true, dtype=np.int64),
        )  # fmt: skip

    def find_folder(self, root: Path) -> Path | None:
        places = [*(Path(root) / name for name in self.folders), Path(root)]
        return next((place for place in places if (place / self.proof).is_file()), None)

    def is_here(self, root: Path) -> bool:
        return self.find_folder(root) is not None

    def problems(self, root: Path) -> list[str]:
        """Whether the lists are there and as long as the paper says; the images are checked when they are decoded."""
        try:
            is_test = self.listing(root).is_test
        except DataError as error:
            return [str(error)]
        found = (int((~is_test).sum()), int(is_test.sum()))
        return [
            f"{self.name} should list {' or '.join(f'{n:,}' for n in expected)} {part} images, but lists {there:,}"
            for part, expected, there in zip(("train", "test"), self.counts, found, strict=True)
            if there not in expected
        ]


FileRow = tuple[str, int, int]  # path below the folder, class id, true class id or UNKNOWN


def list_lines(path: Path) -> list[str]:
    """The lines of a published list, without empty ones."""
    try:
        with open_regular(path) as file:
            lines = file.read().decode("utf-8", "surrogateescape").split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} is missing: docs/data.md tells the layout") from None
    return [line.strip() for line in lines if line.strip()]
