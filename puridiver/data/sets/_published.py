"""The base class of data sets that their home publishes as image files and lists of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pandas as pd

from puridiver.data.base import DataSet, DataSource, FileOptions, OnProgress
from puridiver.data.image_files import load_listing
from puridiver.data.listing import COLUMNS, Listing, make_listing
from puridiver.errors import DataError
from puridiver.files import read_regular

FileRow = tuple[str, str, str]  # path below the folder, class name, true class name or "" where nobody knows it
SIDE = 224


class PublishedList(DataSet):
    """Image files and lists of them; nobody knows the true train labels."""

    folders: ClassVar[tuple[str, ...]]  # that it may lie in, below the data root
    proof: ClassVar[str]  # a file that shows that a folder is the right one
    counts: ClassVar[tuple[tuple[int, ...], tuple[int, ...]]]  # how many train images there may be, and test images

    def read(self, folder: Path) -> tuple[list[str], list[FileRow], list[FileRow]]:
        """Class names, train rows and test rows."""
        raise NotImplementedError

    def load(self, root: Path, options: FileOptions, on_progress: OnProgress | None) -> DataSource:
        sized = replace(options, image_size=options.image_size or SIDE)
        found = load_listing(self.listing(root), root, sized, on_progress)
        return replace(found, defaults={**found.defaults, **self.defaults})

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
        places = [*(root / name for name in self.folders), root]
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
