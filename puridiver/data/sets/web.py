"""WebVision's first 50 classes and Food-101N: image files that the web labelled, and published lists of them."""

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pandas as pd

from puridiver.data.base import DataSet, DataSource, FileOptions, OnProgress
from puridiver.data.image_files import load_listing
from puridiver.data.listing import FILE_COLUMNS, NOT_THAT, Listing, make_listing
from puridiver.errors import DataError
from puridiver.files import read_regular

# Path below the folder, class name, true class name (or "" or NOT_THAT), is it a test image?
FileRow = tuple[str, str, str, bool]
SIDE = 224
CLASSES = 50  # of WebVision, as in the paper: the first 50 classes of the Google part


class WebImages(DataSet):
    """Image files and lists of them."""

    counts: ClassVar[tuple[tuple[int, int], ...]]  # of train and test images, as one or another release has them

    def read(self, folder: Path) -> tuple[list[str], list[FileRow]]:
        """Class names and files."""
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
        class_names, rows = self.read(folder)
        table = pd.DataFrame(rows, columns=FILE_COLUMNS, dtype=object)
        return make_listing(self.name, folder, folder, table, None, class_names)

    def problems(self, root: Path) -> list[str]:
        """Whether the lists are there and as long as the paper says. Decoding checks the images."""
        is_test = self.listing(root).files["is_test"]
        found = (int((~is_test).sum()), int(is_test.sum()))
        wanted = " or ".join(f"{train:,} + {test:,}" for train, test in self.counts)
        told = f"{self.name} should list {wanted} train and test images, but lists {found[0]:,} + {found[1]:,}"
        return [] if found in self.counts else [told]


def list_lines(path: Path) -> list[str]:
    """The lines of a published list, without empty ones."""
    try:
        lines = read_regular(path).decode("utf-8", "surrogateescape").split("\n")
    except FileNotFoundError:
        raise DataError(f"{path} is missing: docs/data.md tells the layout") from None
    return [line.strip() for line in lines if line.strip()]


class WebVision(WebImages):
    """65,944 train images of the Google part and 2,500 test images."""

    name = "webvision"
    title = "WebVision's first 50 classes as Google found them (mini-WebVision)"
    home_page = "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html"
    size = "65,944 + 2,500 images, cut to 224x224 colour, 50 classes"
    defaults = {"network": "resnet34", "memory": 1_000, "tasks": 10, "halve_epochs": True}
    folders = ("webvision", "WebVision")
    proof = "info/train_filelist_google.txt"
    counts = ((65_944, 2_500),)

    def read(self, folder: Path) -> tuple[list[str], list[FileRow]]:
        synsets = [line.partition(" ") for line in list_lines(folder / "info" / "synsets.txt")[:CLASSES]]
        if len(synsets) < CLASSES:
            raise DataError(f"{folder}/info/synsets.txt should name at least {CLASSES} classes, not {len(synsets)}")
        # "n01440764 tench, Tinca tinca": the number keeps classes of one name apart (two are "crane").
        names = [f"{words.split(',')[0].strip()} ({key})" if words else key for key, _, words in synsets]
        tests = "val_images_256/" if (folder / "val_images_256").is_dir() else "val_images/"
        rows: list[FileRow] = []
        for file, prefix, is_test in (("train_filelist_google", "", False), ("val_filelist", tests, True)):
            for number, line in enumerate(list_lines(folder / "info" / f"{file}.txt"), start=1):
                path, _, label = line.rpartition(" ")
                if not path or not label.isdecimal() or len(label) > 9:
                    where = f"{folder}/info/{file}.txt, line {number},"
                    raise DataError(f"{where} should be a path and a class number, but is {line[:80]!r}")
                if int(label) < CLASSES:
                    rows.append((prefix + path, names[int(label)], "", is_test))
        return names, rows


class Food101N(WebImages):
    """52,867 train and 4,741 test images of its verified lists, dishes as the web labels them."""

    name = "food101n"
    title = "Food-101N's verified lists, dishes as the web labels them"
    home_page = "https://kuanghuei.github.io/Food-101N/"
    size = "52,867 + 4,741 images, cut to 224x224 colour, 101 classes"
    defaults = {"network": "resnet34", "memory": 2_000, "tasks": 5, "halve_epochs": True}
    folders = ("Food-101N_release", "food101n", "Food-101N")
    proof = "meta/verified_train.tsv"
    counts = ((52_867, 4_741), (52_868, 4_741))

    def read(self, folder: Path) -> tuple[list[str], list[FileRow]]:
        names = [line for line in list_lines(folder / "meta" / "classes.txt") if line != "class_name"]  # the heading
        rows: list[FileRow] = []
        for file, is_test in (("verified_train.tsv", False), ("verified_val.tsv", True)):
            for number, line in enumerate(list_lines(folder / "meta" / file), start=1):
                key, _, verified = line.partition("\t")
                name, slash, _ = key.partition("/")
                if key == "class_name/key":  # the heading
                    continue
                if not slash or name not in names:
                    where = f"{folder}/meta/{file}, line {number},"
                    raise DataError(f"{where} should be CLASS/KEY with a class of classes.txt, but is {line[:80]!r}")
                true = {"1": name, "0": NOT_THAT}.get(verified.strip(), "")
                rows.append((f"images/{key.removesuffix('.jpg')}.jpg", name, true, is_test))
        return names, rows
