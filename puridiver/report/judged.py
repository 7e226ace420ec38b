"""In words: whose labels an accuracy is by, where true ones are not known of all images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def judged_by(summary: Mapping[str, Any]) -> str:
    """By which labels the judged images count as named rightly; empty where all of these are true."""
    if summary["stream_noise"] is None or summary.get("verified") == 0:
        return "by the labels that they came with, be they right or not"
    if "verified" not in summary:
        return ""
    known = f"{summary['verified']} of {summary['evaluated']}, of these {summary['verified_accuracy']:.1%}"
    return f"by the true label where it is known ({known}), else by the one that they came with"
