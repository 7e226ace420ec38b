"""What a figure is: a name, what it needs of runs, and how it draws them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pandas as pd

from puridiver.report.reading import Run, representatives
from puridiver.report.style import Panel


@dataclass(frozen=True)
class Drawing:
    """A figure of some runs, ready to be rendered."""

    caption: str
    panels: Sequence[Panel]
    numbers: pd.DataFrame  # what is drawn, as a table


class Figure(ABC):
    """A kind of figure. A file in this folder with a subclass adds one to the page and to `puridiver figure`."""

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
