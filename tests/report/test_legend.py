from __future__ import annotations

import io

import pytest

from puridiver.report import style


@pytest.mark.parametrize("words", [1, 8, 30])
def test_labels_of_a_legend_stay_within_the_figure(words: int) -> None:
    def paint(axes) -> None:
        for number in range(3):
            axes.plot([0, 1], [number, number], label=f"{number} " + "lengthy " * words)

    with style.look():
        figure = style._figure([style.Panel("title", paint)], 1)
        figure.savefig(io.BytesIO(), format="png")
        (axes,) = figure.axes
        shown = axes.get_legend().get_window_extent()
        assert shown.x1 <= figure.bbox.x1
        assert shown.y0 >= figure.bbox.y0 - 1
