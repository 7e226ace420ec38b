"""Food-101N's verified lists: dishes as the web labels them."""

from __future__ import annotations

from pathlib import Path

from puridiver.data.sets._published import FileRow, PublishedList, list_lines
from puridiver.errors import DataError


class Food101N(PublishedList):
    """52,867 train and 4,741 test images. The published streams have one image less than its home page says."""

    name = "food101n"
    title = "Food-101N's verified lists, dishes as the web labels them"
    home_page = "https://kuanghuei.github.io/Food-101N/"
    size = "52,867 + 4,741 images, cut to 224x224 colour, 101 classes"
    defaults = {"network": "resnet34", "memory": 2_000, "tasks": 5, "halve_epochs": True}  # noqa: RUF012
    folders = ("Food-101N_release", "food101n", "Food-101N")
    proof = "meta/verified_train.tsv"
    counts = ((52_867, 52_868), (4_741,))

    def read(self, folder: Path) -> tuple[list[str], list[FileRow], list[FileRow]]:
        names = [line for line in list_lines(folder / "meta" / "classes.txt") if line != "class_name"]  # the heading
        train, test = (_read_verified(folder / "meta" / f"verified_{part}.tsv", names) for part in ("train", "val"))
        # Of the train images only right labels would be known: a purity by these alone would always be 100 %.
        return names, [(path, label, "") for path, label, _ in train], test


def _read_verified(path: Path, names: list[str]) -> list[FileRow]:
    """Every image of the list, as in the paper's stream; a label that was verified as right is the true one."""
    rows: list[FileRow] = []
    for number, line in enumerate(list_lines(path), start=1):
        key, _, verified = line.partition("\t")
        name, slash, _ = key.partition("/")
        if key == "class_name/key":  # the heading
            continue
        if not slash or name not in names:
            raise DataError(f"{path}, line {number}, should be CLASS/KEY with a class of classes.txt, but is {line!r}")
        rows.append((f"images/{key.removesuffix('.jpg')}.jpg", name, name if verified.strip() == "1" else ""))
    return rows
