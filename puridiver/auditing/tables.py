"""The tables of an audit: suspects for people, labels for training, and files for cleanlab. Text is formula-safe."""

from __future__ import annotations

import io
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from puridiver.auditing.report import AuditReport
from puridiver.data.base import DataSource, ImageSet
from puridiver.data.table import guarded
from puridiver.files import write_atomically

logger = logging.getLogger(__name__)

SUSPECTS, LABELS, CLEANLAB = "suspects.csv", "labels.csv", "cleanlab"
PROBABILITY = "probability_given_label_is_right"
# The reviewer fills in the last column; `puridiver audit --corrections` reads it.
SUSPECT_COLUMNS = ("row", "name", "given_label", "suggested_label", PROBABILITY, "why", "corrected_label")


@dataclass(frozen=True)
class Carried:
    """What the data say beside images and labels, so that labels.csv can replace them."""

    own: pd.DataFrame = field(default_factory=pd.DataFrame)  # further columns of the audited samples
    other: pd.DataFrame = field(default_factory=pd.DataFrame)  # the other part: name, label, further columns


def carried(source: DataSource, split: str, rows: np.ndarray, folder: Path) -> Carried:
    """True labels, times and the other part of data that are files in a folder; `rows` of `split` are audited.

    Nothing is carried of the other part if only some rows are audited: the table is no data set then.
    """
    part, other_split = getattr(source, split), "test" if split == "train" else "train"
    other: ImageSet = getattr(source, other_split)
    own = _columns(part, source, rows)
    if len(rows) < len(part) or not len(other) or other.names is None:
        return Carried(own)
    there = np.array([row for row, name in enumerate(other.names) if (folder / name).exists()], dtype=np.int64)
    if len(there) < len(other):
        logger.warning("left out of %s, since their names are no UTF-8: %d files", LABELS, len(other) - len(there))
    labels = [source.class_names[label] for label in other.labels.numpy()[there].tolist()]
    named = pd.DataFrame({"name": [other.names[row] for row in there], "label": labels})
    return Carried(own.assign(split=split), pd.concat([named, _columns(other, source, there)], axis=1).assign(
        split=other_split))  # fmt: skip


def _columns(part: ImageSet, source: DataSource, rows: np.ndarray) -> pd.DataFrame:
    found = pd.DataFrame(index=range(len(rows)))
    if part.true is not None and part.truth_known:
        names = [*source.class_names, ""]  # an unknown class is -1, the last
        found["true_label"] = [names[label] for label in part.true.numpy()[rows].tolist()]
    if part.times is not None:
        found["timestamp"] = part.times.numpy()[rows].tolist()
    return found


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """A CSV file that no spreadsheet takes for formulas."""
    return frame.astype(object).map(guarded).to_csv(index=False, lineterminator="\r\n").encode()


def suspects_table(report: AuditReport) -> pd.DataFrame:
    """The doubtful labels, for a person to fill in."""
    rows = [
        (j.row, j.name, j.given_label, j.suggested_label, round(j.p_correct, 6), j.why, "") for j in report.suspects()
    ]
    return pd.DataFrame(rows, columns=SUSPECT_COLUMNS)


def labels_table(report: AuditReport, images: str | None = None, beside: Carried | None = None) -> pd.DataFrame:
    """Every label as it is now, in the order of the set, and what it was.

    With the folder `images` of the named files, and with what is `beside` the labels, `run --data` reads the table.
    """
    classes = np.array(report.classes, dtype=object)
    frame = pd.DataFrame({
        "row": range(len(report)), "name": report.names or "", "label": classes[report.given],
        "original_label": classes[report.original], "checked": report.checked,
    })  # fmt: skip
    if images is None:
        return frame
    beside = beside or Carried()
    if len(beside.own.columns):
        frame = pd.concat([frame, beside.own], axis=1)
    if len(beside.other):
        others = beside.other.assign(original_label=beside.other["label"])
        frame = pd.concat([frame.astype(object), others.astype(object)], ignore_index=True).fillna("")
    frame.insert(5, "path", [os.path.join(images, name) for name in frame["name"]])
    return frame


def write_tables(report: AuditReport, folder: Path, images: Path | None = None, beside: Carried | None = None) -> None:
    """Write suspects.csv, labels.csv and the folder for cleanlab; `images` is the folder of the named files."""
    suspects = csv_bytes(suspects_table(report))
    mark = b"" if suspects.isascii() else b"\xef\xbb\xbf"  # spreadsheets need it for letters beyond a to z
    issues = pd.DataFrame({
        "is_label_issue": report.p_correct < 0.5, "label_quality": report.p_correct.round(6),
        "given_label": report.given, "predicted_label": report.probabilities.argmax(axis=1),
    })  # fmt: skip
    classes = pd.DataFrame({"id": range(len(report.classes)), "label": report.classes})
    contents = {
        SUSPECTS: mark + suspects,
        LABELS: csv_bytes(labels_table(report, None if images is None else _path_from(folder, images), beside)),
        f"{CLEANLAB}/pred_probs.npy": _npy(report.probabilities.astype(np.float32)),
        f"{CLEANLAB}/labels.npy": _npy(report.given),
        f"{CLEANLAB}/label_issues.csv": csv_bytes(issues),
        f"{CLEANLAB}/classes.csv": csv_bytes(classes),
    }
    (folder / CLEANLAB).mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_atomically(folder / name, content)


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _path_from(folder: Path, images: Path) -> str:
    try:
        return os.path.relpath(images, folder)
    except ValueError:  # on another drive of Windows
        return os.path.abspath(images)
