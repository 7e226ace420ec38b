"""Figures of runs. Every class of this folder that names itself is on the page and in `puridiver figure`."""

from __future__ import annotations

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
    """A figure of some runs, ready to be rendered."""

    caption: str
    panels: Sequence[Panel]
    numbers: pd.DataFrame  # what is drawn, as a table


class Figure(ABC):
    """A kind of figure."""

    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[str] = "a finished run"  # says what is missing where no run can be drawn
    order: ClassVar[int] = 1000  # place on the page
    of_run: ClassVar[bool] = False  # whether the page shows it of a single run
    of_several: ClassVar[bool] = False  # whether the page shows it of several runs together
    internal: ClassVar[bool] = False  # whether it shows how a method works inside: the page folds it away

    def usable(self, run: Run) -> bool:
        """Whether a run has what the figure shows."""
        return True

    @abstractmethod
    def draw(self, runs: Sequence[Run]) -> Drawing:
        """Draw the usable ones of these runs; there is at least one. The others decide labels and colours."""


class RunFigure(Figure):
    """A figure with panels of its own for each run; of several runs, for the lowest seed of each group."""

    of_run = True

    @abstractmethod
    def caption(self, runs: Sequence[Run]) -> str: ...

    @abstractmethod
    def panels(self, run: Run) -> list[Panel]: ...

    @abstractmethod
    def table(self, run: Run) -> pd.DataFrame: ...

    def draw(self, runs: Sequence[Run]) -> Drawing:
        chosen = representatives(runs)
        panels = [
            replace(panel, title=panel.title + f", {label}" * (len(chosen) > 1))
            for label, run in chosen.items() for panel in self.panels(run)
        ]  # fmt: skip
        numbers = pd.concat({label: self.table(run) for label, run in chosen.items()}, names=["run"])
        return Drawing(self.caption(list(chosen.values())), panels, numbers.reset_index("run"))


@cache
def figures() -> dict[str, Figure]:
    """All figures by name, in the order of the page."""
    found = [kind() for kind in members(__name__, Figure).values()]  # type: ignore[type-abstract]
    return {figure.name: figure for figure in sorted(found, key=lambda figure: (figure.order, figure.name))}


def draw(name: str, runs: Sequence[Run]) -> Drawing:
    """Draw a figure of runs; a `DataError` says what they lack for it."""
    if name not in figures():
        raise ValueError(f"a figure should be one of {', '.join(figures())}, but got {name!r}")
    with damage(f"metrics.jsonl of {few(str(run.folder) for run in runs)}"):
        if not any(figures()[name].usable(run) for run in runs):
            raise DataError(f"{name} needs {figures()[name].needs}")
        return figures()[name].draw(runs)


def save(drawing: Drawing, out: Path, dpi: int | None = None, force: bool = False) -> Path:
    """Write a drawing as .png (of `dpi`), .svg or .pdf; `force` replaces a file that puridiver did not write."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in style.METADATA:
        raise ValueError(f"a picture should be a .png, .svg or .pdf file, but got {out.name!r}")
    return style.write_output(out, lambda: style.picture(drawing.panels, kind, dpi), force)
