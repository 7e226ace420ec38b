"""How figures look: one style, rendered as a file or for the page."""

from __future__ import annotations

import base64
import io
import os
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.discovery import import_extra
from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.report.reading import damage

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
else:
    Axes = Any  # matplotlib is loaded when the first figure is painted

MARK = "made by puridiver; may be replaced"  # in every file that a report or figure writes
INK = "black"  # text, axes and shading; the page inverts figures in the dark
# Distinct for any colour vision, with a contrast of at least 3:1 on white.
SERIES = ("#0072b2", "#c2410c", "#00795a", "#a3458a", "#8a6100", "#5b5bd6", "#5f6870")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "<")
PANEL = (4.9, 3.1)  # inches: about the width of a phone, so that text stays readable there
# The kinds of pictures with their metadata: the mark, and no date, so that the same runs give the same file.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Comment": MARK}, "svg": {"Date": None, "Title": MARK}, "pdf": {"CreationDate": None, "Subject": MARK},
}  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """One pair of axes and the function that paints it."""

    title: str
    paint: Callable[[Axes], Any]
    height: float = PANEL[1]


def colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def line_style(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of a series; all combinations differ until number 48."""
    turn = number + number // len(SERIES)
    return {"color": colour(number), "linestyle": DASHES[turn % len(DASHES)], "marker": MARKERS[turn % len(MARKERS)]}


def picture(panels: Sequence[Panel], kind: str, dpi: int | None = None, **saving: Any) -> bytes:
    """Render panels, two in a row, each with its legend below; on white, whatever the user's own style is."""
    import_extra("matplotlib", "report")
    from matplotlib.figure import Figure
    from matplotlib.style import context

    content, columns = io.BytesIO(), min(2, len(panels))
    with context(["default", "puridiver.report.templates.figures"]), warnings.catch_warnings():
        # The measuring font may lack the script of a class name; the browser's font has it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure, heights = Figure(layout="constrained"), [0.0] * -(-len(panels) // columns)
        grid = figure.add_gridspec(len(heights), columns)
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            heights[row] = max(heights[row], _paint(figure.add_subfigure(grid[row, column]), panel))
        grid.set_height_ratios(heights)
        figure.set_size_inches(PANEL[0] * columns, sum(heights))
        figure.savefig(content, format=kind, dpi=dpi or 300, metadata=METADATA[kind], **saving)
    return content.getvalue()


def _paint(part: Any, panel: Panel) -> float:
    """Paint a panel and name its series below, if there are several; returns the height in inches."""
    axes, title = part.add_subplot(), textwrap.fill(panel.title, 48)
    with damage(f"what {panel.title!r} shows"):
        panel.paint(axes)
    axes.set_title(title)
    height = panel.height + 0.2 * title.count("\n")
    handles, found = axes.get_legend_handles_labels()
    if len(found) < 2:
        return height
    labels = [textwrap.fill(label, 62) for label in found]
    columns = 2 if max(map(len, labels)) < 28 else 1
    part.legend(handles, labels, loc="outside lower left", ncols=columns, borderaxespad=0)
    lines = sum(label.count("\n") + 1 for label in labels)
    return height + 0.1 + 0.18 * -(-lines // columns)


def data_uri(kind: str, content: bytes) -> str:
    """A picture as the source of an `img` element."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def write_output(out: Path, make: Callable[[], bytes], force: bool = False) -> Path:
    """Write what `make` returns. A folder, and without `force` a file of others, is refused before that work."""
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file")
    ours = out.is_file() and not out.is_symlink() and MARK.encode() in out.read_bytes()
    if os.path.lexists(out) and not (ours or force):
        raise DataError(f"{out} exists and was not written by puridiver: choose another name, or say --force")
    content = make()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)  # never through a link
    return out
