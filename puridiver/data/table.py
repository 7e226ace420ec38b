"""A data set from a table of paths and labels: CSV (or with semicolons or tabs), JSON lines or Parquet."""

from __future__ import annotations

import codecs
import csv
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.base import UNKNOWN
from puridiver.data.listing import TEST, TRAIN, Listing, natural, printable, split_off_test
from puridiver.errors import DataError, few

# What a column may be called, the documented name first.
COLUMNS = {
    "path": ("path", "file", "file_name", "filename", "image"),
    "label": ("label", "class"),
    "true_label": ("true_label",),
    "timestamp": ("timestamp", "time"),
    "split": ("split", "part"),
}
REQUIRED = ("path", "label")
CLASS_HEADINGS = (*COLUMNS["label"], *COLUMNS["true_label"])
PARTS = {"train": TRAIN, "test": TEST, "val": TEST, "validation": TEST}
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "-1", "-1.0", "?", "unknown"))  # in any case
WHOLE_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<digits>\d+)(\.0*)?", re.ASCII)
ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")  # of a byte that is no UTF-8
SEPARATORS = (",", ";", "\t")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so

Row = dict[str, Any]


def list_table(file: Path, test_share: float | None = None) -> Listing:
    """The files that a table names; paths are relative to the table's folder. See docs/DATA.md for the columns."""
    rows = list(READERS[file.suffix.lower()](file))
    if not rows:
        raise DataError(f"{file} has no row")
    found = _columns(file, rows)
    texts = {
        name: [_text(file, i, column, row.get(column)) for i, row in enumerate(rows)] for name, column in found.items()
    }
    for name in REQUIRED:
        _require_all(file, name, texts[name])
    texts |= _class_texts(file, texts["label"], texts.get("true_label"))
    class_names = natural(list({text for name in ("label", "true_label") for text in texts.get(name, []) if text}))
    ids = {"": UNKNOWN, **{name: label for label, name in enumerate(class_names)}}

    def labels(name: str) -> np.ndarray:
        return np.array([ids[text] for text in texts.get(name, [""] * len(rows))], dtype=np.int64)

    paths = [_on_disk(file.parent, path) for path in texts["path"]]
    listing = Listing(
        file.stem, str(file.parent), paths, labels("label"), _is_test(file, texts.get("split"), len(rows)),
        tuple(printable(name) for name in class_names), labels("true_label"),
        _times(file, rows, found["timestamp"]) if "timestamp" in found else None, table=str(file),
    )  # fmt: skip
    if not listing.is_test.any():
        return split_off_test(listing, test_share)
    if test_share:
        raise ValueError(f"{file} says itself what is for testing (column split): leave the test share out")
    return listing


def _on_disk(folder: Path, path: str) -> str:
    """A path as it is written, or by the bytes that its escapes stand for: so audits write names that are no UTF-8."""
    if "\\x" not in path or os.path.exists(folder / path):
        return path
    meant = os.fsdecode(ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path)))
    return meant if os.path.exists(folder / meant) else path


def _columns(file: Path, rows: list[Row]) -> dict[str, str]:
    """Our names of the columns that are there -> what the table calls them."""
    there = dict.fromkeys(name for row in rows for name in row)
    plain = {_plain_heading(name): name for name in reversed(there)}
    found = {}
    for ours, names in COLUMNS.items():  # as it is written goes before one in capitals
        exact = [name for name in names if name in there]
        found[ours] = next(iter([*exact, *(plain[name] for name in names if name in plain)]), None)
    for name in REQUIRED:
        if found[name] is None:
            raise DataError(
                f"{file} should have a column {name!r} (or {', '.join(COLUMNS[name][1:])}), "
                f"but has {few(map(str, there)) or 'none'}"
            )
    return {ours: name for ours, name in found.items() if name is not None}


def _plain_heading(name: object) -> str:
    """A heading as COLUMNS has it: in tables it may be in capitals, and have spaces around it."""
    return str(name).strip().lower()


def _row_error(file: Path, row: int, message: str) -> DataError:
    return DataError(f"{file}: row {row + 1} (counted from 1, without the heading): {message}")


