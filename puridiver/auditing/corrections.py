"""Labels that a person has corrected or confirmed, read back from a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from puridiver.auditing.tables import FORMULA_STARTS, csv_text
from puridiver.data.table import separator_of, unguarded
from puridiver.errors import DataError
from puridiver.inputs import Label

ROW, NAME, LABEL = "row", "name", "corrected_label"


def read_corrections(
    path: Path, classes: Sequence[Label], n_samples: int, names: Sequence[str] | None = None
) -> dict[int, int]:
    """Row of the set to class id, from a CSV with the columns `row` and `corrected_label`.

    Where the samples have names and the table a column `name`, that decides: the set may have grown since, so that rows
    are others.
    Lines whose corrected label is empty were not reviewed and are left out. A corrected label that equals the given
    one confirms it. Unknown rows, unknown labels and lines that contradict each other are errors.
    """
    ids = _names_to_ids(classes)
    rows_of = {name: row for row, name in enumerate(names or ())}
    found: dict[int, int] = {}
    lines: dict[int, int] = {}
    for number, record in _records(path):
        text = record[LABEL]
        if not text.strip():
            continue
        row = _row_by_name(record, rows_of, path, number)
        if row is None:
            row = _row(record[ROW], n_samples, path, number)
        text = text if text in ids else text.strip()
        if text not in ids:
            shown = ", ".join(map(str, classes[:12])) + (", ..." if len(classes) > 12 else "")
            raise DataError(f"{path}, line {number}: corrected_label should be one of {shown}, but is {text!r}")
        if found.setdefault(row, ids[text]) != ids[text]:
            raise DataError(
                f"{path}, line {number}: row {row} is corrected to {text!r}, but line {lines[row]} says "
                f"{str(classes[found[row]])!r}; keep one of the two lines"
            )
        lines.setdefault(row, number)
    return found


def _row_by_name(record: Mapping[str, str], rows_of: Mapping[str, int], path: Path, number: int) -> int | None:
    """The row of the sample that a line names; None where line or set have no names."""
    name = (record.get(NAME) or "") if rows_of else ""
    if not name:
        return None
    row = rows_of.get(name, rows_of.get(unguarded(name)))
    if row is None:
        raise DataError(f"{path}, line {number}: {name} is not in this set (any more): take the line out")
    return row


def _names_to_ids(classes: Sequence[Label]) -> dict[str, int]:
    """Class ids by their names, also by those that were written with an apostrophe to keep a spreadsheet quiet."""
    guarded = {f"'{label}": i for i, label in enumerate(classes) if str(label).startswith(FORMULA_STARTS)}
    return guarded | {str(label): i for i, label in enumerate(classes)}


def _records(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The lines of the table with their numbers."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets put a mark in front
    except UnicodeDecodeError as error:
        raise DataError(f"{path} should be text in UTF-8 (in a spreadsheet save it as CSV UTF-8): {error}") from error
    try:
        mark = separator_of(text.partition("\n")[0], [(ROW,), (LABEL,)])
    except csv.Error as error:
        raise DataError(f"{path} is not a CSV file, or a damaged one: {error}") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark)
    missing = [name for name in (ROW, LABEL) if name not in (reader.fieldnames or ())]
    if missing:
        have = ", ".join(reader.fieldnames or ()) or "none"
        raise DataError(f"{path} should have the columns {ROW} and {LABEL}, but has {have}")
    records = []
    for record in reader:
        if record[ROW] is None or record[LABEL] is None:
            raise DataError(f"{path}, line {reader.line_num}: the line is shorter than the heading")
        records.append((reader.line_num, record))
    return records


def _row(text: str, n_samples: int, path: Path, number: int) -> int:
    try:
        row = int(text)
    except ValueError:
        row = -1
    if not 0 <= row < n_samples:
        raise DataError(f"{path}, line {number}: row should be from 0 to {n_samples - 1}, but is {text!r}")
    return row


def applied(given: np.ndarray, corrections: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The labels with the corrections in place, and which of them a person has checked, both (N,)."""
    labels, checked = given.copy(), np.zeros(len(given), dtype=bool)
    rows = np.fromiter(corrections, dtype=np.int64, count=len(corrections))
    labels[rows] = np.fromiter(corrections.values(), dtype=np.int64, count=len(corrections))
    checked[rows] = True
    return labels, checked


def corrections_csv(
    corrections: Mapping[int, int], classes: Sequence[Label], names: Sequence[str] | None = None
) -> str:
    lines = sorted(corrections.items())
    if names is None:
        return csv_text((ROW, LABEL), ((row, classes[label]) for row, label in lines))
    return csv_text((ROW, NAME, LABEL), ((row, names[row], classes[label]) for row, label in lines))
