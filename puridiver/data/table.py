"""A data set from a table of paths and labels: CSV (or with semicolons or tabs), JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from puridiver.data.base import UNKNOWN
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
PARTS = {"train": TRAIN, "test": TEST, "val": TEST, "validation": TEST}
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "-1", "-1.0", "?", "unknown"))  # in any case
WHOLE_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<digits>\d+)(\.0*)?", re.ASCII)
ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")  # of a byte that is no UTF-8
SEPARATORS = (",", ";", "\t")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so


def list_table(file: Path, test_share: float | None = None) -> Listing:
    """The files that a table names; paths are relative to the table's folder. The first row is number 1 in errors."""
    table = READERS[file.suffix.lower()](file)
    if not len(table):
        raise DataError(f"{file} has no row")
    columns = {name: table[column].tolist() for name, column in _columns(file, list(table.columns)).items()}
    texts = {name: [_text(file, row, name, value) for row, value in enumerate(columns[name])] for name in columns}
    for name in REQUIRED:
        if "" in texts[name]:
            raise _row_error(file, texts[name].index(""), f"{name} should not be empty")
    texts |= _class_texts(file, texts["label"], texts.get("true_label"))
    class_names = natural(list({text for name in ("label", "true_label") for text in texts.get(name, []) if text}))
    ids = {"": UNKNOWN, **{name: label for label, name in enumerate(class_names)}}

    def labels(name: str) -> np.ndarray:
        return np.array([ids[text] for text in texts.get(name, [""] * len(table))], dtype=np.int64)

    listing = Listing(
        file.stem, str(file.parent), [_on_disk(file.parent, path) for path in texts["path"]], labels("label"),
        _is_test(file, texts.get("split", ["train"] * len(table))), tuple(printable(name) for name in class_names),
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
    """Our names of the columns that are there -> what the table calls them."""
    plain = {_plain_heading(name): name for name in reversed(headings)}
    found = {}
    for ours, names in COLUMNS.items():  # as it is written goes before one in capitals
        candidates = [name for name in names if name in headings] + [plain[name] for name in names if name in plain]
        if candidates:
            found[ours] = candidates[0]
        elif ours in REQUIRED:
            raise DataError(
                f"{file} should have a column {ours!r} (or {', '.join(names[1:])}), but has {few(headings) or 'none'}"
            )
    return found


def _plain_heading(name: object) -> str:
    """A heading as COLUMNS has it: in tables it may be in capitals, and have spaces around it."""
    return str(name).strip().lower()


def _text(file: Path, row: int, column: str, value: Any) -> str:
    """A cell as text; empty for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():  # numbers with gaps come as floats
        return str(int(value))
    if not isinstance(value, str | int | float | date):
        raise _row_error(file, row, f"{column} should be text or a number, but got {str(value)[:60]!r}")
    text = str(value).strip() if not isinstance(value, int) or abs(value) < 1 << 63 else hex(value)
    if column in ("label", "true_label"):
        _check_label(file, row, column, text)
    return text


def _check_label(file: Path, row: int, column: str, text: str) -> None:
    """A file's path may be any bytes; a label that is no UTF-8 would be shown as what nobody wrote."""
    if len(text) > 1000 or "\0" in text:
        raise _row_error(file, row, f"{column} should have at most 1,000 letters and no NUL, but is {text[:40]!r}...")
    try:
        text.encode()
    except UnicodeEncodeError:
        told = f"{column} {printable(text)!r} is not in UTF-8: save the table in UTF-8"
        raise _row_error(file, row, told) from None


def _class_texts(file: Path, given: list[str], true: list[str] | None) -> dict[str, list[str]]:
    """The columns of class names, without what is no name: marks of missing ones, numbers written in two ways."""
    for row, text in enumerate(given):
        if text.casefold() == "nan":
            told = f"label is {text!r}, as programs write a missing one: leave the row out, or name its class"
            raise _row_error(file, row, told)
    columns = {"label": given, **({} if true is None else {"true_label": true})}
    # Programs write whole numbers as 3 in one column, and as 3.0 in another that has gaps.
    if all(map(WHOLE_NUMBER.fullmatch, given)):
        columns = {name: list(map(_plain_number, texts)) for name, texts in columns.items()}
    if true is not None:
        classes = set(columns["label"])
        columns["true_label"] = [
            "" if text.casefold() in MISSING and text not in classes else text for text in columns["true_label"]
        ]
    return columns


def _plain_number(text: str) -> str:
    """A whole number without sign and point that say nothing; leading zeros stay, as in 007. Other text as it is."""
    found = WHOLE_NUMBER.fullmatch(text)
    if found is None:
        return text
    return f"-{found['digits']}" if found["sign"] == "-" and found["digits"].strip("0") else found["digits"]


def _on_disk(folder: Path, path: str) -> str:
    """A path as it is written, or by the bytes that its escapes stand for: so audits write names that are no UTF-8."""
    if "\\x" not in path or os.path.exists(folder / path):
        return path
    meant = os.fsdecode(ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path)))
    return meant if os.path.exists(folder / meant) else path


