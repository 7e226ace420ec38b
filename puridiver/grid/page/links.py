"""The list of a page's sections at its top, each a link."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

SECTION = "## "
FEW = 3  # sections that a reader finds without a list


def list_of_sections(parts: Sequence[str]) -> list[str]:
    """A link to each section of the parts of a page; nothing where they are few."""
    headings = [line for part in parts for line in part.splitlines() if re.match(r"#+ ", line)]
    linked = [
        f"- [{heading.removeprefix(SECTION)}](#{anchor})"
        for heading, anchor in zip(headings, anchors_of(headings), strict=True)
        if heading.startswith(SECTION)
    ]
    return ["\n".join(linked)] if len(linked) > FEW else []


def anchors_of(headings: Sequence[str]) -> list[str]:
    """The anchors that GitHub gives the headings of a page, in order: a repeated one is numbered."""
    seen: Counter[str] = Counter()
    found = []
    for heading in headings:
        plain = re.sub(r"[^\w\- ]", "", heading.lstrip("#").strip().lower()).replace(" ", "-")
        found.append(f"{plain}-{seen[plain]}" if seen[plain] else plain)
        seen[plain] += 1
    return found
