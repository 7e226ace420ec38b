"""The tables of an audit: suspects and corrections of people, labels for training, files for cleanlab.

Text in them is safe from being taken for a formula. What a person typed is never lost when a table is written again.
"""

from __future__ import annotations

import io
import itertools
import logging
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from puridiver.auditing.passes import LabelledSet
from puridiver.auditing.report import AuditReport, Judgement
from puridiver.data.listing import guarded, read_csv
from puridiver.errors import DataError, few
from puridiver.files import read_regular, write_atomically

logger = logging.getLogger(__name__)

SUSPECTS, SUSPECTS_DIGEST, LABELS, CLEANLAB = "suspects.csv", ".suspects.sha256", "labels.csv", "cleanlab.npz"
FILES = (SUSPECTS, SUSPECTS_DIGEST, LABELS, CLEANLAB)
ROW, NAME, PROBABILITY, CORRECTED = "row", "name", "probability_given_label_is_right", "corrected_label"
# The reviewer fills in the last column; `puridiver audit --corrections` reads it.
SUSPECT_COLUMNS = (ROW, NAME, "given_label", "suggested_label", PROBABILITY, "why", CORRECTED)


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A CSV file that no spreadsheet takes for formulas."""
    return frame.astype(object).map(guarded).to_csv(index=False, lineterminator="\r\n").encode()


def suspects_table(report: AuditReport) -> pd.DataFrame:
    """The doubtful labels, for a person to fill in."""
    table = pd.DataFrame(report.suspects(), columns=Judgement._fields).round(6).assign(corrected_label="")
    return table.set_axis(SUSPECT_COLUMNS, axis=1)


def labels_table(report: AuditReport, images: str | None = None) -> pd.DataFrame:
    """Every label as it is now, in the order of the set, and what it was.

    `images` is the folder of the image files, as seen from that of the table: `run --data` reads a table with paths.
    """
    classes = np.array(report.classes, dtype=object)
    frame = pd.DataFrame({
        ROW: range(len(report)), NAME: report.names or "", "label": classes[report.given],
        "original_label": classes[report.original], "checked": report.checked,
    }, dtype=object)  # fmt: skip
    return frame if images is None else frame.assign(path=[os.path.join(images, name) for name in report.names or ()])


def write_tables(report: AuditReport, folder: Path, images: str | None = None) -> None:
    """Write suspects.csv, labels.csv and the arrays that cleanlab's functions take."""
    suspects, arrays = csv_bytes(suspects_table(report)), io.BytesIO()
    if not suspects.isascii():
        suspects = b"\xef\xbb\xbf" + suspects  # spreadsheets need the mark for letters beyond a to z
    np.savez(arrays, labels=report.given, pred_probs=report.probabilities.astype(np.float32))
    write_atomically(folder / SUSPECTS, suspects)
    write_atomically(folder / SUSPECTS_DIGEST, sha256(suspects).hexdigest().encode())
    write_atomically(folder / LABELS, csv_bytes(labels_table(report, images)))
    write_atomically(folder / CLEANLAB, arrays.getvalue())


def read_corrections(path: Path, labelled: LabelledSet) -> dict[int, int]:
    """Row of the set to class id, from a CSV with the column `corrected_label`, and `row` or `name`.

    Names decide where the samples and the table have them: rows may have moved since. `row` decides between samples of
    one name. Lines without a corrected label were not reviewed. Lines that contradict each other are an error.
    """
    table, keys = read_csv(path), (ROW, NAME) if labelled.names else (ROW,)
    if CORRECTED not in table or not any(key in table for key in keys):
        have = few(map(str, table.columns)) or "none"
        raise DataError(f"{path} should have the columns {CORRECTED} and {' or '.join(keys)}, but has {have}")
    ids, found = {str(label): i for i, label in enumerate(labelled.classes)}, dict[int, int]()
    rows_of: dict[str, Sequence[int]] = {"": range(len(labelled.original))}
    for row, name in enumerate(labelled.names or ()):
        rows_of[name] = [*rows_of.get(name, ()), row] if name else rows_of[""]
    for number, cells in enumerate(table.to_dict("records"), 2):
        if not (text := cells[CORRECTED].strip()):
            continue
        line, label = f"{path}, line {number}", ids.get(cells[CORRECTED], ids.get(text))
        if label is None:
            raise DataError(f"{line}: {CORRECTED} should be one of {few(ids, 12)}, but is {text!r}")
        name, place = cells.get(NAME, "") if labelled.names else "", cells.get(ROW, "").strip()
        if name not in rows_of:
            raise DataError(f"{line}: {name} is not in this set (any more): take the line out")
        if len(rows := rows_of[name]) == 1:
            place = str(rows[0])
        if not (place.isdecimal() and len(place) < 19 and int(place) in rows):
            raise DataError(f"{line}: {ROW} should be one of {few(map(str, rows), 12)}, but is {place!r:.40}")
        if found.setdefault(int(place), label) != label:
            raise DataError(f"{line}: row {place} is {text!r} here, but something else in an earlier line")
    return found


def corrections_csv(labelled: LabelledSet) -> bytes:
    """The corrections of a set as a table that `read_corrections` reads."""
    rows = sorted(labelled.corrections)
    labels = [labelled.classes[labelled.corrections[row]] for row in rows]
    names = [labelled.names[row] if labelled.names else "" for row in rows]
    return csv_bytes(pd.DataFrame({ROW: rows, NAME: names, CORRECTED: labels}))


def keep_edited(folder: Path) -> None:
    """Keep the list of suspects under another name if somebody has edited it since it was written."""
    suspects, digest = folder / SUSPECTS, folder / SUSPECTS_DIGEST
    written = read_regular(digest) if digest.is_file() else b""
    if suspects.exists() and sha256(read_regular(suspects)).hexdigest().encode() != written:
        keep_beside(suspects)


def keep_beside(path: Path) -> None:
    """Give a file that a person worked on another name, and say so."""
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(1))
    kept = next(other for other in others if not other.exists())
    path.rename(kept)
    logger.warning("%s was edited and is kept as %s", path.name, kept)
