"""`puridiver report`: finished runs as one HTML page."""

import webbrowser
from pathlib import Path
from typing import Annotated

from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, say
from puridiver.errors import counted
from puridiver.report.page import write_page
from puridiver.report.reading import find_runs

RUNS = "folders of `puridiver run --out`; a grid's folder stands for all its finished runs"
ForceForeign = Annotated[bool, Opt("replace a file that puridiver did not write", name="--force")]


def report(
    runs: Annotated[list[Path], Arg("RUN", RUNS)],
    out: Annotated[Path | None, Opt("page to write (default: report.html in the folder; of several: here)")] = None,
    against: Annotated[list[Path] | None, Opt("a run to draw beside each RUN; may be repeated", "BASELINE")] = None,
    force: ForceForeign = False,
    open_page: Annotated[bool, Opt("show the page in the browser", name="--open")] = False,
) -> int:
    """Write one HTML page that shows what finished runs did.

    Examples:
      puridiver report runs/a --open                    everything that the run did
      puridiver report runs/a --against runs/plain      the run beside a baseline
      puridiver report runs/a runs/b --out both.html    runs side by side, and each in detail
      puridiver report runs/table1                      a grid's finished runs
    """
    found, left_out = find_runs(runs)
    baselines = find_runs(against)[0] if against else []
    for text in left_out:
        note(f"left out: {text}")
    with Progress() as progress:
        progress.advance(0, f"drawing {counted(len(found), 'run')}")
        place = out or (runs[0] if len(runs) == 1 else Path()) / "report.html"
        page = write_page(found, left_out, place, force, baselines)
    say(page)
    if open_page:
        webbrowser.open(page.resolve().as_uri())
    return 0