def _is_test(file: Path, splits: list[str]) -> np.ndarray:
    for row, text in enumerate(splits):
        if text.lower() not in PARTS:
            raise _row_error(file, row, f"split should be one of {', '.join(PARTS)}, but got {text[:60]!r}")
    return np.array([PARTS[text.lower()] == TEST for text in splits])


def _times(file: Path, cells: list[Any]) -> np.ndarray:
    """Numbers as they are, dates and times as seconds since 1970 (UTC where they name no zone)."""
    values = [_number_or_date(cell) for cell in cells]
    found = np.array([_seconds(file, row, value) for row, value in enumerate(values)], dtype=np.float64)
    dates = [isinstance(value, datetime) for value in values]
    if any(dates) and not all(dates):  # 20240501 would come long before 2024-05-01
        other = dates.index(not dates[0])
        first = "a date" if dates[0] else "a number"
        told = f"a timestamp should be {first}, as in the first row, but got {cells[other]!r}: write all in one way"
        raise _row_error(file, other, told)
    return found


def _seconds(file: Path, row: int, value: Any) -> float:
    try:
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if type(value) in (int, float) and math.isfinite(value):
            return float(value)
    except (OverflowError, ValueError):  # a date beyond the calendar, a number beyond what a float holds
        pass
    told = "a timestamp should be a number or a date such as 2024-05-01T12:30, but got"
    raise _row_error(file, row, f"{told} {value!r}"[:200] if not isinstance(value, int) else f"{told} a huge number")


def _number_or_date(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if not isinstance(value, str):
        return value
    for read in (float, datetime.fromisoformat):
        try:
            return read(value.strip())
        except ValueError:
            continue
    return value


# Files -------------------------------------------------------------------------------------------------------------


def _read_csv(file: Path) -> pd.DataFrame:
    """Every cell as text. Names that are no UTF-8 pass as they do from the file system."""
    import pandas as pd

    content = read_regular(file)
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{file} is in UTF-16, as some spreadsheets save text: save it as CSV in UTF-8")
    text = content.decode("utf-8-sig", "surrogateescape")
    mark = separator_of(text.partition("\n")[0], [COLUMNS[name] for name in REQUIRED])
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the heading
        try:
            headings = next(csv.reader(io.StringIO(text), delimiter=mark, strict=True), [])
            _check_once(file, headings)
            table = pd.read_csv(
                io.StringIO(text), sep=mark, dtype=object, keep_default_na=False, na_values=[], index_col=False
            )
        except (ValueError, csv.Error, pd.errors.ParserWarning) as error:
            raise DataError(f"{file} is not a CSV file, or a damaged one: {first_line(error)}") from error
    table.columns = pd.Index(headings, dtype=object)
    short = table.isna().any(axis=1).to_numpy()
    if short.any():
        raise _row_error(file, int(short.argmax()), "it should have as many cells as the heading")
    return table.map(unguarded)


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
            row = json.loads(line, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            raise _row_error(file, number, f"it is not JSON: {first_line(error)}") from error
        if not isinstance(row, dict):
            raise _row_error(file, number, f"it should be an object, but is {line[:60]!r}")
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in names})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless it says something twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


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
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