def _text(file: Path, row: int, column: str, value: Any) -> str:
    """A cell as text; empty for a missing one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():  # numbers with gaps come as floats
        return str(int(value))
    if isinstance(value, str | int | float | date):
        return str(value).strip()
    raise _row_error(file, row, f"{column} should be text or a number, but got {value!r}")


def _require_all(file: Path, name: str, texts: list[str]) -> None:
    if "" in texts:
        raise _row_error(file, texts.index(""), f"{name} should not be empty")


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
        columns["true_label"] = _without_marks(columns["true_label"], columns["label"])
    return columns


def _plain_number(text: str) -> str:
    """A whole number without sign and point that say nothing; leading zeros stay, as in 007. Other text as it is."""
    found = WHOLE_NUMBER.fullmatch(text)
    if found is None:
        return text
    sign, digits = found["sign"], found["digits"]
    return f"-{digits}" if sign == "-" and digits.strip("0") else digits


def _without_marks(true: list[str], given: list[str]) -> list[str]:
    """Empty where a true label is a mark of one that nobody knows; the name of a given class is none."""
    classes = set(given)
    return ["" if text.casefold() in MISSING and text not in classes else text for text in true]


def _is_test(file: Path, splits: list[str] | None, count: int) -> np.ndarray:
    if splits is None:
        return np.zeros(count, dtype=bool)
    for row, text in enumerate(splits):
        if text.lower() not in PARTS:
            raise _row_error(file, row, f"split should be one of {', '.join(PARTS)}, but got {text!r}")
    return np.array([PARTS[text.lower()] == TEST for text in splits])


def _times(file: Path, rows: list[Row], column: str) -> np.ndarray:
    """Numbers as they are, dates and times as seconds since 1970 (UTC where they name no zone)."""
    values = [_number_or_date(row.get(column)) for row in rows]
    found = np.array([_seconds(file, row, value) for row, value in enumerate(values)], dtype=np.float64)
    dates = [isinstance(value, datetime) for value in values]
    if any(dates) and not all(dates):  # 20240501 would come long before 2024-05-01
        other = dates.index(not dates[0])
        raise _row_error(
            file, other, f"a timestamp should be {'a date' if dates[0] else 'a number'}, as in the first row, but got "
            f"{rows[other].get(column)!r}: write all of them in one way",
        )  # fmt: skip
    return found


def _seconds(file: Path, row: int, value: Any) -> float:
    if isinstance(value, datetime):
        value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if type(value) in (int, float) and math.isfinite(value):
        return float(value)
    raise _row_error(file, row, f"a timestamp should be a number or a date such as 2024-05-01T12:30, but got {value!r}")


def _number_or_date(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time())
    if not isinstance(value, str):
        return value
    text = value.strip()
    for read in (float, datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    return text


# Files -------------------------------------------------------------------------------------------------------------


def _read_csv(file: Path) -> Iterator[Row]:
    # Names that are no UTF-8 pass as they do from the file system; a byte-order mark is no part of a heading.
    with file.open("rb") as content:
        if content.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise DataError(f"{file} is in UTF-16, as some spreadsheets save text: save it as CSV in UTF-8")
    with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as lines:
        try:
            mark = separator_of(lines.readline(), [COLUMNS[name] for name in REQUIRED])
            lines.seek(0)
            reader = csv.DictReader(lines, strict=True, delimiter=mark)
            headings = list(reader.fieldnames or [])
            _check_once(file, headings)
            of_classes = [name for name in headings if _plain_heading(name) in CLASS_HEADINGS]
            for number, row in enumerate(reader):
                if None in row or None in row.values():
                    raise _row_error(file, number, "it should have as many cells as the heading")
                _check_labels(file, number, {name: row[name] for name in of_classes})
                yield {name: unguarded(value) for name, value in row.items()}
        except csv.Error as error:
            raise DataError(f"{file} is not a CSV file, or a damaged one: {error}") from error


def _check_labels(file: Path, number: int, labels: dict[str, str]) -> None:
    """A file's path may be any bytes; a label that is no UTF-8 would be shown as what nobody wrote."""
    for name, label in labels.items():
        try:
            label.encode()
        except UnicodeEncodeError:
            told = f"{name.strip()} {printable(label)!r} is not in UTF-8: save the table in UTF-8"
            raise _row_error(file, number, told) from None


def unguarded(text: str) -> str:
    """Without the apostrophe that keeps a spreadsheet from taking a name for a formula, as an audit writes it."""
    return text[1:] if text.startswith("'") and text[1:].startswith(FORMULA_STARTS) else text


def _check_once(file: Path, names: list[str]) -> None:
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
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


def _read_jsonl(file: Path) -> Iterator[Row]:
    with file.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
        for number, line in enumerate(lines):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=_once)
            except (ValueError, RecursionError) as error:
                raise _row_error(file, number, f"it is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise _row_error(file, number, f"it should be an object, but is {row!r}")
            yield row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless it says something twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _read_parquet(file: Path) -> Iterator[Row]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(f"{file}: Parquet needs pyarrow: pip install 'puridiver[parquet]'") from error
    try:
        with pyarrow.parquet.ParquetFile(file) as table:
            _check_once(file, list(table.schema_arrow.names))
            wanted = [name for names in COLUMNS.values() for name in names]
            columns = [name for name in table.schema_arrow.names if _plain_heading(name) in wanted]
            for batch in table.iter_batches(columns=columns):
                yield from _in_microseconds(batch).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{file} is not a Parquet file, or a damaged one: {error}") from error


def _in_microseconds(batch: Any) -> Any:
    """The batch with times that Python has a type for; what is finer is cut off."""
    import pyarrow

    for place, field in enumerate(batch.schema):
        if pyarrow.types.is_timestamp(field.type) and field.type.unit == "ns":
            coarser = batch.column(place).cast(pyarrow.timestamp("us", field.type.tz), safe=False)
            batch = batch.set_column(place, field.name, coarser)
    return batch


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
