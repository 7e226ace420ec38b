"""`puridiver report` and `puridiver plot`: finished runs as a page and as pictures."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from puridiver.cli.common import add_command, print_note

REPORT_EXAMPLES = """\
examples:
  puridiver report runs/a --open                     one page with everything that `puridiver run --out runs/a` did
  puridiver report runs/a runs/b --out both.html     runs side by side, and each in detail
  puridiver report grids/table1 --figures figures    a grid's finished runs; every figure as PNG and SVG
"""

PLOT_EXAMPLES = """\
examples:
  puridiver plot runs/a runs/b --out comparison.png  folders written by `puridiver run --out`
  puridiver plot runs/a --figure mixtures --out mixtures.svg
  puridiver plot runs/grid/cells/*-sym-40-* --out noise.pdf   of a grid one noise, by the names of its cells
"""

RUN_HELP = "folders written by `puridiver run --out`; a grid's folder stands for all its finished runs"
# Beside the drawing code, which must not be imported for --help; a test holds the two together.
FIGURE_NAMES = (
    "accuracy", "stream", "memory", "tasks", "alpha", "diversity", "time", "sets", "mixtures", "balance", "confusion",
    "mix",
)  # fmt: skip


def add_parser(subparsers: Any) -> None:
    report = add_command(subparsers, "report", "write one HTML page that shows what finished runs did", REPORT_EXAMPLES)
    report.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    report.add_argument(
        "--out", metavar="PAGE", help="page to write (default: report.html in the folder; of several: here)"
    )
    report.add_argument("--figures", metavar="FOLDER", help="also write every figure there, as PNG (300 dpi) and SVG")
    report.add_argument("--force", action="store_true", help="replace files that puridiver did not write")
    report.add_argument("--open", action="store_true", help="show the page in the browser")
    report.set_defaults(handler=handle_report)
    plot = add_command(subparsers, "plot", "draw one figure of finished runs", PLOT_EXAMPLES)
    plot.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    plot.add_argument("--figure", choices=FIGURE_NAMES, default="stream",
                      help="what to draw (default: stream, accuracy and purity over the stream)")  # fmt: skip
    plot.add_argument("--out", default="runs.png", help="picture to write: .png, .svg or .pdf (default: runs.png)")
    plot.add_argument("--dpi", type=int, help="dots an inch of a .png (default: 300)")
    plot.add_argument("--force", action="store_true", help="replace a file that puridiver did not write")
    plot.set_defaults(handler=handle_plot)


def handle_report(args: argparse.Namespace) -> int:
    import webbrowser
    from pathlib import Path

    from rich.console import Console

    from puridiver.report.figures import detailed, figures, save_all
    from puridiver.report.page import write_page
    from puridiver.report.reading import find_runs

    runs, notes = find_runs([Path(run) for run in args.runs])
    _print_left_out(notes)
    out = Path(args.out) if args.out else Path(args.runs[0] if len(args.runs) == 1 else ".") / "report.html"
    with Console(stderr=True).status(f"drawing the page of {len(runs)} run{'s' if len(runs) > 1 else ''}"):
        page = write_page(runs, notes, out, args.force)
    print(page)
    if args.figures:
        with Console(stderr=True).status("drawing the figures, each as PNG and SVG"):
            written, left_out = save_all(runs, Path(args.figures), args.force)
        for reason in left_out:
            print_note(f"not drawn: {reason}")
        if (shown := len(detailed(runs))) < len(runs):
            names = [name for name, figure in figures().items() if figure.each_run]
            which = f"{', '.join(names)} show {shown} of {len(runs)} runs"
            print_note(f"{which}; name fewer runs to see the others")
        print(f"{len(written)} pictures in {args.figures}")
    if args.open:
        webbrowser.open(page.resolve().as_uri())
    return 0


def handle_plot(args: argparse.Namespace) -> int:
    from pathlib import Path

    from puridiver.report.figures import draw, save
    from puridiver.report.reading import find_runs

    runs, notes = find_runs([Path(run) for run in args.runs])
    _print_left_out(notes)
    drawing = draw(args.figure, runs)
    if drawing.note:
        print_note(drawing.note)
    print(save(drawing, Path(args.out), args.dpi, args.force))
    return 0


def _print_left_out(notes: Sequence[str]) -> None:
    for note in notes:
        print_note(f"left out: {note}")
