"""What each difference between the paper and its released program is worth: one row switched at a time."""

from __future__ import annotations

import re
from typing import Any

from puridiver.grid.cells import Method
from puridiver.options import declared
from puridiver.options import recipe as recipe_options

# docs/FIDELITY.md's rows that are options of a recipe.
POINTS = {
    1: "eviction", 2: "z-scores", 3: "alpha's loss", 4: "what is re-labelled", 5: "weight of the prediction",
    6: "consistency distance", 7: "weights of the losses", 8: "small sets", 9: "batches", 10: "mixture fit",
    11: "warm-up", 12: "online step", 13: "BatchNorm online", 14: "schedule", 15: "network",
}  # fmt: skip

# Of a recipe the rows that change nothing of it, whatever they are switched to: which batch alpha's loss is of does not
# matter without replay and CutMix, as printed, since there is but one.
WITHOUT_EFFECT = {"paper": (3,)}


def row_options(row: int) -> list[str]:
    """The options of a row: their help names it."""
    return [name for name, option in declared().items() if re.search(rf"\[row {row}\]", option.help)]


def switched(row: int, recipe: str, other: str) -> dict[str, Any]:
    """The row's options as the other recipe has them, where the two differ."""
    here, there = recipe_options(recipe), recipe_options(other)
    return {name: there[name] for name in row_options(row) if there[name] != here[name]}


def fidelity_methods(recipe: str, other: str) -> tuple[Method, ...]:
    """The recipe as it is, and with each row alone as the other recipe has it."""
    rows = (Method(row_title(n), "puridiver", "puridiver", switched(n, recipe, other)) for n in POINTS)
    return (Method(f"{recipe} as it is", "puridiver", "puridiver"), *rows)


def row_title(row: int) -> str:
    return f"row {row}: {POINTS[row]}"


def without_effect(recipe: str) -> set[str]:
    """The titles of the methods that are the recipe as it is, with a row switched that changes nothing there."""
    return {row_title(row) for row in WITHOUT_EFFECT.get(recipe, ())}
