"""An audit as one HTML page: how many labels are wrong, and a gallery to review them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from puridiver.auditing.folder import SUSPECT_COLUMNS
from puridiver.auditing.noise_model import LEVEL, Rate
from puridiver.auditing.report import AuditReport
from puridiver.report.page import Headline, fill, percent, table_html, thumbnails
from puridiver.report.style import write_output

SHOWN = 2_000  # images at most: a page of all of a large set would not open
KEY_IMAGES = 64  # tell two sets with the same labels apart


def write_audit_page(report: AuditReport, images: np.ndarray, title: str, facts: Mapping[str, str], out: Path) -> Path:
    """Write the page into the audit's folder; `images` are those of the whole set, uint8 (N, H, W, C)."""
    return write_output(out, lambda: render(report, images, title, facts).encode(), force=True)


def render(report: AuditReport, images: np.ndarray, title: str, facts: Mapping[str, str]) -> str:
    """The page as HTML."""
    return fill(
        "audit.html", title=title, caution=report.caution, headlines=headlines(report), size=len(report),
        by_class=table_html(by_class(report)), gallery=gallery(report, images), facts=facts,
    )  # fmt: skip


def headlines(report: AuditReport) -> list[Headline]:
    """The figures at the top of the page."""
    noise, checked, changed = report.noise, int(report.checked.sum()), int((report.given != report.original).sum())
    found = [
        Headline("Estimated wrong labels", percent(noise.rate),
                 f"of the {noise.count} labels that nobody has checked; {LEVEL:.0%} interval {_interval(noise)}."),
        Headline("Suspects", str(len(report.suspect_rows())), "labels that are more likely wrong than right."),
        Headline("Images", str(len(report)), f"in {len(report.classes)} classes."),
        Headline("Checked", str(checked), f"by a person, who changed {changed} of these labels."),
    ]  # fmt: skip
    return found if checked else found[:-1]


def by_class(report: AuditReport) -> pd.DataFrame:
    """One row a label, the most contaminated first."""
    rows, suspects = [], report.suspect_rows()
    for c, rate in sorted(enumerate(report.noise_by_class), key=lambda pair: -pair[1].rate):
        mine = suspects[report.given[suspects] == c]
        suggested = pd.Series([str(report.classes[other]) for other in report.suggested[mine] if other != c])
        mostly = suggested.mode().tolist() or ["-"]
        rows.append((str(report.classes[c]), rate.count, percent(rate.rate), _interval(rate), len(mine), mostly[0]))
    headings = ("label", "not checked", "estimated wrong", f"{LEVEL:.0%} interval", "suspects", "most often suggested")
    return pd.DataFrame(rows, columns=headings)


def _interval(rate: Rate) -> str:
    return f"{percent(rate.low)} to {percent(rate.high)}"


def gallery(report: AuditReport, images: np.ndarray) -> dict[str, Any]:
    """The data of the gallery: the most doubtful images, and what a review needs."""
    ids, chosen = {label: c for c, label in enumerate(report.classes)}, report.ranking()[:SHOWN]
    rows = [
        {"arrival": j.row, "given": ids[j.given_label], "suggested": ids[j.suggested_label], "truth": -1,
         "p": float(f"{j.p_correct:.6g}"), "why": j.why, "name": j.name}
        for j in report.judgements(chosen)
    ]  # fmt: skip
    return {
        "classes": [str(label) for label in report.classes], "rows": rows, "images": thumbnails(images[chosen]),
        "file": "suspects.csv", "review": {"key": review_key(report, images), "head": SUSPECT_COLUMNS,
                                           "checked": np.flatnonzero(report.checked).tolist()},
    }  # fmt: skip


def review_key(report: AuditReport, images: np.ndarray) -> str:
    """The key under which a browser keeps corrections; it stays the same when the audit continues with some of them."""
    words = [asdict(report.settings), report.classes, report.names]
    found = hashlib.sha256(json.dumps(words).encode() + report.original.tobytes())
    found.update(np.ascontiguousarray(images[:KEY_IMAGES]).tobytes())
    return f"puridiver-audit-{found.hexdigest()[:16]}"
