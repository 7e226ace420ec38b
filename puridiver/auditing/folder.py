"""An audit in a folder: its tables, and the corrections of people, with which the same command repeats the audit.

Text in tables is safe from being taken for a formula. What a person typed is never lost when a table is written again.
"""

import io
import itertools
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from puridiver.auditing.audit import audit_set
from puridiver.auditing.passes import Advance, AuditSettings, LabelledSet, silent
from puridiver.auditing.report import AuditReport, Judgement
from puridiver.data.listing import guarded, read_csv
from puridiver.errors import DataError, few
from puridiver.files import file_lock, read_json, read_regular, write_atomically

logger = logging.getLogger(__name__)

INDEX, SUMMARY, CORRECTIONS, PAGE = "audit.json", "summary.json", "corrections.csv", "audit.html"
SUSPECTS, LABELS, CLEANLAB = "suspects.csv", "labels.csv", "cleanlab.npz"
LOCK = ".audit.lock"  # a name of its own: a run must not take the folder of a killed audit for its own
FORMAT = "puridiver-audit"
ROW, NAME, PROBABILITY, CORRECTED = "row", "name", "probability_given_label_is_right", "corrected_label"
# The reviewer fills in the last column; `puridiver audit --corrections` reads it.
SUSPECT_COLUMNS = (ROW, NAME, "given_label", "suggested_label", PROBABILITY, "why", CORRECTED)


def begun(path: Path) -> str:
    """The digest of the data that the folder's audit is of; empty where there is no audit."""
    place = path / INDEX
    if not place.exists():
        return ""
    found = read_json(place)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise DataError(f"{place} is damaged, or not an audit's (it has no format {FORMAT!r}): choose another folder")
    return str(found.get("data_sha256"))


def check_own(path: Path, data: str = "") -> None:
    """Raise an error if an audit would overwrite its data, or files that no audit wrote."""
    names = (SUMMARY, PAGE, CORRECTIONS, SUSPECTS, LABELS, CLEANLAB)
    results = [path / name for name in names if (path / name).exists()]
    if results and not begun(path):
        told = ", ".join(place.name for place in results)
        raise DataError(f"{path} holds no audit, but files that one would write over: {told}")
    if data and Path(data).resolve() in [place.resolve() for place in results]:
        raise DataError(f"{data} belongs to the audit in {path}, which would write over it")


def audit_in_folder(
    path: Path, labelled: LabelledSet, settings: AuditSettings, advance: Advance = silent, images: str | None = None,
    force: bool = False,
) -> AuditReport:  # fmt: skip
    """Audit into a folder with all corrections that it has; the later correction of a row counts.

    `images` is the folder of the image files, for labels.csv. `force` replaces an audit of other data.
    """
    path.mkdir(parents=True, exist_ok=True)
    with file_lock(path / LOCK, wait_seconds=0, what=f"the audit in {path}"):
        check_own(path)
        digest = sha256(np.ascontiguousarray(labelled.images.numpy()).data)
        digest.update(labelled.original.tobytes() + json.dumps(labelled.classes).encode())
        if not force and begun(path) not in ("", digest.hexdigest()):
            told = "say the same options that read them, name another folder, or add --force"
            raise DataError(f"{path} holds an audit of other data or labels: {told}")
        if force and (path / CORRECTIONS).exists():
            keep_beside(path / CORRECTIONS)
        index = {"format": FORMAT, "data_sha256": digest.hexdigest()}
        write_atomically(path / INDEX, (json.dumps(index, indent=1) + "\n").encode())
        if (path / CORRECTIONS).exists():
            known = read_corrections(path / CORRECTIONS, labelled)
            labelled = replace(labelled, corrections=known | dict(labelled.corrections))
        if labelled.corrections:
            write_atomically(path / CORRECTIONS, corrections_csv(labelled))
        report = audit_set(labelled, settings, advance)
        write_tables(report, path, images)
    return report


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A CSV file that no spreadsheet takes for formulas."""
    return frame.astype(object).map(guarded).to_csv(index=False, lineterminator="\r\n").encode()


def suspects_table(report: AuditReport) -> pd.DataFrame:
    """The suspects as a table in which a person fills in the last column."""
    table = pd.DataFrame(report.suspects(), columns=Judgement._fields).round(6).assign(corrected_label="")
    return table.set_axis(SUSPECT_COLUMNS, axis=1)


def labels_table(report: AuditReport, images: str | None) -> pd.DataFrame:
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
    if (folder / SUSPECTS).exists() and read_regular(folder / SUSPECTS) != suspects:
        keep_beside(folder / SUSPECTS)  # somebody may have filled it in
    write_atomically(folder / SUSPECTS, suspects)
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
    if not found:
        raise DataError(f"{path} corrects nothing: its column {CORRECTED} is empty on every line")
    return found


def corrections_csv(labelled: LabelledSet) -> bytes:
    """The corrections of a set as a table that `read_corrections` reads."""
    rows = sorted(labelled.corrections)
    labels = [labelled.classes[labelled.corrections[row]] for row in rows]
    names = [labelled.names[row] if labelled.names else "" for row in rows]
    return csv_bytes(pd.DataFrame({ROW: rows, NAME: names, CORRECTED: labels}))


def keep_beside(path: Path) -> None:
    """Rename a file that a person may have edited, and log the new name."""
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(1))
    kept = next(other for other in others if not other.exists())
    path.rename(kept)
    logger.warning("the %s that was there is kept as %s", path.name, kept)
