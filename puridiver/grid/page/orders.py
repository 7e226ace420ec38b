"""What the order of the published streams changes: shuffled, as the released program has them, or as listed."""

from __future__ import annotations

from puridiver.grid.page.paired import MEANING, differences
from puridiver.grid.page.tables import Table

NOTE = f"Shuffled less listed, {MEANING} What is not here was run in one order alone."


def section(shuffled: Table, listed: Table) -> str:
    """Methods by noises; empty if nothing was run in both orders."""
    pairs = [(line, listed.find(line.title)) for line in shuffled.lines]
    found = differences([(line, other) for line, other in pairs if other is not None], shuffled.noises)
    return f"{NOTE}\n\n{found}" if found else ""
