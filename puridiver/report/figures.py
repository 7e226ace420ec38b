"""Every figure by its name: drawn into a file for a paper, or handed to the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from puridiver.errors import DataError
from puridiver.report import alpha, curves, distributions, mixtures, style
from puridiver.report.reading import Run, find_runs, representatives

FIGURES: dict[str, Callable[[Sequence[Run]], style.Picture]] = {
    "accuracy": curves.accuracy_picture,
    "stream": curves.stream_picture,
    "memory": curves.memory_picture,
    "tasks": curves.tasks_picture,
    "alpha": alpha.alpha_picture,
    "diversity": alpha.diversity_picture,
    "time": curves.time_picture,
    "sets": distributions.sets_picture,
    "mixtures": mixtures.mixtures_picture,
    "balance": distributions.balance_picture,
    "confusion": distributions.confusion_picture,
}

OF_ONE_RUN = ("sets", "mixtures", "balance", "confusion")  # not of several together: a picture for each kind
DETAILED = 6  # kinds of runs shown in every detail; a grid has too many for one page


def detailed(runs: Sequence[Run]) -> list[Run]:
    """The runs to show one by one: all where they are few, else the lowest seed of a kind, every method first."""
    if len(runs) <= DETAILED:
        return list(runs)
    kinds = list(representatives(runs).values())
    methods = [run.name for run in kinds]
    order = sorted(range(len(kinds)), key=lambda i: methods[:i].count(methods[i]))
    return [kinds[i] for i in order[:DETAILED]]


def draw(
    name: str, folders: Sequence[Path], out: Path, dpi: int | None = None, tell: Callable[[str], None] | None = None
) -> Path:
    """Draw one figure of run folders (or grid folders) into a .png (of `dpi`), .svg or .pdf file.

    `tell` hears which panels these runs do not allow, if there are any.
    """
    return draw_runs(name, find_runs(folders)[0], out, dpi, tell)


def draw_runs(
    name: str, runs: Sequence[Run], out: Path, dpi: int | None = None, tell: Callable[[str], None] | None = None
) -> Path:
    if name not in FIGURES:
        raise ValueError(f"a figure should be one of {', '.join(FIGURES)}, but got {name!r}")
    picture = FIGURES[name](runs)
    if tell and picture.missing:
        tell(picture.missing)
    return style.save(picture, out, dpi)


def draw_all(runs: Sequence[Run], folder: Path) -> tuple[list[Path], list[str]]:
    """Every figure that these runs allow, as PNG and SVG; and why the others could not be drawn."""
    written, left_out = [], []
    for name, make in FIGURES.items():
        try:
            picture = make(detailed(runs) if name in OF_ONE_RUN else runs)
        except DataError as error:
            left_out.append(f"{name}: {error}")
            continue
        written += [style.save(picture, folder / f"{name}.{ending}") for ending in ("png", "svg")]
    return written, left_out
