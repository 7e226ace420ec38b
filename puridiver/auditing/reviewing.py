"""What a person typed into the list of suspects, which must outlive the next writing of it."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import NamedTuple

from puridiver.auditing.corrections import LABEL, NAME, ROW, class_id, names_to_ids, read_records
from puridiver.auditing.report import AuditReport
from puridiver.auditing.tables import SUSPECT_COLUMNS, Typed
from puridiver.data.table import unguarded
from puridiver.errors import DataError

logger = logging.getLogger(__name__)


class Review(NamedTuple):
    """What stands in a list of suspects beside what an audit writes into one."""

    labels: Typed
    whole: bool  # whether the labels are all of it: no columns of the reviewer's own, nothing that cannot be read


def read_review(path: Path) -> Review:
    """What was typed into a list; a file that is not there, or is as it was written, has nothing."""
    if not path.exists():
        return Review({}, True)
    try:
        records = read_records(path, named=True)
    except (DataError, OSError):  # a file that a spreadsheet saved otherwise may hold anything
        return Review({}, False)
    labels: Typed = {}
    whole = all(tuple(record) == SUSPECT_COLUMNS for _, record in records)
    for _, record in records:
        if record[LABEL].strip():
            sample = record.get(ROW, "").strip(), unguarded(record.get(NAME) or "")
            whole &= labels.setdefault(sample, record[LABEL]) == record[LABEL]  # else it is there twice
    return Review(labels, whole)


def carry_over(path: Path, report: AuditReport) -> Typed:
    """What a new list of the report's suspects is to be filled in with.

    Where that is not all that was typed into the old one, and the report has not taken up the rest as corrections, the
    old file is kept beside.
    """
    review = read_review(path)
    listed = {(str(j.row), j.name) for j in report.suspects()}
    others = [sample for sample in review.labels if sample not in listed]
    if not review.whole or not all(_is_taken_up(sample[0], review.labels[sample], report) for sample in others):
        keep_beside(path, "not all that was filled in there fits the new list")
    return {sample: text for sample, text in review.labels.items() if sample in listed}


def _is_taken_up(row: str, text: str, report: AuditReport) -> bool:
    if not (row.isdecimal() and int(row) < len(report)):
        return False
    label = class_id(text, names_to_ids(report.classes))
    return bool(report.checked[int(row)]) and label == int(report.given[int(row)])


def keep_beside(path: Path, why: str) -> None:
    """Give a file that a person worked on another name, and say so."""
    others = (path.with_name(f"{path.stem}-{number}{path.suffix}") for number in itertools.count(1))
    kept = next(other for other in others if not other.exists())
    path.rename(kept)
    logger.warning("%s is kept as %s (--corrections takes it): %s", path.name, kept, why)
