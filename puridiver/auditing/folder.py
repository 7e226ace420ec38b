"""An audit in a folder, which keeps the corrections: the same command again repeats the audit with all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from puridiver.auditing import tables
from puridiver.auditing.audit import audit_set
from puridiver.auditing.passes import Advance, AuditSettings, LabelledSet, silent
from puridiver.auditing.report import AuditReport
from puridiver.errors import DataError
from puridiver.files import file_lock, read_json, write_atomically

INDEX, SUMMARY, CORRECTIONS, PAGE = "audit.json", "summary.json", "corrections.csv", "audit.html"
LOCK = ".audit.lock"  # a name of its own: a run must not take the folder of a killed audit for its own
FORMAT = "puridiver-audit"


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
    """Raise an error where an audit would overwrite files that no audit wrote, or its data."""
    results = [path / name for name in (SUMMARY, PAGE, CORRECTIONS, *tables.FILES) if (path / name).exists()]
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
            tables.keep_beside(path / CORRECTIONS)
        index = {"format": FORMAT, "data_sha256": digest.hexdigest()}
        write_atomically(path / INDEX, (json.dumps(index, indent=1) + "\n").encode())
        if (path / CORRECTIONS).exists():
            known = tables.read_corrections(path / CORRECTIONS, labelled)
            labelled = replace(labelled, corrections=known | dict(labelled.corrections))
        if labelled.corrections:
            write_atomically(path / CORRECTIONS, tables.corrections_csv(labelled))
        report = audit_set(labelled, settings, advance)
        tables.write_tables(report, path, images)
    return report
