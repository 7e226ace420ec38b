"""An audit as files: the list of suspects for people, and arrays and a table in the form that cleanlab reads."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.auditing.carried import Carried
from puridiver.auditing.report import AuditReport, Judgement
from puridiver.data.table import FORMULA_STARTS
from puridiver.files import write_atomically

NOTHING = Carried()
SUSPECTS, LABELS, CLEANLAB = "suspects.csv", "labels.csv", "cleanlab"
# The last column is for the reviewer: `puridiver audit --corrections` reads it back.
SUSPECT_COLUMNS = (
    "row", "name", "given_label", "suggested_label", "probability_given_label_is_right", "why", "corrected_label",
)  # fmt: skip
Typed = dict[tuple[str, str], str]  # what a person filled in, by the sample's row, as text, and name


def guarded(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay as they are."""
    return "'" + value if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(head)
    writer.writerows([guarded(value) for value in row] for row in rows)
    return text.getvalue()


def suspects_csv(judgements: Iterable[Judgement], typed: Mapping[tuple[str, str], str] | None = None) -> str:
    """The doubtful labels as a table that a person can fill in, or has in part."""
    known = typed or {}
    rows = (
        (j.row, j.name, j.given_label, j.suggested_label, round(j.p_correct, 6), j.why,
         known.get((str(j.row), j.name), ""))
        for j in judgements
    )  # fmt: skip
    return csv_text(SUSPECT_COLUMNS, rows)


def for_spreadsheets(text: str) -> bytes:
    """As UTF-8, with a mark in front where letters other than a to z need it: spreadsheets take another code else."""
    return text.encode("utf-8" if text.isascii() else "utf-8-sig")


def labels_csv(report: AuditReport, images: str | None = None, carried: Carried = NOTHING) -> str:
    """Every label as it is now, in the order of the set, and what it was.

    Where the names are files in a folder `images`, paths make it a table that `puridiver run --data` reads, with what
    is `carried` of the data beside their labels.
    """
    names = report.names or [""] * len(report.given)
    rows = [
        (row, names[row], report.classes[now], report.classes[was], str(bool(seen)))
        for row, (now, was, seen) in enumerate(zip(report.given, report.original, report.checked, strict=True))
    ]
    columns = ("row", "name", "label", "original_label", "checked")
    if images is None:
        return csv_text(columns, rows)
    others = [
        ("", name, label, label, "") for name, label in zip(carried.other_names, carried.other_labels, strict=True)
    ]
    lines = (
        (*line, os.path.join(images, str(line[1])), *more)
        for found, further in ((rows, carried.columns), (others, carried.other_columns))
        for line, *more in zip(found, *further.values(), strict=True)
    )
    return csv_text((*columns, "path", *carried.columns), lines)


def label_issues_csv(report: AuditReport) -> str:
    """cleanlab's data frame of label issues, in the order of the set; labels are class ids, as cleanlab has them."""
    predicted = report.probabilities.argmax(axis=1)
    rows = (
        (str(bool(p < 0.5)), round(float(p), 6), int(given), int(guess))
        for p, given, guess in zip(report.p_correct, report.given, predicted, strict=True)
    )
    return csv_text(("is_label_issue", "label_quality", "given_label", "predicted_label"), rows)


def npy_bytes(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _path_from(folder: Path, images: Path) -> str:
    try:
        return os.path.relpath(images, folder)
    except ValueError:  # on another drive of Windows
        return os.path.abspath(images)


def write_tables(
    report: AuditReport, folder: Path, images: Path | None = None, carried: Carried = NOTHING,
    typed: Mapping[tuple[str, str], str] | None = None,
) -> None:  # fmt: skip
    """Write suspects.csv, labels.csv and the folder for cleanlab; `images` is where names are files.

    `typed` is what stays filled in of an older suspects.csv, which is written over.
    """
    (folder / CLEANLAB).mkdir(parents=True, exist_ok=True)
    there = None if images is None else _path_from(folder, images)
    contents = {
        SUSPECTS: for_spreadsheets(suspects_csv(report.suspects(), typed)),
        LABELS: labels_csv(report, there, carried).encode(),
        f"{CLEANLAB}/pred_probs.npy": npy_bytes(report.probabilities.astype(np.float32)),
        f"{CLEANLAB}/labels.npy": npy_bytes(report.given),
        f"{CLEANLAB}/label_issues.csv": label_issues_csv(report).encode(),
        f"{CLEANLAB}/classes.csv": csv_text(("id", "label"), enumerate(report.classes)).encode(),
    }
    for name, content in contents.items():
        write_atomically(folder / name, content)
