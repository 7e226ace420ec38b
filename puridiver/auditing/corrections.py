"""Labels that a person corrected or confirmed: read from tables, and never lost when a table is written again."""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from puridiver.auditing.report import AuditReport
from puridiver.auditing.tables import SUSPECT_COLUMNS, csv_bytes
from puridiver.data.table import guarded, separator_of, unguarded
from puridiver.errors import DataError, few, first_line
from puridiver.files import read_regular
from puridiver.learner.inputs import Label

logger = logging.getLogger(__name__)

ROW, NAME, LABEL = "row", "name", "corrected_label"


def read_corrections(
    path: Path, classes: Sequence[Label], n_samples: int, names: Sequence[str] | None = None
) -> dict[int, int]:
    """Row of the set to class id, from a CSV with the column `corrected_label`, and `row` or `name`.

    Names decide where the samples and the table have them: rows may have moved since. `row` decides between samples of
    one name. Lines without a corrected label were not reviewed. Lines that contradict each other are an error.
    """
    ids, rows_of = names_to_ids(classes), dict[str, list[int]]()
    for row, name in enumerate(names or ()):
        rows_of.setdefault(name, []).append(row)
    found: dict[int, int] = {}
    lines: dict[int, int] = {}
    for number, record in _filled_in(_read_table(path, named=bool(rows_of))).iterrows():
        line, text = f"{path}, line {number}", record[LABEL].strip()
        row, label = _row_of(record, rows_of, n_samples, line), class_id(record[LABEL], ids)
        if label is None:
            raise DataError(f"{line}: {LABEL} should be one of {few(map(str, classes), 12)}, but is {text!r}")
        if found.setdefault(row, label) != label:
            said = str(classes[found[row]])
            raise DataError(
                f"{line}: row {row} is corrected to {text!r}, but line {lines[row]} says {said!r}; keep one"
            )
        lines.setdefault(row, int(str(number)))
    return found


def _read_table(path: Path, named: bool) -> pd.DataFrame:
    """The cells of a table as text, by line number; where samples are `named`, a column of names may replace rows."""
    try:
        text = read_regular(path).decode("utf-8-sig")  # spreadsheets put a mark in front
    except UnicodeDecodeError as error:
        raise DataError(f"{path} should be text in UTF-8 (in a spreadsheet save it as CSV UTF-8): {error}") from error
    mark = separator_of(text.partition("\n")[0], [(ROW, NAME), (LABEL,)])
    try:
        # The Python engine alone tells a missing cell from an empty one.
        table = pd.read_csv(
            io.StringIO(text), sep=mark, engine="python", dtype=object, keep_default_na=False, index_col=False
        )
    except ValueError as error:
        raise DataError(f"{path} is not a CSV file, or a damaged one: {first_line(error)}") from error
    keys = (ROW, NAME) if named else (ROW,)
    if LABEL not in table or not any(key in table for key in keys):
        have = few(map(str, table.columns)) or "none"
        raise DataError(f"{path} should have the columns {LABEL} and {' or '.join(keys)}, but has {have}")
    table.index += 2  # lines count from 1, and the first is the heading
    if (short := table.isna().any(axis=1)).any():
        raise DataError(f"{path}, line {short.idxmax()}: the line is shorter than the heading")
    return table


def _filled_in(table: pd.DataFrame) -> pd.DataFrame:
    return table[table[LABEL].str.strip() != ""]


def _row_of(record: pd.Series, rows_of: Mapping[str, list[int]], n_samples: int, line: str) -> int:
    """The row of the sample that a line means."""
    name = record.get(NAME, "") if rows_of else ""
    text = str(record.get(ROW, "")).strip()
    if not name:
        if not (text.isdecimal() and len(text) < 19 and int(text) < n_samples):
            raise DataError(f"{line}: {ROW} should be from 0 to {n_samples - 1}, but is {text!r:.40}")
        return int(text)
    rows = rows_of.get(name, rows_of.get(unguarded(name)))
    if rows is None:
        raise DataError(f"{line}: {name} is not in this set (any more): take the line out")
    if len(rows) > 1 and text not in map(str, rows):
        shown = few(map(str, rows), 12)
        raise DataError(f"{line}: {name} names several samples (rows {shown}): say in the column {ROW} which is meant")
    return int(text) if len(rows) > 1 else rows[0]


def names_to_ids(classes: Sequence[Label]) -> dict[str, int]:
    """Class ids by name, with and without the apostrophe that keeps a spreadsheet from running it."""
    return {**{str(guarded(str(label))): i for i, label in enumerate(classes)},
            **{str(label): i for i, label in enumerate(classes)}}  # fmt: skip


def class_id(text: str, ids: Mapping[str, int]) -> int | None:
    """The class that a cell names, which may have blanks around it; None where there is no such class."""
    return ids.get(text, ids.get(text.strip()))


def applied(given: np.ndarray, corrections: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The labels with the corrections in place, and which of them a person has checked, both (N,)."""
    labels, checked = given.copy(), np.zeros(len(given), dtype=bool)
    for row, label in corrections.items():
        labels[row], checked[row] = label, True
    return labels, checked


def corrections_csv(
    corrections: Mapping[int, int], classes: Sequence[Label], names: Sequence[str] | None = None
) -> bytes:
    """The corrections as a table that `read_corrections` reads."""
    rows = sorted(corrections)
    named = {} if names is None else {NAME: [names[row] for row in rows]}
    return csv_bytes(pd.DataFrame({ROW: rows, **named, LABEL: [classes[corrections[row]] for row in rows]}))


def keep_filled_in(path: Path, report: AuditReport | None = None) -> None:
    """Keep a list of suspects under another name where a person filled in more than the report has taken up."""
    try:
        table = _read_table(path, named=True)
    except FileNotFoundError:
        return
    except (DataError, OSError):  # a spreadsheet may have saved it in any form
        keep_beside(path)
        return
    filled, known = _filled_in(table), {} if report is None else names_to_ids(report.classes)
    taken_up = report is not None and all(
        row.isdecimal()
        and int(row) < len(report)
        and report.checked[int(row)]
        and known.get(label) == report.given[int(row)]
        for row, label in zip(filled.get(ROW, pd.Series(dtype=object)), filled[LABEL].str.strip(), strict=False)
    )
    if (len(filled) and not taken_up) or tuple(table.columns) != SUSPECT_COLUMNS:
        keep_beside(path)


def keep_beside(path: Path) -> None:
    """Give a file that a person worked on another name, and say so."""
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(1))
    kept = next(other for other in others if not other.exists())
    path.rename(kept)
    logger.warning("%s was filled in and is kept as %s; --corrections takes it", path.name, kept)
