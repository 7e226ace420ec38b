"""Which image files a data set of files has, with their labels: found in folders or read from a table."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from puridiver.data.base import UNKNOWN, check_class_names
from puridiver.data.decode import ENDINGS
from puridiver.errors import DataError, few
from puridiver.files import open_regular

TRAIN, TEST = "train", "test"
TEST_FOLDERS = (TEST, "val", "validation")  # the first that is there
LEFT_BY_ARCHIVERS = "__MACOSX"  # a folder of hidden files
SPLIT_SEED = 0
LOOKED_INTO, BYTES_OF_EACH = 16, 1 << 16  # files whose first bytes are part of a fingerprint


@dataclass(frozen=True)
class Listing:
    """Files and what is said of them, one entry each; train entries come before test entries.

    `true` and `times` are None where the source says nothing of the kind; a single unknown true label is UNKNOWN.
    """

    name: str
    root: str
    paths: list[str]  # relative to root, or absolute
    labels: np.ndarray  # int64 class ids
    is_test: np.ndarray  # bool
    class_names: tuple[str, ...]
    true: np.ndarray | None = None
    times: np.ndarray | None = None
    ignored: int = 0  # files that are no images by their name
    stray: int = 0  # images in no class's folder, or in parts that are not used
    table: str | None = None  # the file that names the paths, where one does

    def __post_init__(self) -> None:
        if not self.paths:
            raise DataError(f"{self.origin} holds no image: files should end in {', '.join(sorted(ENDINGS))}")
        try:
            check_class_names(self.class_names)
        except ValueError as error:
            raise DataError(f"{self.origin}: {error}") from error
        if (np.diff(self.is_test.astype(int)) < 0).any():
            order = np.argsort(self.is_test, kind="stable")
            for name, value in vars(self.taken(order)).items():
                object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def origin(self) -> str:
        """What the user named: the table or the folder."""
        return self.table or self.root

    def taken(self, rows: np.ndarray) -> Listing:
        """Some of the entries, in this order."""
        return replace(
            self,
            paths=[self.paths[row] for row in rows.tolist()],
            labels=self.labels[rows],
            is_test=self.is_test[rows],
            true=None if self.true is None else self.true[rows],
            times=None if self.times is None else self.times[rows],
        )

    def full_path(self, row: int) -> str:
        return os.path.join(self.root, self.paths[row])

    def fingerprint(self) -> str:
        """Says whose pixels a cache on this machine holds: changes with the names, sizes, times and order of files."""
        digest = hashlib.sha256()
        root = os.path.realpath(self.root)
        for path in self.paths:
            whole = os.path.join(root, path)
            try:
                found = os.stat(whole)
                # The time of change, too: that of writing is often copied, or set to 0 by programs that pack files.
                facts = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
            except (OSError, ValueError) as error:  # ValueError: what cannot be a path
                facts = f"no file: {type(error).__name__}"
            digest.update(whole.encode("utf-8", "surrogatepass") + b"\0" + facts.encode() + b"\n")
        # Some file systems keep no time of change: another set that is mounted in the same place is known by these.
        for row in np.unique(np.linspace(0, len(self) - 1, LOOKED_INTO, dtype=np.int64)).tolist():
            try:
                with open_regular(self.full_path(row)) as file:
                    digest.update(file.read(BYTES_OF_EACH))
            except (OSError, DataError):  # which is told when the file is decoded
                continue
        return digest.hexdigest()


def printable(name: str) -> str:
    """A file's name as text that can be written anywhere: bytes that are no UTF-8 come out as escapes."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a character, as JSON may hold: no name of a file
        return name.encode("utf-8", "backslashreplace").decode()


def natural(names: Sequence[str]) -> list[str]:
    """Sorted; whole numbers within names by their size, so that 10 comes after 9."""
    digits = re.compile(r"(\d+)", re.ASCII)
    return sorted(names, key=lambda name: [(int(t), "") if t[:1].isdecimal() else (-1, t) for t in digits.split(name)])


# Folders -----------------------------------------------------------------------------------------------------------


def list_folder(folder: Path, test_share: float | None = None) -> Listing:
    """A folder per class: FOLDER/train/CLASS/* and FOLDER/test/CLASS/*, or FOLDER/CLASS/* with a share for testing.

    Images may lie deeper inside a class's folder. Hidden files, and files that are no images by their ending, are
    left out. `val` and `validation` will do for `test`.
    """
    train, *tests = _parts(folder)
    if not tests:
        return split_off_test(_list_classes(folder, [(train, False)]), test_share)
    if test_share:
        raise ValueError(f"{folder} has a test part of its own: leave the test share out")
    return _list_classes(folder, [(train, False), (tests[0], True)], unused=tests[1:])


