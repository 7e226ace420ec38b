"""Every figure, found by listing this folder, and the one way to draw them: on the page and into files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from puridiver.discovery import members
from puridiver.errors import DataError
from puridiver.report import style
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run


@cache
def figures() -> dict[str, Figure]:
    """All figures by name, in the order of the page."""
    found = [kind() for kind in members(__name__, Figure).values()]  # type: ignore[type-abstract]
    return {figure.name: figure for figure in sorted(found, key=lambda figure: (figure.order, figure.name))}


def draw(name: str, runs: Sequence[Run]) -> Drawing:
    """Draw a figure of runs; a `DataError` says what they lack for it."""
    if name not in figures():
        raise ValueError(f"a figure should be one of {', '.join(figures())}, but got {name!r}")
    figure = figures()[name]
    if not any(figure.usable(run) for run in runs):
        raise DataError(f"{name} needs {figure.needs}")
    return figure.draw(runs)


def save(drawing: Drawing, out: Path, dpi: int | None = None, force: bool = False) -> Path:
    """Write a drawing as .png (of `dpi`), .svg or .pdf; `force` replaces a file that puridiver did not write."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in style.METADATA:
        raise ValueError(f"a picture should be a .png, .svg or .pdf file, but got {out.name!r}")
    return style.write_output(out, lambda: style.picture(drawing.panels, kind, dpi), force)
