"""List a user's image files and their labels, from one folder per class or from a table.

A table is a CSV file (or one with semicolons or tabs), JSON lines or Parquet.
"""

import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from puridiver.data.base import WRONG, check_class_names, check_test_share, choose_test_rows, natural, printable
from puridiver.data.images import ENDINGS
from puridiver.discovery import import_extra
from puridiver.errors import DataError, few, first_line
from puridiver.files import open_regular, read_regular

TEST_FOLDERS = ("test", "val", "validation")  # the first that is there
FILE_COLUMNS = ("path", "label", "true_label", "is_test")
NOT_THAT = "\0"  # stands for a true label of which is known only that it is not the given one
COLUMNS = ("path", "label", "true_label", "timestamp", "split")
IS_TEST = {"train": False, "test": True, "val": True, "validation": True}
MISSING = ("", "nan", "none", "null", "na", "n/a", "<na>", "-1", "-1.0", "?", "unknown")  # in any case
WHOLE_NUMBER = r"\+?(-?[0-9]+)(?:\.0*)?"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes such text for a formula
GUARD = re.compile(r"^'(?=[=+\-@\t\r])")  # the apostrophe that `guarded` puts in front of it


@dataclass(frozen=True)
class Listing:
    """Image files with their labels; train files come before test files."""

    name: str
    origin: Path  # the folder or table that the user named
    root: Path  # paths are relative to it
    files: pd.DataFrame  # path, label and true_label (class ids), is_test; perhaps time
    class_names: tuple[str, ...]


def make_listing(
    name: str, origin: Path, root: Path, table: pd.DataFrame, test_share: float | None, names: Sequence[str] = ()
) -> Listing:
    """Check a table of paths and class names, number the classes, and split off a test part where there is none."""
    names = tuple(names or natural({*table["label"], *table["true_label"]} - {""}))
    try:
        check_class_names(names)
    except ValueError as error:
        raise DataError(f"{origin}: {error}") from error
    index = pd.Index(names, dtype=object)  # a name that is no class, such as the empty one, becomes -1: UNKNOWN
    ids = {column: index.get_indexer(table[column]).astype(np.int64) for column in ("label", "true_label")}
    ids["true_label"][table["true_label"] == NOT_THAT] = WRONG
    files = table.assign(**ids, is_test=table["is_test"].astype(bool))
    has_test = bool(files["is_test"].any())
    check_test_share(origin, has_test, test_share)
    if test_share and not has_test:
        files["is_test"] = choose_test_rows(ids["label"], test_share)
    return Listing(name, origin, root, files.sort_values("is_test", kind="stable", ignore_index=True), names)


def list_folder(folder: Path, test_share: float | None = None) -> Listing:
    """A folder per class: FOLDER/train/CLASS/* and FOLDER/test/CLASS/*, or FOLDER/CLASS/* with a share for testing.

    Images may lie deeper inside a class's folder. Hidden files, and files that are no images by their ending, are
    left out. `val` and `validation` mean `test`.
    """
    names = {name.lower(): name for name in sorted(_folders(folder))}
    tests = [names[name] for name in TEST_FOLDERS if name in names]
    has_parts = "train" in names and _folders(folder / names["train"])  # a class may be called train
    parts = [names["train"], *tests[:1]] if has_parts else [""]
    beside = set(names.values()) - {*parts, *tests} if has_parts else ()
    if others := [name for name in natural(beside) if images_in(folder, name)]:
        raise DataError(f"{folder} has images beside {parts[0]}, in {few(map(printable, others), 3)}: put all below it")
    classes = natural({name for part in parts for name in _folders(folder / part)})
    rows = [
        (path, printable(name), "", part != parts[0])
        for part in parts
        for name in classes
        for path in images_in(folder, os.path.join(part, name))
    ]
    endings = ", ".join(sorted(ENDINGS))
    if not rows:
        raise DataError(f"{folder} should hold a folder for each class, with images that end in {endings}")
    if empty := sorted(set(map(printable, classes)) - {row[1] for row in rows}):
        raise DataError(f"{folder}: class {few(empty)} has no images that end in {endings}: remove its folder")
    table = pd.DataFrame(rows, columns=FILE_COLUMNS, dtype=object)
    return make_listing(folder.resolve().name, folder, folder, table, test_share)


def _folders(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir(folder) if entry.is_dir() and _is_visible(entry.name)]


def _is_visible(name: str) -> bool:
    return not name.startswith(".") and name != "__MACOSX"  # which archivers leave


def images_in(root: Path, folder: str = "") -> list[str]:
    """Paths of the images below a folder of `root`, sorted. Links end the descent."""
    found = []
    for where, folders, files in os.walk(os.path.join(root, folder)):
        folders[:] = filter(_is_visible, folders)
        images = [name for name in files if _is_visible(name) and os.path.splitext(name)[1].lower() in ENDINGS]
        found += [os.path.relpath(os.path.join(where, name), root) for name in images]
    return sorted(found, key=os.fsencode)


# Tables ------------------------------------------------------------------------------------------------------------


