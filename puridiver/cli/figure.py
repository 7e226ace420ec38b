"""`puridiver figure`: one figure of finished runs, or a figure of the paper from the runs of its grid."""

from pathlib import Path
from typing import Annotated

from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import note, say, say_table
from puridiver.cli.report import RUNS, ForceForeign
from puridiver.errors import meant
from puridiver.grid.presets import PRESETS
from puridiver.report.figures import draw, figures, save
from puridiver.report.reading import find_runs


def figure(
    name: Annotated[str, Arg("NAME", "a name from --list")] = "",
    runs: Annotated[list[Path] | None, Arg("RUN", f"{RUNS} (of a figure of the paper: runs/NAME)")] = None,
    show_list: Annotated[bool, Opt("show the figures", name="--list")] = False,
    out: Annotated[Path | None, Opt("picture to write: .png, .svg or .pdf (default: NAME.png)", "FILE")] = None,
    dpi: Annotated[int | None, Opt("dots an inch of a .png (default: 300)", least=1)] = None,
    force: ForceForeign = False,
) -> int:
    """Draw one figure of finished runs, or a figure of the paper from its grid.

    Examples:
      puridiver figure --list
      puridiver figure accuracy runs/a runs/b --out comparison.png       two runs over the stream
      puridiver figure figure-tasks runs/figure-tasks --out tasks.pdf    a figure of the paper, after its grid
    """
    drawn_by = {name: name for name in figures()}
    drawn_by |= {name: preset.figure for name, preset in PRESETS.items() if preset.figure}
    if show_list:
        say_table([(name, figures()[by].title) for name, by in drawn_by.items()], ("name", "what it shows"))
        return 0
    if name not in drawn_by:
        raise ValueError(f"a figure should be one of {', '.join(drawn_by)}, but got {name!r}{meant(name, drawn_by)}")
    if name not in PRESETS and not runs:
        raise ValueError(f"name the folders of the runs to draw, as in `puridiver figure {name} runs/a`")
    found, left_out = find_runs(runs or [Path("runs") / name])
    drawing = draw(drawn_by[name], found)
    for text in left_out:
        note(f"left out: {text}")
    say(save(drawing, out or Path(f"{name}.png"), dpi, force))
    return 0
