"""One look for every figure: a picture is panels with words and numbers, drawn once for the page and for files.

On the page ink follows the text's colour and series follow CSS variables, so that one drawing serves light and dark.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.errors import DataError
from puridiver.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"  # text, axes and shading; becomes currentColor on the page
# Told apart with any colour vision, at least 3:1 against white; on the page each becomes var(--series-N).
SERIES = ("#0072b2", "#c2410c", "#00795a", "#a3458a", "#8a6100", "#5b5bd6", "#5f6870")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "<")
PANEL = (4.9, 3.1)  # inches: about the width of a phone, so that the text stays readable there
DPI = 300
FINGERPRINT = "puridiver-numbers"  # key of a PNG's text that tells which numbers it shows
TITLE_WIDTH = 44  # characters of a title's line
LEGEND_SIZE = 9  # points
LEGEND_HANDLE = 0.62  # inches: a legend's line or patch, and the gaps around it

SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # a class may be called "$x"
    "svg.fonttype": "none",  # text stays text: searchable, small, read aloud
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": LEGEND_SIZE,
    "lines.linewidth": 2,
    "lines.markersize": 5,
}


@dataclass(frozen=True)
class Panel:
    """One pair of axes and who paints it."""

    title: str
    paint: Callable[[Axes], None]
    height: float = PANEL[1]


@dataclass(frozen=True)
class Picture:
    """A figure with what it means and the numbers behind it."""

    name: str  # of files and anchors
    title: str
    meaning: str  # one sentence in plain words
    panels: Sequence[Panel]
    headings: Sequence[str]  # of the table of numbers
    rows: Sequence[Sequence[str]]
    columns: int = 2  # of panels side by side in a file
    missing: str = ""  # panels that these runs do not allow, and what would

    @property
    def fingerprint(self) -> str:
        """Of the numbers drawn: two drawings of the same numbers may differ in bytes, by the version of a library."""
        return hashlib.sha256(json.dumps([self.name, self.headings, self.rows]).encode()).hexdigest()[:16]


def colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def line_style(number: int) -> dict[str, Any]:
    """Colour, dashes and marker: series differ in more than their colour, and where colours come again also there."""
    turn = number + number // len(SERIES)
    return {
        "color": colour(number),
        "linestyle": DASHES[turn % len(DASHES)],
        "marker": MARKERS[turn % len(MARKERS)],
    }


def check_installed(extra: str, *libraries: str) -> None:
    """An error that says how to get a library that is not there, before any work that needs it."""
    for library in libraries:
        try:
            importlib.import_module(library)
        except ModuleNotFoundError as error:
            raise DataError(f"this needs {library}: pip install 'puridiver[{extra}]'") from error


@contextmanager
def look() -> Iterator[None]:
    """Drawing without a screen, in one style, whatever the user's own settings are."""
    check_installed("plot", "matplotlib")
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        # Class names may be in a script that the measuring font lacks; on the page the browser's font has it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        yield


