"""An audit as one HTML page that needs nothing but itself: how many labels are wrong, and a gallery to review them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.auditing.rates import LEVEL, Rate
from puridiver.auditing.report import AuditReport
from puridiver.auditing.tables import SUSPECT_COLUMNS
from puridiver.files import write_atomically
from puridiver.metrics.memory_snapshot import LARGEST_SIDE
from puridiver.report import gallery, style
from puridiver.report.page import Headline, percent
from puridiver.report.templating import fill

SHOWN = 2_000  # images at most: a page of all of a large set would not open
KEY_IMAGES = 64  # tell two sets with the same labels apart
HEADINGS = ("label", "not checked", "estimated wrong", f"{LEVEL:.0%} interval", "suspects", "most often suggested")


def write_audit_page(report: AuditReport, images: np.ndarray, title: str, facts: dict[str, str], out: Path) -> Path:
    """Write the page; `images` are those of the whole set, uint8 (N, H, W, C)."""
    content = render(report, images, title, facts).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)
    return out


def render(report: AuditReport, images: np.ndarray, title: str, facts: dict[str, str]) -> str:
    style.check_installed("report", "jinja2", "PIL")
    rows = report.ranking()[:SHOWN]
    return fill(
        "audit.html",
        "audit",
        title=title,
        caution=report.caution,
        headlines=headlines(report),
        headings=HEADINGS,
        by_class=by_class(report),
        classes=[str(label) for label in report.classes],
        intro=_intro(len(rows), len(report)),
        sheets=gallery.sprite_sheets(thumbnails(images, rows)),
        data=gallery.script_json(gallery_content(report, images, rows)),
        facts=facts,
    )


def headlines(report: AuditReport) -> list[Headline]:
    suspects, checked = len(report.suspect_rows()), int(report.checked.sum())
    noise = report.noise
    found = [
        Headline("Estimated wrong labels", percent(noise.rate),
                 f"of the {noise.count} labels that nobody has checked; {LEVEL:.0%} interval {_interval(noise)}."),
        Headline("Suspects", str(suspects), "labels that are more probably wrong than right."),
        Headline("Images", str(len(report)), f"in {len(report.classes)} classes."),
    ]  # fmt: skip
    if checked:
        changed = int((report.given != report.original).sum())
        found.append(Headline("Checked", str(checked), f"by a person; {changed} of these labels were changed."))
    return found


def by_class(report: AuditReport) -> list[tuple[str, ...]]:
    """One line a label, the most contaminated first."""
    suspects = np.bincount(report.given[report.suspect_rows()], minlength=len(report.classes))
    order = sorted(range(len(report.classes)), key=lambda c: -report.noise_by_class[c].rate)
    return [_class_line(report, c, int(suspects[c])) for c in order]


def _class_line(report: AuditReport, c: int, suspects: int) -> tuple[str, ...]:
    rate = report.noise_by_class[c]
    among = report.suggested[(report.given == c) & (report.p_correct < 0.5)]
    among = among[among != c]
    mostly = str(report.classes[int(np.bincount(among).argmax())]) if len(among) else "-"
    return (str(report.classes[c]), str(rate.count), percent(rate.rate), _interval(rate), str(suspects), mostly)


def _interval(rate: Rate) -> str:
    return f"{percent(rate.low)} to {percent(rate.high)}"


def _intro(shown: int, total: int) -> str:
    if shown == total:
        return f"All {total} images."
    return f"The {shown} most doubtful of {total} images; the CSV files have all of them."


def gallery_content(report: AuditReport, images: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """What the page's script needs; the rows are those of the memory's gallery and two columns more."""
    height, width = thumbnails(images, rows[:1]).shape[1:3]
    ids = {label: c for c, label in enumerate(report.classes)}
    return {
        "classes": [str(label) for label in report.classes],
        "sets": [],
        "cell": [width, height],
        "columns": gallery.COLUMNS,
        "perSheet": gallery.PER_SHEET,
        "review": True,
        "key": review_key(report, images),
        "checked": np.flatnonzero(report.checked).tolist(),
        "head": SUSPECT_COLUMNS,
        "file": "suspects.csv",
        "rows": [
            [j.row, ids[j.given_label], ids[j.suggested_label], float(f"{j.p_correct:.6g}"), None, None, j.why, j.name]
            for j in report.judgements(rows)
        ],
    }


def review_key(report: AuditReport, images: np.ndarray) -> str:
    """The name under which a browser keeps the corrections: one audit's, also once it went on with some of them."""
    words = [report.settings.to_dict(), report.classes, report.names]
    found = hashlib.sha256(json.dumps(words).encode() + report.original.tobytes())
    found.update(np.ascontiguousarray(images[:KEY_IMAGES]).tobytes())
    return f"puridiver-audit-{found.hexdigest()[:16]}"


def thumbnails(images: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The images of some rows, larger ones made smaller by leaving out pixels, so that the page stays small."""
    step = max(1, -(-max(images.shape[1:3]) // LARGEST_SIDE))
    return np.ascontiguousarray(images[rows][:, ::step, ::step])
