"""Data sources made of image files: your own folders and tables, and data sets published as lists of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from puridiver.data.base import DataSet, DataSource, FileOptions, ImageSet, OnProgress, own_defaults
from puridiver.data.cache import open_cache
from puridiver.data.listing import COLUMNS, Listing, list_folder, make_listing, printable
from puridiver.data.table import list_table
from puridiver.errors import DataError
from puridiver.files import read_regular

DEFAULT_SIDE = 32
NAMED = 10  # files that a message lists one by one
FileRow = tuple[str, str, str]  # path below the folder, class name, true class name or "" where nobody knows it


def list_own(path: Path, test_share: float | None) -> Listing:
    """The image files of a folder or of a table."""
    if not path.exists():
        raise DataError(f"there is no {path}")
    return list_folder(path, test_share) if path.is_dir() else list_table(path, test_share)


def load_listing(
    listing: Listing, cache: Path, options: FileOptions, on_progress: OnProgress | None, defaults: dict[str, Any]
) -> DataSource:
    """A data source of the listed files, decoded once, into the folder `cache`."""
    found = open_cache(listing, options.image_size or DEFAULT_SIDE, cache, on_progress)
    if found.bad and options.bad_files == "refuse":
        lines = [f"\n  {name}: {problem}" for name, problem in found.bad.items()]
        more = f"\n  ... and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
        raise DataError(
            f"{len(lines)} of {len(listing.files)} files of {listing.origin} cannot be read:{''.join(lines[:NAMED])}"
            f"{more};\nmend or remove them, or leave them out with --bad-files skip"
        )
    good, parts, start = listing.files.iloc[found.rows], [], 0
    images = torch.from_numpy(found.images)
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
    suited = {**own_defaults(train.labels), **defaults}
    return DataSource(listing.name, listing.class_names, train, test.to_test_on(), None, suited, tuple(found.bad))


class PublishedList(DataSet):
    """A data set that its home publishes as image files and lists of them; nobody knows its true train labels."""

    folders: ClassVar[tuple[str, ...]]  # that it may lie in, below the data root
    proof: ClassVar[str]  # a file that shows that a folder is the right one
    counts: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]]  # how many train images there may be, and test images
    side: ClassVar[int] = 224

    def read(self, folder: Path) -> tuple[list[str], list[FileRow], list[FileRow]]:
        """Class names, train rows and test rows."""
        raise NotImplementedError

    def load(self, root: Path, cache: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
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
        rows = [(*row, False) for row in train] + [(*row, True) for row in test]
        table = pd.DataFrame(rows, columns=COLUMNS, dtype=object)
        return make_listing(self.name, folder, folder, table, None, class_names)

    def find_folder(self, root: Path) -> Path | None:
        places = [*(Path(root) / name for name in self.folders), Path(root)]
        return next((place for place in places if (place / self.proof).is_file()), None)

    def is_here(self, root: Path) -> bool:
        return self.find_folder(root) is not None

    def problems(self, root: Path) -> list[str]:
        """Whether the lists are there and as long as the paper says. Decoding checks the images."""
        try:
            is_test = self.listing(root).files["is_test"]
        except DataError as error:
            return [str(error)]
        found = (("train", (~is_test).sum(), self.counts[0]), ("test", is_test.sum(), self.counts[1]))
        return [
            f"{self.name} should list {' or '.join(f'{n:,}' for n in expected)} {part} images, but lists {there:,}"
            for part, there, expected in found
            if there not in expected
        ]


def list_lines(path: Path) -> list[str]:
    """The lines of a published list, without empty ones."""
    try:
        lines = read_regular(path).decode("utf-8", "surrogateescape").split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} is missing: docs/data.md tells the layout") from None
    return [line.strip() for line in lines if line.strip()]