def _figure(panels: Sequence[Panel], columns: int) -> Figure:
    """The panels in rows, each as high as it and its legend need."""
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    n_rows = -(-len(panels) // columns)
    figure = Figure(layout="constrained")
    grid, heights = figure.add_gridspec(n_rows, columns), [0.0] * n_rows
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        axes = figure.add_subplot(grid[row, column])
        panel.paint(axes)
        title = textwrap.fill(panel.title, TITLE_WIDTH)
        axes.set_title(title)
        heights[row] = max(heights[row], panel.height + _legend_below(axes) + 0.2 * title.count("\n"))
    grid.set_height_ratios(heights)
    figure.set_size_inches(PANEL[0] * columns, sum(heights))
    return figure


def _legend_below(axes: Axes) -> float:
    """What the series are called, under the axes where it hides none of them; returns its height in inches."""
    from matplotlib.container import ErrorbarContainer
    from matplotlib.transforms import ScaledTranslation

    room = PANEL[0] - 0.55  # what stands left of the axes
    labels = [_in_lines(label, room - LEGEND_HANDLE) for label in axes.get_legend_handles_labels()[1]]
    if len(labels) < 2:  # the title says it already
        return 0
    columns = max(1, min(len(labels), int(room / (max(map(_text_width, labels)) + LEGEND_HANDLE))))
    figure = axes.get_figure()
    under_ticks = axes.transAxes + ScaledTranslation(0, -0.47, figure.dpi_scale_trans)  # type: ignore[union-attr]
    # Of points with error bars the sign alone: bars drawn over it would hide which it is.
    handles = [h[0] if isinstance(h, ErrorbarContainer) else h for h in axes.get_legend_handles_labels()[0]]
    axes.legend(
        handles, labels, loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=under_ticks, ncols=columns,
        borderaxespad=0,
    )  # fmt: skip
    lines = [label.count("\n") + 1 for label in labels]
    return 0.12 + 0.18 * (sum(lines) if columns == 1 else max(lines) * -(-len(labels) // columns))


def _in_lines(label: str, room: float) -> str:
    """A label that is too wide for a line in several."""
    width = _text_width(label)
    return label if width <= room else textwrap.fill(label, max(8, int(0.95 * len(label) * room / width)))


def _text_width(text: str) -> float:
    """Of a legend's label, in inches: its widest line."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=LEGEND_SIZE)
    lines = (text_to_path.get_text_width_height_descent(line, font, ismath=False)[0] for line in text.split("\n"))
    return max(lines) / 72


def _fix_ids(name: str) -> None:
    """Ids that the same figure has every time, instead of random ones."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = name


def check_kind(out: Path) -> str:
    """The kind of picture that a file's name asks for."""
    kind = out.suffix.lstrip(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"a picture should be a .png, .svg or .pdf file, but got {out.name!r}")
    return kind


def save(picture: Picture, out: Path, dpi: int | None = None) -> Path:
    """Write a picture as PNG, SVG or PDF, by the name's ending, on white."""
    kind = check_kind(out)
    if dpi is not None and dpi < 1:
        raise ValueError(f"dpi should be at least 1, but got {dpi}")
    content = io.BytesIO()
    with look():
        _fix_ids(picture.name)
        metadata = {
            "svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {FINGERPRINT: picture.fingerprint},
        }[kind]  # fmt: skip
        figure = _figure(picture.panels, picture.columns)
        figure.savefig(content, format=kind, dpi=dpi or DPI, facecolor="white", metadata=metadata)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content.getvalue())
    return out


def shows_numbers_of(path: Path, picture: Picture) -> bool:
    """Whether a PNG file was drawn of the very numbers of a picture."""
    check_installed("images", "PIL")
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            image.load()  # a file that was cut off is no picture, whatever its beginning says
            return bool(image.info.get(FINGERPRINT) == picture.fingerprint)
    except (OSError, UnidentifiedImageError):
        return False


def inline_svg(panel: Panel, name: str, description: str) -> str:
    """A panel for the page: transparent, in the page's colours, its ids apart from every other figure's."""
    content = io.StringIO()
    with look():
        _fix_ids(name)
        figure = _figure([panel], 1)
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = content.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    # Only inside tags: a class may be called like a colour.
    svg = re.sub(r"<[^>]+>", lambda tag: _suited_to_page(tag.group(), name), re.sub(r"\s*\n\s*", " ", svg))
    words = f'<title id="{name}-title">{escape(panel.title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
    return svg.replace(">", ">" + words, 1)


def _suited_to_page(tag: str, name: str) -> str:
    if tag.startswith("<svg "):
        box = re.search(r'viewBox="[^"]+"', tag)
        labels = f'role="img" aria-labelledby="{name}-title {name}-desc"'
        return f"<svg {box.group() if box else ''} {labels}>"
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag).replace(INK, "currentColor")
    for number, series in enumerate(SERIES, start=1):
        tag = tag.replace(series, f"var(--series-{number})")
    tag = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number.group()):.2f}", tag)  # a third of the size
    return re.sub(r"font-family: [^;\"]*", "font-family: var(--font)", tag)
