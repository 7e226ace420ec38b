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
from puridiver.learner.inputs import Label

ROW, NAME, LABEL = "row", "name", "corrected_label"


def read_corrections(
    path: Path, classes: Sequence[Label], n_samples: int, names: Sequence[str] | None = None
) -> dict[int, int]:
    """Row of the set to class id, from a CSV with the column `corrected_label`, and `row` or `name`.

    Where the samples have names and the table a column `name`, that decides: the set may have grown since, so that rows
    are others. Only where several samples have one name, as where two people labelled an image, `row` says which.
    Lines whose corrected label is empty were not reviewed and are left out. A corrected label that equals the given
    one confirms it. Unknown rows, unknown labels and lines that contradict each other are errors.
    """
    ids = names_to_ids(classes)
    rows_of = _rows_by_name(names or ())
    found: dict[int, int] = {}
    lines: dict[int, int] = {}
    for number, record in read_records(path, named=bool(rows_of)):
        text = record[LABEL]
        if not text.strip():
            continue
        row = _row_by_name(record, rows_of, f"{path}, line {number}")
        if row is None:
            row = _row(record.get(ROW), n_samples, f"{path}, line {number}")
        label = class_id(text, ids)
        if label is None:
            shown = ", ".join(map(str, classes[:12])) + (", ..." if len(classes) > 12 else "")
            raise DataError(f"{path}, line {number}: corrected_label should be one of {shown}, but is {text.strip()!r}")
        if found.setdefault(row, label) != label:
            raise DataError(
                f"{path}, line {number}: row {row} is corrected to {text.strip()!r}, but line {lines[row]} says "
                f"{str(classes[found[row]])!r}; keep one of the two lines"
            )
        lines.setdefault(row, number)
    return found


def _rows_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        found.setdefault(name, []).append(row)
    return found


def _row_by_name(record: Mapping[str, str], rows_of: Mapping[str, list[int]], line: str) -> int | None:
    """The row of the sample that a line names; None where line or set have no names."""
    name = (record.get(NAME) or "") if rows_of else ""
    if not name:
        return None
    rows = rows_of.get(name, rows_of.get(unguarded(name)))
    if rows is None:
        raise DataError(f"{line}: {name} is not in this set (any more): take the line out")
    return rows[0] if len(rows) == 1 else _row_of_several(record.get(ROW, ""), name, rows, line)


def _row_of_several(text: str, name: str, rows: list[int], line: str) -> int:
    """Of the samples of one name, the one whose row a line says."""
    if text.strip() in map(str, rows):
        return int(text)
    shown = ", ".join(map(str, rows[:12])) + (", ..." if len(rows) > 12 else "")
    told = f"row {text.strip()!r} is none of them" if text.strip() else "the line has no row"
    raise DataError(
        f"{line}: {name} is the name of several samples of this set (rows {shown}), and {told}; "
        f"say in the column {ROW} which of them is meant, as suspects.csv has it"
    )


def names_to_ids(classes: Sequence[Label]) -> dict[str, int]:
    """Class ids by their names, also by those that were written with an apostrophe to keep a spreadsheet quiet."""
    guarded = {f"'{label}": i for i, label in enumerate(classes) if str(label).startswith(FORMULA_STARTS)}
    return guarded | {str(label): i for i, label in enumerate(classes)}


def class_id(text: str, ids: Mapping[str, int]) -> int | None:
    """The class that a cell names, which may have blanks around it; None where there is no such class."""
    return ids.get(text, ids.get(text.strip()))


def read_records(path: Path, named: bool) -> list[tuple[int, dict[str, str]]]:
    """The lines of the table with their numbers; where the samples are `named`, a column of names will do for rows."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets put a mark in front
    except UnicodeDecodeError as error:
        raise DataError(f"{path} should be text in UTF-8 (in a spreadsheet save it as CSV UTF-8): {error}") from error
    try:
        mark = separator_of(text.partition("\n")[0], [(ROW, NAME), (LABEL,)])
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=mark)
        _check_columns(reader.fieldnames or (), path, named)
        records = [(reader.line_num, record) for record in reader]
    except csv.Error as error:
        raise DataError(f"{path} is not a CSV file, or a damaged one: {error}") from error
    for number, record in records:
        if record[LABEL] is None or record.get(ROW, "") is None:
            raise DataError(f"{path}, line {number}: the line is shorter than the heading")
    return records


def _check_columns(columns: Sequence[str], path: Path, named: bool) -> None:
    """An error where a table does not say which samples are meant, and what their labels are."""
    keys = (ROW, NAME) if named else (ROW,)
    if LABEL in columns and any(key in columns for key in keys):
        return
    have = ", ".join(columns) or "none"
    if named:
        raise DataError(f"{path} should have the column {LABEL}, and {NAME} or {ROW} (or both), but has {have}")
    why = f"; the samples of this set have no names, so that {NAME} will not do" if NAME in columns else ""
    raise DataError(f"{path} should have the columns {ROW} and {LABEL}, but has {have}{why}")


def _row(text: str | None, n_samples: int, line: str) -> int:
    if text is None:
        raise DataError(f"{line}: there is no {NAME}, and the table has no column {ROW}: say which sample is meant")
    try:
        row = int(text)
    except ValueError:
        row = -1
    if not 0 <= row < n_samples:
        raise DataError(f"{line}: row should be from 0 to {n_samples - 1}, but is {text!r}")
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