def _parts(folder: Path) -> list[str]:
    """The folders of the train part and of those to test on, in any case; "" alone where the classes lie here.

    `train` may be a class, and no class may be lost beside it.
    """
    names = _folders(folder)
    known = {**{name.lower(): name for name in names}, **{name: name for name in names}}
    if TRAIN not in known:
        return [""]
    train, tests = known[TRAIN], [known[name] for name in TEST_FOLDERS if name in known]
    others = [name for name in natural(names) if name not in (train, *tests) and images_in(str(folder), name)[0]]
    tests = [test for test in tests if any(images_in(str(folder / test), name)[0] for name in _folders(folder / test))]
    if not others:
        return [train, *tests]
    if _images_directly_in(folder / train) and not tests:
        return [""]
    raise DataError(
        f"{folder} has classes below {train}, and images beside it as well, in {few(map(printable, others), 3)}: put "
        f"everything below {TRAIN} (and {TEST}); or, if {TRAIN} is a class, put its images directly into its folder"
    )


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir(folder) if entry.is_dir() and _is_visible(entry.name)]


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name != LEFT_BY_ARCHIVERS


def _is_image(name: str) -> bool:
    return _is_visible(name) and os.path.splitext(name)[1].lower() in ENDINGS


def _images_directly_in(folder: Path) -> int:
    return sum(_is_image(entry.name) for entry in os.scandir(folder) if entry.is_file())


def _list_classes(folder: Path, parts: list[tuple[str, bool]], unused: Sequence[str] = ()) -> Listing:
    ordered = natural(list({name for part, _ in parts for name in _folders(folder / part)}))
    if not ordered:
        where = ", ".join(str(folder / part) for part, _ in parts)
        raise DataError(f"{where} should hold a folder for each class, with its images, but holds no folder")
    paths: list[str] = []
    labels: list[int] = []
    is_test: list[bool] = []
    ignored = 0
    for part, test in parts:
        for label, name in enumerate(ordered):
            found, others = images_in(str(folder), os.path.join(part, name))
            paths += found
            labels += [label] * len(found)
            is_test += [test] * len(found)
            ignored += others
    empty = [printable(ordered[label]) for label in sorted(set(range(len(ordered))) - set(labels))]
    if labels and empty:
        raise DataError(
            f"{folder}: class {few(empty)} has no images: remove the folder, or put files into it that end in "
            f"{', '.join(sorted(ENDINGS))}"
        )
    return Listing(
        folder.resolve().name, str(folder), paths, np.array(labels, dtype=np.int64), np.array(is_test, dtype=bool),
        tuple(printable(name) for name in ordered), np.full(len(paths), UNKNOWN, dtype=np.int64), ignored=ignored,
        stray=sum(_images_directly_in(folder / part) for part in {"", *(part for part, _ in parts)})
        + sum(len(images_in(str(folder), part)[0]) for part in unused),
    )  # fmt: skip


def images_in(root: str, folder: str) -> tuple[list[str], int]:
    """Paths of the images below a folder, sorted, and how many other files there are.

    Links to folders are followed, but nothing is entered twice, nor a folder that this one lies in.
    """
    found, others = [], 0
    top = os.path.join(root, folder)
    entered: set[str] = set()
    for where, folders, files in os.walk(top, followlinks=True):
        real = os.path.realpath(where)
        above = where != top and os.path.realpath(top).startswith(os.path.join(real, ""))
        if real in entered or above:
            folders.clear()
            continue
        entered.add(real)
        # Links last: what lies here itself keeps its path, whatever links to it.
        folders[:] = sorted(
            filter(_is_visible, folders), key=lambda name: (os.path.islink(os.path.join(where, name)), name)
        )
        found += [os.path.relpath(os.path.join(where, name), root) for name in files if _is_image(name)]
        others += sum(not _is_image(name) and not name.startswith(".") for name in files)
    return sorted(found, key=os.fsencode), others


def split_off_test(listing: Listing, test_share: float | None) -> Listing:
    """The listing with a seeded share of each class as its test part; 0 for none."""
    if test_share is None:
        raise DataError(
            f"{listing.origin} has no test part (a folder or a split called {TEST}): say what share of it is kept out "
            "of the stream for testing, such as --test-share 0.2 (in a grid file test_share = 0.2)"
        )
    return replace(listing, is_test=test_rows(listing.labels, len(listing.class_names), test_share))


def test_rows(labels: np.ndarray, n_classes: int, test_share: float) -> np.ndarray:
    """A mask of a seeded share of each class."""
    if not 0 <= test_share < 1:
        raise ValueError(f"test share should be at least 0 and below 1, but got {test_share}")
    # Raw bits, not Generator.permutation: NumPy promises the bits for ever, but not what its methods do.
    order = np.argsort(np.random.PCG64(SPLIT_SEED).random_raw(len(labels)))
    is_test = np.zeros(len(labels), dtype=bool)
    for label in range(n_classes):
        members = order[labels[order] == label]
        wanted = round(test_share * len(members))
        if test_share and len(members) > 1:  # neither part is to lack a class
            wanted = min(max(1, wanted), len(members) - 1)
        is_test[members[:wanted]] = True
    return is_test