def list_table(file: Path, test_share: float | None = None) -> Listing:
    """The image files that a table names. Paths are relative to the table's folder; errors count rows from 1."""
    cells = {".jsonl": _read_jsonl, ".parquet": _read_parquet}.get(file.suffix.lower(), read_csv)(file)
    cells.columns = [str(name).strip().lower() for name in cells]
    if cells.empty or not {"path", "label"} <= set(cells):
        raise DataError(f"{file} should have rows with the columns path and label, but has {few(cells) or 'none'}")
    cells = cells.loc[:, ~cells.columns.duplicated()].reindex(columns=COLUMNS)
    # Objects, not pandas' own strings, which cannot hold file names that are no UTF-8.
    table = pd.DataFrame({name: [_text(cell) for cell in cells[name]] for name in COLUMNS}, dtype=object)
    for name in COLUMNS:
        _check(file, table[name], table[name].notna(), "be text or a number")
    _check(file, table["path"], table["path"] != "", "not be empty")
    is_class = ~table["label"].str.casefold().isin(("", "nan"))
    _check(file, table["label"], is_class, "name a class: leave out rows without a label")
    if table["label"].str.fullmatch(WHOLE_NUMBER).all():  # programs write 3 as 3.0 in a column with gaps; 007 stays
        for name in ("label", "true_label"):
            table[name] = table[name].str.replace(f"^{WHOLE_NUMBER}$", r"\1", regex=True)
    unknown = table["true_label"].str.casefold().isin(MISSING) & ~table["true_label"].isin(table["label"])
    table["true_label"] = table["true_label"].mask(unknown, "")
    table["is_test"] = False
    if table["split"].any():
        table["is_test"] = table["split"].str.lower().map(IS_TEST)
        _check(file, table["split"], table["is_test"].notna(), f"be one of {', '.join(IS_TEST)}")
    if table["timestamp"].any():
        table["time"] = _times(table["timestamp"])
        wanted = "be a number or a date such as 2024-05-01T12:30, in all rows the same"
        _check(file, table["timestamp"], np.isfinite(table["time"]), wanted)
    return make_listing(file.stem, file, file.parent, table, test_share)


def _text(value: Any) -> str | None:
    """A cell as text; empty for a missing one, None for what is neither text nor a number."""
    if value is None or value != value:  # nan is not equal to itself
        return ""
    return str(value).strip() if isinstance(value, str | int | float | date) else None


def _check(file: Path, texts: pd.Series, fine: pd.Series, wanted: str) -> None:
    """Raise an error that names the first cell of a column that is not fine."""
    if not fine.all():
        row = int(np.argmin(fine))
        got = printable(str(texts[row]))[:40]
        raise DataError(f"{file}: row {row + 1} (without the heading): {texts.name} should {wanted}, but got {got!r}")


def _times(texts: pd.Series) -> pd.Series:
    """Numbers as they are, dates and times as seconds since 1970 (UTC where they name no zone); nan for others."""
    numbers = pd.to_numeric(texts, errors="coerce").astype(float)
    if numbers.notna().any():
        return numbers
    dates = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce").dt.as_unit("us")
    return (dates.astype("int64") / 1_000_000).where(dates.notna())


def guarded(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def read_csv(file: Path) -> pd.DataFrame:
    """Read every cell as text; the separator is the one of comma, semicolon and tab that the heading has most of."""
    content = read_regular(file)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"  # some spreadsheets use UTF-16
    try:
        text = content.decode(encoding, "surrogateescape")
        table = pd.read_csv(
            io.StringIO(text), sep=max(",;\t", key=text.partition("\n")[0].count), header=None, dtype=object,
            keep_default_na=False, encoding_errors="surrogateescape",
        )  # fmt: skip
    except ValueError as error:
        raise DataError(f"{file} is not a CSV file, or a damaged one: {first_line(error)}") from error
    headings, *rows = table.replace(GUARD, "", regex=True).to_numpy().tolist()
    if len(set(headings)) < len(headings):
        raise DataError(f"{file}: two columns have the same heading: {few(headings)}")
    return pd.DataFrame(rows, columns=headings, dtype=object)


def _read_jsonl(file: Path) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    try:
        for line in filter(str.strip, read_regular(file).decode("utf-8-sig", "surrogateescape").split("\n")):
            rows.append(dict(json.loads(line)))
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: row {len(rows) + 1} is no JSON object: {first_line(error)}") from error
    return pd.DataFrame(rows, dtype=object)


def _read_parquet(file: Path) -> pd.DataFrame:
    pyarrow, parquet = (import_extra(library, "parquet") for library in ("pyarrow", "pyarrow.parquet"))
    with open_regular(file) as content:
        try:
            wanted = [name for name in parquet.read_schema(content).names if name.strip().lower() in COLUMNS]
            return pd.DataFrame(parquet.read_table(content, columns=wanted).to_pylist(), dtype=object)
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # OverflowError: dates
            raise DataError(f"{file} is not a Parquet file, or a damaged one: {first_line(error)}") from error
