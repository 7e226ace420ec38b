"""Parts of grids, each with a choice of its own: "table4?noises=sym-40&seeds=1" for a campaign over several."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from puridiver.grid.cells import Grid
from puridiver.grid.define import find_grid, with_methods, with_noises

# What may be chosen, and what stands between several: titles of methods have commas and spaces.
SEPARATORS = {"methods": "|", "noises": ",", "seeds": ",", "recipe": None}


def chosen_grid(name: str, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset or file, or the part of it that is chosen after a question mark."""
    base, mark, query = name.partition("?")
    if not mark or os.path.exists(name):  # (pathlib's raises where a choice is longer than a file name may be)
        return find_grid(name, data, seeds, official)
    chosen = _read(name, query)
    grid = find_grid(base, data, _seeds(name, chosen["seeds"]) or seeds, official)
    for keep, wanted in ((with_noises, chosen["noises"]), (with_methods, chosen["methods"])):
        if wanted:
            (grid,) = keep([grid], wanted)
    return _by_recipe(grid, chosen["recipe"][0]) if chosen["recipe"] else grid


def _read(name: str, query: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {key: [] for key in SEPARATORS}
    for part in query.split("&"):
        key, equals, text = part.partition("=")
        if key not in SEPARATORS or not (equals and text):
            raise ValueError(
                f"{name!r}: a part of a grid should be chosen as GRID?noises=A,B&seeds=1,2&methods=ONE|OTHER&recipe=R, "
                f"by any of these, but got {part!r}"
            )
        if found[key]:
            raise ValueError(f"{name!r}: {key} stands there twice")
        found[key] = [word.strip() for word in text.split(SEPARATORS[key])] if SEPARATORS[key] else [text]
    return found


def _seeds(name: str, words: Sequence[str]) -> list[int]:
    try:
        return [int(word) for word in words]
    except ValueError:
        raise ValueError(f"{name!r}: seeds should be whole numbers, but got {','.join(words)!r}") from None


def _by_recipe(grid: Grid, recipe: str) -> Grid:
    columns = (dataclasses.replace(each, settings={**each.settings, "recipe": recipe}) for each in grid.columns)
    return dataclasses.replace(grid, columns=tuple(columns))
