"""WebVision's first 50 classes (mini-WebVision), whose labels come from the web."""

from __future__ import annotations

from pathlib import Path

from puridiver.data.sets._published import FileRow, PublishedList, list_lines
from puridiver.errors import DataError

CLASSES = 50  # the paper's subset: the first 50 classes of the Google part


class WebVision(PublishedList):
    """65,944 train images of the Google part and 2,500 test images."""

    name = "webvision"
    title = "WebVision's first 50 classes as Google found them (mini-WebVision)"
    home_page = "https://data.vision.ee.ethz.ch/cvl/webvision/dataset2017.html"
    size = "65,944 + 2,500 images, cut to 224x224 colour, 50 classes"
    defaults = {"network": "resnet34", "memory": 1_000, "tasks": 10, "halve_epochs": True}  # noqa: RUF012
    folders = ("webvision", "WebVision")
    proof = "info/train_filelist_google.txt"
    counts = ((65_944,), (2_500,))

    def read(self, folder: Path) -> tuple[list[str], list[FileRow], list[FileRow]]:
        synsets = [line.partition(" ") for line in list_lines(folder / "info" / "synsets.txt")[:CLASSES]]
        if len(synsets) < CLASSES:
            raise DataError(f"{folder}/info/synsets.txt should name at least {CLASSES} classes, not {len(synsets)}")
        # "n01440764 tench, Tinca tinca": the number keeps classes of one name apart (two are "crane").
        names = [f"{words.split(',')[0].strip()} ({key})" if words else key for key, _, words in synsets]
        tests = "val_images_256/" if (folder / "val_images_256").is_dir() else "val_images/"
        train = _read_list(folder / "info" / "train_filelist_google.txt", "", names)
        return names, train, _read_list(folder / "info" / "val_filelist.txt", tests, names)


def _read_list(path: Path, prefix: str, names: list[str]) -> list[FileRow]:
    rows: list[FileRow] = []
    for number, line in enumerate(list_lines(path), start=1):
        name, _, label = line.rpartition(" ")
        if not name or not label.isdecimal() or len(label) > 9:
            raise DataError(f"{path}, line {number}, should be a path and a class number, but is {line[:80]!r}")
        if int(label) < CLASSES:
            rows.append((prefix + name, names[int(label)], ""))
    return rows
