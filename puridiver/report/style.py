"""How figures look: one style, rendered as a file or as SVG in the colours of the page."""

from __future__ import annotations

import importlib
import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.errors import DataError
from puridiver.files import read_regular, write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
else:
    Axes = Any  # matplotlib is loaded when the first figure is painted

MARK = "made by puridiver; may be replaced"  # in every file that a report or figure writes
INK = "#010203"  # text, axes and shading, also in figures.mplstyle; becomes currentColor on the page
# Distinct for any colour vision, with a contrast of at least 3:1 on white; var(--series-N) on the page.
SERIES = ("#0072b2", "#c2410c", "#00795a", "#a3458a", "#8a6100", "#5b5bd6", "#5f6870")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "<")
PANEL = (4.9, 3.1)  # inches: about the width of a phone, so that text stays readable there
DPI = 300
TITLE_WIDTH, LEGEND_WIDTH = 48, 62  # characters of a line
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


def check_installed(extra: str, *libraries: str) -> None:
    """Raise an error that says how to install a missing library."""
    for library in libraries:
        try:
            importlib.import_module(library)
        except ModuleNotFoundError as error:
            raise DataError(f"this needs {library}: pip install 'puridiver[{extra}]'") from error


# Painting ----------------------------------------------------------------------------------------------------------


@contextmanager
def _painted(panels: Sequence[Panel], columns: int) -> Iterator[Figure]:
    """The panels in rows, each with its legend below; without a screen, whatever the user's own style is."""
    check_installed("plot", "matplotlib")
    import matplotlib
    from matplotlib.figure import Figure

    style = resources.files("puridiver.report") / "templates" / "figures.mplstyle"
    columns = min(columns, len(panels))
    with matplotlib.rc_context(), warnings.catch_warnings(), resources.as_file(style) as file:
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(matplotlib.rc_params_from_file(file, use_default_template=False))
        # The measuring font may lack the script of a class name; the browser's font has it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure, heights = Figure(layout="constrained"), [0.0] * -(-len(panels) // columns)
        grid = figure.add_gridspec(len(heights), columns)
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            part = figure.add_subfigure(grid[row, column])
            axes = part.add_subplot()
            panel.paint(axes)
            title = textwrap.fill(panel.title, TITLE_WIDTH)
            axes.set_title(title)
            heights[row] = max(heights[row], panel.height + _add_legend(part, axes) + 0.2 * title.count("\n"))
        grid.set_height_ratios(heights)
        figure.set_size_inches(PANEL[0] * columns, sum(heights))
        yield figure


def _add_legend(part: Any, axes: Axes) -> float:
    """Name the series below the axes; returns the height in inches. One series needs no legend: the title names it."""
    from matplotlib.container import ErrorbarContainer

    handles, found = axes.get_legend_handles_labels()
    if len(found) < 2:
        return 0
    labels = [textwrap.fill(label, LEGEND_WIDTH) for label in found]
    widest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(len(labels), (LEGEND_WIDTH + 6) // (widest + 6)))  # a handle takes about 6 characters
    points = [handle[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles]
    part.legend(points, labels, loc="outside lower left", ncols=columns, borderaxespad=0)
    lines = [label.count("\n") + 1 for label in labels]
    return 0.1 + 0.18 * (sum(lines) if columns == 1 else max(lines) * -(-len(labels) // columns))


def picture(panels: Sequence[Panel], kind: str, dpi: int | None = None) -> bytes:
    """Render panels as PNG, SVG or PDF, on white."""
    content = io.BytesIO()
    with _painted(panels, columns=2) as figure:
        figure.savefig(content, format=kind, dpi=dpi or DPI, facecolor="white", metadata=METADATA[kind])
    return content.getvalue()


def inline_svg(panel: Panel, name: str, description: str) -> str:
    """A panel for the page: transparent, in the page's colours, its ids apart from every other figure's."""
    content = io.StringIO()
    with _painted([panel], columns=1) as figure:
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})

    def suited(match: re.Match[str]) -> str:
        tag = match.group()
        if tag.startswith("<svg "):
            box = re.search(r'viewBox="[^"]+"', tag)
            return f'<svg {box.group() if box else ""} role="img" aria-labelledby="{name}-title {name}-desc">'
        tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag).replace(INK, "currentColor")
        for number, series in enumerate(SERIES, start=1):
            tag = tag.replace(series, f"var(--series-{number})")
        tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number.group()):.2f}", tag)  # a third of the size
        return re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", tag)

    svg = content.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"<[^>]+>", suited, re.sub(r"\s*\n\s*", " ", svg))  # only tags: a class may be called like a colour
    words = f'<title id="{name}-title">{escape(panel.title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    return svg.replace(">", ">" + words, 1)


def write_output(out: Path, make: Callable[[], bytes], force: bool = False) -> Path:
    """Write what `make` returns. A folder, and without `force` a file of others, is refused before that work."""
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file")
    if not force and (out.exists() or out.is_symlink()):
        try:
            ours = MARK.encode() in read_regular(out)
        except (DataError, OSError):  # a pipe, a device, a link to nowhere
            ours = False
        if not ours:
            raise DataError(f"{out} exists and was not written by puridiver: choose another name, or say --force")
    content = make()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)  # never through a link
    return out
