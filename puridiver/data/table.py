"""A listing of image files from a table: CSV (or with semicolons or tabs), JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from puridiver.data.base import LONGEST_NAME
from puridiver.data.listing import Listing, make_listing, printable
from puridiver.errors import DataError, few, first_line
from puridiver.files import open_regular, read_regular

# What a column may be called, the documented name first.
COLUMNS = {
    "path": ("path", "file", "file_name", "filename", "image"),
    "label": ("label", "class"),
    "true_label": ("true_label",),
    "timestamp": ("timestamp", "time"),
    "split": ("split", "part"),
}
REQUIRED = ("path", "label")
REQUIRED_NAMES = [COLUMNS[name] for name in REQUIRED]
IS_TEST = {"train": False, "test": True, "val": True, "validation": True}
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "-1", "-1.0", "?", "unknown"))  # in any case
WHOLE_NUMBER = re.compile(r"\+?(-?\d+)(?:\.0*)?", re.ASCII)
SEPARATORS = (",", ";", "\t")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes such text for a formula
GUARD = re.compile(r"^'(?=[=+\-@\t\r])")  # the apostrophe that `guarded` puts in front of it


def list_table(file: Path, test_share: float | None = None) -> Listing:
    """The image files that a table names. Paths are relative to the table's folder; errors count rows from 1."""
    read = {".jsonl": _read_jsonl, ".parquet": _read_parquet}.get(file.suffix.lower())
    rows = read(file) if read else read_csv(file).to_dict("records")
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file} should have rows with a path and a label each")
    headings = {_plain(name): name for row in rows[::-1] for name in reversed(row)}
    cells: dict[str, list[Any]] = {}
    for name, names in COLUMNS.items():
        if heading := next((headings[other] for other in names if other in headings), None):
            cells[name] = [row.get(heading) for row in rows]
        elif name in REQUIRED:
            raise DataError(f"{file} should have a column {' or '.join(map(repr, names))}, but has {few(headings)}")
    texts = {name: [_text(file, row, name, cell) for row, cell in enumerate(column)] for name, column in cells.items()}
    labels, true = texts["label"], texts.get("true_label", [""] * len(rows))
    if all(map(WHOLE_NUMBER.fullmatch, labels)):  # programs write 3 as 3.0 in a column with gaps; 007 stays
        labels, true = ([WHOLE_NUMBER.sub(r"\1", text) for text in column] for column in (labels, true))
    classes = set(labels)
    true = ["" if text.casefold() in MISSING and text not in classes else text for text in true]
    is_test = [IS_TEST[text.lower()] for text in texts.get("split", ["train"] * len(rows))]
    columns = {"path": texts["path"], "label": labels, "true_label": true, "is_test": is_test}
    table = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items()})
    if "timestamp" in cells:
        table["time"] = _times(file, cells["timestamp"], texts["timestamp"])
    return make_listing(file.stem, file, file.parent, table, test_share)


def _row_error(file: Path, row: int, message: str) -> DataError:
    return DataError(f"{file}: row {row + 1} (counted from 1, without the heading): {message}")


def _plain(heading: object) -> str:
    return str(heading).strip().lower()


def _text(file: Path, row: int, column: str, value: Any) -> str:
    """A cell as text; empty for a missing one."""
    text, problem = "", ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:  # numbers with gaps come as floats
        text = str(int(value))
    elif isinstance(value, str | date | float) or (isinstance(value, int) and abs(value) < 1 << 63):
        text = "" if value != value else str(value).strip()  # nan is not equal to itself
    elif value is not None:
        problem = f"should be text or a 64-bit number, but got a {type(value).__name__}"
    if not text and column in REQUIRED:
        problem = problem or "should not be empty"
    elif column == "label" and text.casefold() == "nan":
        problem = "is nan, as programs write a missing one: leave the row out, or name its class"
    elif column == "split" and text.lower() not in IS_TEST:
        problem = f"should be one of {', '.join(IS_TEST)}, but got {text[:60]!r}"
    elif "label" in column and (len(text) > LONGEST_NAME or "\0" in text or printable(text) != text):
        problem = f"should have at most {LONGEST_NAME} letters in UTF-8 and no NUL, but got {printable(text)[:40]!r}"
    if problem:
        raise _row_error(file, row, f"{column} {problem}")
    return text


def _times(file: Path, cells: list[Any], texts: list[str]) -> np.ndarray:
    """Numbers as they are, dates and times as seconds since 1970 (UTC where they name no zone)."""
    mixed = [cell if type(cell) in (int, float) else text for cell, text in zip(cells, texts, strict=True)]
    found = pd.to_numeric(pd.Series(mixed, dtype=object), errors="coerce").to_numpy(dtype=float)
    if np.isnan(found).all():
        dates = pd.to_datetime(pd.Series(texts, dtype=object), utc=True, format="ISO8601", errors="coerce")
        micros = dates.dt.as_unit("us").astype("int64").to_numpy()
        found = np.where(dates.isna(), math.nan, micros / 1_000_000)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        wanted = "a number or a date such as 2024-05-01T12:30, in all rows the same"
        raise _row_error(file, row, f"timestamp should be {wanted}, but got {texts[row][:60]!r}")
    return found


def guarded(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def read_csv(file: Path, wanted: Sequence[Collection[str]] = REQUIRED_NAMES) -> pd.DataFrame:
    """Every cell as text. Not by pandas' own reader: it completes short rows, and refuses names that are not UTF-8.

    Commas, semicolons or tabs separate the cells: the first that gives all wanted columns, else that of most cells.
    """
    content = read_regular(file)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{file} is in UTF-16, as some spreadsheets save text: save it as CSV in UTF-8")
    text = content.decode("utf-8-sig", "surrogateescape")
    try:
        found = {mark: next(csv.reader(io.StringIO(text), delimiter=mark), []) for mark in SEPARATORS}
        plain = {mark: set(map(_plain, cells)) for mark, cells in found.items()}
        fitting = [mark for mark in SEPARATORS if all(set(names) & plain[mark] for names in wanted)]
        mark = fitting[0] if fitting else max(SEPARATORS, key=lambda mark: len(found[mark]))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
        headings, *rows = [[GUARD.sub("", cell) for cell in row] for row in reader if row] or [[]]
    except csv.Error as error:
        raise DataError(f"{file} is not a CSV file, or a damaged one: {error}") from error
    if len(set(headings)) < len(headings):
        raise DataError(f"{file}: two columns have the same heading: {few(headings)}")
    for number, row in enumerate(rows):
        if len(row) != len(headings):
            raise _row_error(file, number, "it should have as many cells as the heading")
    return pd.DataFrame(rows, columns=headings, dtype=object)


def _read_jsonl(file: Path) -> list[Any]:
    rows: list[Any] = []
    try:
        for line in filter(str.strip, read_regular(file).decode("utf-8-sig", "surrogateescape").split("\n")):
            rows.append(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise _row_error(file, len(rows), f"it is not JSON: {first_line(error)}") from error
    return rows


def _read_parquet(file: Path) -> list[dict[str, Any]]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(f"{file}: Parquet needs pyarrow: pip install 'puridiver[parquet]'") from error
    known = {name for names in COLUMNS.values() for name in names}
    with open_regular(file) as content:
        try:
            wanted = [name for name in pyarrow.parquet.read_schema(content).names if _plain(name) in known]
            rows: list[dict[str, Any]] = pyarrow.parquet.read_table(content, columns=wanted).to_pylist()
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{file} is not a Parquet file, or a damaged one: {first_line(error)}") from error
    return rows
