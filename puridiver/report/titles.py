"""What a grid calls its methods: kept in its folder, so that pages and figures have the words of its table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.runs.folder import GRID_CELLS as CELLS

TITLES = "titles.json"


@dataclass(frozen=True)
class Title:
    """A method's title, and the options that the method sets itself, for which the title stands too."""

    text: str = ""
    options: tuple[str, ...] = ()


UNTITLED = Title()


def read_titles(grid: Path) -> dict[str, Title]:
    """The titles of a grid's folder by the identity of the run; none where a version that kept none made it."""
    try:
        found = json.loads((grid / TITLES).read_text(encoding="utf-8"))
        return {cell: _title(entry) for cell, entry in found.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{grid / TITLES} is damaged ({error}): remove it; runs are then named by their settings, until "
            "`puridiver grid` writes it anew"
        ) from error


def titles_beside(place: Path) -> dict[str, Title]:
    """The titles that a grid kept for the runs of its folder, of its ledger, or of one run in it."""
    grid = place.parent.parent if place.parent.name == CELLS else place if place.is_dir() else place.parent
    return read_titles(grid)


def _title(entry: Any) -> Title:
    title, options = entry["title"], entry["options"]
    if not isinstance(title, str) or not isinstance(options, list):
        raise TypeError("an entry should hold a title and a list of options")
    return Title(title, tuple(map(str, options)))


def write_titles(grid: Path, titles: Mapping[str, Title]) -> None:
    entries = {cell: {"title": title.text, "options": title.options} for cell, title in titles.items()}
    write_atomically(grid / TITLES, (json.dumps(entries, indent=0, ensure_ascii=False) + "\n").encode())
