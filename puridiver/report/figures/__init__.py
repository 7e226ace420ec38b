"""Figures of runs. Every class of this folder that names itself is on the page and in `puridiver figure`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import pandas as pd

from puridiver.discovery import members
from puridiver.errors import DataError, few
from puridiver.report import style
from puridiver.report.reading import Run, damage, representatives
from puridiver.report.style import Panel


@dataclass(frozen=True)
class Drawing:
    """A figure of some runs, ready to be rendered. It has no panels if the runs lack what it shows."""

    caption: str
    panels: Sequence[Panel]
    numbers: pd.DataFrame  # what is drawn, as a table


class Figure(ABC):
    """A kind of figure."""

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[str] = "a finished run"  # says what is missing where nothing can be drawn
    order: ClassVar[int] = 1000  # place on the page
    of_run: ClassVar[bool] = False  # whether the page shows it of a single run
    of_several: ClassVar[bool] = False  # whether the page shows it of several runs together
    internal: ClassVar[bool] = False  # whether it shows how a method works inside: the page folds it away

    @abstractmethod
    def draw(self, runs: Sequence[Run]) -> Drawing:
        """Draw what these runs have of it; all of them decide labels and colours."""


class RunFigure(Figure):
    """A figure of one run. Of several runs it shows the lowest seed of each group."""

    of_run = True

    @abstractmethod
    def draw_run(self, run: Run) -> Drawing: ...

    def draw(self, runs: Sequence[Run]) -> Drawing:
        parts = {label: self.draw_run(run) for label, run in representatives(runs).items()}
        panels = [
            replace(panel, title=panel.title + f", {label}" * (len(parts) > 1))
            for label, part in parts.items() for panel in part.panels
        ]  # fmt: skip
        numbers = pd.concat({label: part.numbers for label, part in parts.items()}, names=["run"]).reset_index("run")
        return Drawing(next(iter(parts.values())).caption, panels, numbers)


@cache
def figures() -> dict[str, Figure]:
    """All figures by name, in the order of the page."""
    found = [kind() for kind in members(__name__, Figure).values()]  # type: ignore[type-abstract]
    return {figure.name: figure for figure in sorted(found, key=lambda figure: (figure.order, figure.name))}


def draw(name: str, runs: Sequence[Run]) -> Drawing:
    """Draw a figure of runs; a `DataError` says what they lack for it."""
    with damage(f"metrics.jsonl of {few(str(run.folder) for run in runs)}"):
        drawing = figures()[name].draw(runs)
    if not drawing.panels:
        raise DataError(f"{name} needs {figures()[name].needs}")
    return drawing


def save(drawing: Drawing, out: Path, dpi: int | None = None, force: bool = False) -> Path:
    """Write a drawing as .png (of `dpi`), .svg or .pdf; `force` replaces a file that puridiver did not write."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in style.METADATA:
        raise ValueError(f"a picture should be a .png, .svg or .pdf file, but got {out.name!r}")
    return style.write_output(out, lambda: style.picture(drawing.panels, kind, dpi), force)
