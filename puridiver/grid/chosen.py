"""Parts of grids, each with a choice of its own: "table4?noises=sym-40&seeds=1" for a campaign over several."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from puridiver.grid.cells import Grid
from puridiver.grid.define import find_grid, with_methods, with_noises

# What may be chosen, and what stands between several: titles of methods have commas and spaces.
SEPARATORS = {"methods": "|", "noises": ",", "seeds": ",", "recipe": None}


def base_of(name: str) -> str:
    """The grid's name without what is chosen of it."""
    exists = os.path.exists(name)  # (pathlib's raises where a choice is longer than a file name may be)
    return name if exists else name.partition("?")[0]


def seeds_of(name: str) -> list[int]:
    """The seeds that are chosen; none where all are."""
    query = name.removeprefix(base_of(name)).removeprefix("?")
    return _seeds(name, _read(name, query)["seeds"]) if query else []


def of_one_recipe(name: str, grid: Grid) -> Grid:
    """The grid of whose runs those by the recipe that is chosen count alone, whatever else was run."""
    query = name.removeprefix(base_of(name)).removeprefix("?")
    if not query or not (recipe := _read(name, query)["recipe"]):
        return grid
    methods = [dataclasses.replace(each, settings={"recipe": recipe[0], **each.settings}) for each in grid.methods]
    whole = of_one_recipe(name, grid.whole) if grid.whole else None
    return dataclasses.replace(grid, methods=tuple(methods), whole=whole)


def chosen_grid(name: str, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset or file, or the part of it that is chosen after a question mark."""
    base = base_of(name)
    if base == name:
        return find_grid(name, data, seeds, official)
    chosen = _read(name, name.removeprefix(base).removeprefix("?"))
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
    whole = _by_recipe(grid.whole, recipe) if grid.whole else None
    return dataclasses.replace(grid, columns=tuple(columns), whole=whole)
