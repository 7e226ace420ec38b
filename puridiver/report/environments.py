"""What a reader must know of a table whose runs were made under several versions of torch, or on several devices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
THREADS = re.compile(r", \d+ threads?$")  # of a CPU: they decide the time


def torch_of(row: Row) -> str:
    return str((row.get("versions") or {}).get("torch") or "of a version that is not told")


def device_of(row: Row) -> str:
    return THREADS.sub("", str(row.get("device") or "a device that is not told"))


KINDS: Mapping[str, tuple[Callable[[Row], str], str]] = {
    "torch": (torch_of, "another torch gives other figures"),
    "device": (device_of, "another device may give other figures"),
}


def environment_notes(lines: Iterable[Sequence[Row]], of: str = "mean") -> list[str]:
    """Of each data set the versions and devices of its runs, where they are several; `lines` are what is shown.

    A note also tells in how many lines (or whatever one of them is called: `of`) they come together.
    """
    by_data: dict[str, list[Sequence[Row]]] = {}
    for rows in lines:
        if rows:
            by_data.setdefault(str(rows[0]["data"]), []).append(rows)
    notes = [
        _note(data, found, name, value, warning, of)
        for data, found in by_data.items()
        for name, (value, warning) in KINDS.items()
    ]
    return [note for note in notes if note]


def _note(
    data: str, lines: Sequence[Sequence[Row]], name: str, value: Callable[[Row], str], warning: str, of: str
) -> str:
    each = {id(row): row for rows in lines for row in rows}.values()  # a run may stand in several lines
    counts = Counter(map(value, each))
    if len(counts) < 2:
        return ""
    mixed = sum(len(set(map(value, rows))) > 1 for rows in lines)
    where = f"mixed in {mixed} {of}{'s' * (mixed > 1)}" if mixed else f"never mixed in one {of}"
    told = " and ".join(f"{word} ({count})" for word, count in sorted(counts.items()))
    return f"the {data} runs are of {name} {told}, {where}: {warning}"
