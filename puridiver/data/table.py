"""A data set from a table of paths and labels: CSV (or with semicolons or tabs), JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from puridiver.data.base import LONGEST_NAME, UNKNOWN
from puridiver.data.listing import TEST, TRAIN, Listing, natural, printable, split_off_test
from puridiver.errors import DataError, few, first_line
from puridiver.files import open_regular, read_regular

if TYPE_CHECKING:
    import pandas as pd

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
PARTS = {"train": TRAIN, "test": TEST, "val": TEST, "validation": TEST}
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "-1", "-1.0", "?", "unknown"))  # in any case
WHOLE_NUMBER = re.compile(r"\+?(-?\d+)(?:\.0*)?", re.ASCII)
SEPARATORS = (",", ";", "\t")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so


def list_table(file: Path, test_share: float | None = None) -> Listing:
    """The files that a table names; paths are relative to the table's folder. The first row is number 1 in errors."""
    table = READERS[file.suffix.lower()](file)
    if not len(table):
        raise DataError(f"{file} has no row")
    columns = {name: table[column].tolist() for name, column in _columns(file, list(table.columns)).items()}
    texts = {
        name: [_text(file, row, name, value) for row, value in enumerate(cells)]
        for name, cells in columns.items()
        if name != "timestamp"
    }
    texts |= _class_texts(texts["label"], texts.get("true_label"))
    class_names = natural(list({text for name in ("label", "true_label") for text in texts.get(name, []) if text}))
    ids = {"": UNKNOWN, **{name: label for label, name in enumerate(class_names)}}

    def labels(name: str) -> np.ndarray:
        return np.array([ids[text] for text in texts.get(name, [""] * len(table))], dtype=np.int64)

    parts = [PARTS[text.lower()] == TEST for text in texts.get("split", ["train"] * len(table))]
    listing = Listing(
        file.stem, str(file.parent), texts["path"], labels("label"), np.array(parts), tuple(class_names),
        labels("true_label"), _times(file, columns["timestamp"]) if "timestamp" in columns else None, table=str(file),
    )  # fmt: skip
    if not listing.is_test.any():
        return split_off_test(listing, test_share)
    if test_share:
        raise ValueError(f"{file} says itself what is for testing (column split): leave the test share out")
    return listing


def _row_error(file: Path, row: int, message: str) -> DataError:
    return DataError(f"{file}: row {row + 1} (counted from 1, without the heading): {message}")


def _columns(file: Path, headings: list[str]) -> dict[str, str]:
    """Our names of the columns that are there -> what the table calls them; exact names go first."""
    known = {**{_plain_heading(name): name for name in reversed(headings)}, **{name: name for name in headings}}
    found = {
        ours: known[next((name for name in names if name in headings), there[0])]
        for ours, names in COLUMNS.items()
        if (there := [name for name in names if name in known])
    }
    if missing := [name for name in REQUIRED if name not in found]:
        names = f"{missing[0]!r} (or {', '.join(COLUMNS[missing[0]][1:])})"
        raise DataError(f"{file} should have a column {names}, but has {few(headings) or 'none'}")
    return found


def _plain_heading(name: object) -> str:
    """A heading as COLUMNS has it: in tables it may be in capitals, and have spaces around it."""
    return str(name).strip().lower()


