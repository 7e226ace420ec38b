"""A listing of image files from a table: CSV (or with semicolons or tabs), JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from puridiver.data.base import printable
from puridiver.data.listing import Listing, make_listing
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
IS_TEST = {"train": False, "test": True, "val": True, "validation": True}
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "-1", "-1.0", "?", "unknown"))  # in any case
WHOLE_NUMBER = r"\+?(-?[0-9]+)(?:\.0*)?"
SEPARATORS = (",", ";", "\t")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes such text for a formula
GUARD = re.compile(r"^'(?=[=+\-@\t\r])")  # the apostrophe that `guarded` puts in front of it

# What the text of a cell should be.
CHECKS: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    ("path", bool, "not be empty"),
    ("label", lambda text: text.casefold() not in ("", "nan"), "name a class: leave out rows without a label"),
    ("split", lambda text: text.lower() in IS_TEST, f"be one of {', '.join(IS_TEST)}"),
)


def list_table(file: Path, test_share: float | None = None) -> Listing:
    """The image files that a table names. Paths are relative to the table's folder; errors count rows from 1."""
    cells = {".jsonl": _read_jsonl, ".parquet": _read_parquet}.get(file.suffix.lower(), read_csv)(file)
    if cells.empty:
        raise DataError(f"{file} should have rows with a path and a label each")
    headings = [str(heading).strip().lower() for heading in cells]
    table = pd.DataFrame(index=cells.index)
    for name, names in COLUMNS.items():
        if found := next((other for other in names if other in headings), None):
            cells[name] = cells.iloc[:, headings.index(found)]
            # Objects, not pandas' own strings, which cannot hold file names that are no UTF-8.
            table[name] = pd.Series(map(_text, cells[name]), dtype=object)
            _check(file, table[name], table[name].notna(), "be text or a 64-bit number")
        elif name in REQUIRED:
            raise DataError(f"{file} should have a column {' or '.join(map(repr, names))}, but has {few(headings)}")
    for name, is_fine, wanted in CHECKS:
        if name in table:
            _check(file, table[name], table[name].map(is_fine), wanted)
    if "true_label" not in table:
        table["true_label"] = ""
    if table["label"].str.fullmatch(WHOLE_NUMBER).all():  # programs write 3 as 3.0 in a column with gaps; 007 stays
        for name in ("label", "true_label"):
            table[name] = table[name].str.replace(f"^{WHOLE_NUMBER}$", r"\1", regex=True)
    unknown = table["true_label"].str.casefold().isin(MISSING) & ~table["true_label"].isin(table["label"])
    table["true_label"] = table["true_label"].mask(unknown, "")
    table["is_test"] = table["split"].str.lower().map(IS_TEST) if "split" in table else False
    if "timestamp" in table:
        table["time"] = _times(file, cells["timestamp"], table["timestamp"])
    return make_listing(file.stem, file, file.parent, table, test_share)


def _text(value: Any) -> str | None:
    """A cell as text; empty for a missing one, None for what is neither text nor a number."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:  # numbers with gaps come as floats
        return str(int(value))
    if value is None or value != value:  # nan is not equal to itself
        return ""
    if isinstance(value, str | date | float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return str(value).strip()
    return None


def _row_error(file: Path, row: int, message: str) -> DataError:
    return DataError(f"{file}: row {row + 1} (counted from 1, without the heading): {message}")


def _check(file: Path, texts: pd.Series, fine: pd.Series, wanted: str) -> None:
    """Refuse a column with a cell that is not fine, and name the first."""
    if not fine.all():
        row = int(np.argmin(fine.to_numpy(bool)))
        raise _row_error(file, row, f"{texts.name} should {wanted}, but got {printable(str(texts[row]))[:40]!r}")


def _times(file: Path, cells: pd.Series, texts: pd.Series) -> np.ndarray:
    """Numbers as they are, dates and times as seconds since 1970 (UTC where they name no zone)."""
    found = pd.to_numeric(cells.where(cells.map(type).isin([int, float]), texts), errors="coerce").to_numpy(float)
    if np.isnan(found).all():
        dates = pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce")
        found = np.where(dates.isna(), math.nan, dates.dt.as_unit("us").astype("int64") / 1_000_000)
    wanted = "be a number or a date such as 2024-05-01T12:30, in all rows the same"
    _check(file, texts, pd.Series(np.isfinite(found)), wanted)
    return found


def guarded(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def read_csv(file: Path) -> pd.DataFrame:
    """Every cell as text. Not by pandas' own reader: it completes short rows, and refuses names that are not UTF-8.

    Commas, semicolons or tabs separate the cells, whichever the heading has most of.
    """
    content = read_regular(file)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{file} is in UTF-16, as some spreadsheets save text: save it as CSV in UTF-8")
    text = content.decode("utf-8-sig", "surrogateescape")
    mark = max(SEPARATORS, key=text.partition("\n")[0].count)
    try:
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


def _read_jsonl(file: Path) -> pd.DataFrame:
    rows: list[Any] = []
    try:
        for line in filter(str.strip, read_regular(file).decode("utf-8-sig", "surrogateescape").split("\n")):
            rows.append(json.loads(line))
    except (ValueError, RecursionError) as error:
        raise _row_error(file, len(rows), f"it is not JSON: {first_line(error)}") from error
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{file} should have rows with a path and a label each")
    return pd.DataFrame(rows, dtype=object)


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(f"{file}: Parquet needs pyarrow: pip install 'puridiver[parquet]'") from error
    known = {name for names in COLUMNS.values() for name in names}
    with open_regular(file) as content:
        try:
            wanted = [name for name in pyarrow.parquet.read_schema(content).names if name.strip().lower() in known]
            return pd.DataFrame(pyarrow.parquet.read_table(content, columns=wanted).to_pylist(), dtype=object)
        except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:  # OverflowError: dates
            raise DataError(f"{file} is not a Parquet file, or a damaged one: {first_line(error)}") from error