def _text(file: Path, row: int, column: str, value: Any) -> str:
    """A cell as text; empty for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        text = ""
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:  # numbers with gaps come as floats
        text = str(int(value))
    elif isinstance(value, str | float | date) or (isinstance(value, int) and abs(value) < 1 << 63):
        text = str(value).strip()
    else:
        raise _row_error(file, row, f"{column} should be text or a 64-bit number, but got a {type(value).__name__}")
    is_label = column in ("label", "true_label")
    if not text and column in REQUIRED:
        problem = "should not be empty"
    elif column == "label" and text.casefold() == "nan":
        problem = "is nan, as programs write a missing one: leave the row out, or name its class"
    elif column == "split" and text.lower() not in PARTS:
        problem = f"should be one of {', '.join(PARTS)}, but got {text[:60]!r}"
    elif is_label and (len(text) > LONGEST_NAME or "\0" in text):
        problem = f"should have at most {LONGEST_NAME} letters and no NUL, but got {text[:40]!r}"
    elif is_label and printable(text) != text:  # a path may be any bytes; a label would be shown as what nobody wrote
        problem = f"{printable(text)!r} is not in UTF-8: save the table in UTF-8"
    else:
        return text
    raise _row_error(file, row, f"{column} {problem}")


def _class_texts(given: list[str], true: list[str] | None) -> dict[str, list[str]]:
    """The columns of class names, without what is no name: marks of missing ones, numbers written in two ways."""
    columns = {"label": given, **({} if true is None else {"true_label": true})}
    # Programs write whole numbers as 3 in one column, and as 3.0 in another that has gaps. Leading zeros stay: 007.
    if all(map(WHOLE_NUMBER.fullmatch, given)):
        columns = {name: [WHOLE_NUMBER.sub(r"\1", text) for text in texts] for name, texts in columns.items()}
    if true is not None:
        classes = set(columns["label"])
        columns["true_label"] = [
            "" if text.casefold() in MISSING and text not in classes else text for text in columns["true_label"]
        ]
    return columns


def _times(file: Path, cells: list[Any]) -> np.ndarray:
    """Numbers as they are, dates and times as seconds since 1970 (UTC where they name no zone)."""
    import pandas as pd

    column = pd.Series(cells, dtype=object)
    plain = column.map(lambda cell: type(cell) in (str, float) or (type(cell) is int and abs(cell) < 1 << 63))
    numbers = pd.to_numeric(column.where(plain), errors="coerce")
    found = numbers.astype(float).to_numpy()
    if np.isnan(found).all():
        dated = column.where(column.map(lambda cell: isinstance(cell, str | date)))
        dates = pd.to_datetime(dated, utc=True, format="ISO8601", errors="coerce")
        micros = dates.dt.as_unit("us").astype("int64").to_numpy()
        found = np.where(dates.isna(), np.nan, micros / 1_000_000)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        told = "should be a number or a date such as 2024-05-01T12:30, in all rows the same"
        raise _row_error(file, row, f"a timestamp {told}, but got {repr(cells[row])[:60]}")
    return found


# Files -------------------------------------------------------------------------------------------------------------


def read_csv(file: Path, wanted: Sequence[Collection[str]] = REQUIRED_NAMES) -> pd.DataFrame:
    """Every cell as text. Not pandas' own reader: it fills short rows up, and takes no name that is not UTF-8."""
    import pandas as pd

    content = read_regular(file)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{file} is in UTF-16, as some spreadsheets save text: save it as CSV in UTF-8")
    text = content.decode("utf-8-sig", "surrogateescape")
    mark = separator_of(text.partition("\n")[0], wanted)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
        headings, *rows = [row for row in reader if row] or [[]]
    except csv.Error as error:
        raise DataError(f"{file} is not a CSV file, or a damaged one: {error}") from error
    _check_once(file, headings)
    for number, row in enumerate(rows):
        if len(row) != len(headings):
            raise _row_error(file, number, "it should have as many cells as the heading")
    cells = {name: [unguarded(row[place]) for row in rows] for place, name in enumerate(headings)}
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()})


def guarded(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def unguarded(text: str) -> str:
    """Without the apostrophe that keeps a spreadsheet from taking a name for a formula, as an audit writes it."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_STARTS) else text


def _check_once(file: Path, names: Sequence[str]) -> None:
    twice = [name for name in dict.fromkeys(names) if list(names).count(name) > 1]
    if twice:
        raise DataError(f"{file}: the column {twice[0]!r} stands there twice; which is meant?")


def separator_of(heading: str, wanted: Sequence[Collection[str]]) -> str:
    """What stands between the cells of a table: commas, or semicolons or tabs, as many spreadsheets write them.

    The first of these by which the heading has all wanted columns (each by one of its names), else that of most cells.
    """
    cells = {mark: next(csv.reader([heading.rstrip("\r\n")], delimiter=mark), []) for mark in SEPARATORS}
    plain = {mark: set(map(_plain_heading, cells[mark])) for mark in SEPARATORS}
    fitting = [mark for mark in SEPARATORS if all(set(names) & plain[mark] for names in wanted)]
    return fitting[0] if fitting else max(SEPARATORS, key=lambda mark: len(cells[mark]))


def _read_jsonl(file: Path) -> pd.DataFrame:
    """Values as JSON has them: pandas' own reader would make floats of large numbers."""
    import pandas as pd

    rows = []
    lines = read_regular(file).decode("utf-8-sig", "surrogateescape").split("\n")
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _row_error(file, number, f"it is not JSON: {first_line(error)}") from error
        if not isinstance(row, dict):
            raise _row_error(file, number, f"it should be an object, but is {line[:60]!r}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})


def _read_parquet(file: Path) -> pd.DataFrame:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(f"{file}: Parquet needs pyarrow: pip install 'puridiver[parquet]'") from error
    import pandas as pd

    known = [name for names in COLUMNS.values() for name in names]
    with open_regular(file) as content:
        try:
            headings = pyarrow.parquet.read_schema(content).names
            _check_once(file, headings)
            wanted = [name for name in headings if _plain_heading(name) in known]
            # Arrow's own types: NumPy would make floats of numbers with gaps.
            table = pd.read_parquet(content, columns=wanted, dtype_backend="pyarrow").astype(object)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{file} is not a Parquet file, or a damaged one: {first_line(error)}") from error
    return table.where(table.notna(), None)


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
