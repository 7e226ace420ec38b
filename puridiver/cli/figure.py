"""`puridiver figure`: one figure of finished runs, or a figure of the paper from the runs of its grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli.flags import Arg, Opt, Plugins
from puridiver.cli.output import meant, note, say, say_table
from puridiver.cli.report import ForceForeign
from puridiver.errors import DataError

if TYPE_CHECKING:
    from puridiver.report.reading import Run


def figure(
    name: Annotated[str | None, Arg("NAME", "a name from --list")] = None,
    runs: Annotated[
        list[Path] | None,
        Arg("RUN", "folders of `puridiver run --out` or `puridiver grid` (of a figure of the paper: runs/NAME)"),
    ] = None,
    show_list: Annotated[bool, Opt("show the figures", name="--list")] = False,
    out: Annotated[Path | None, Opt("picture to write: .png, .svg or .pdf (default: NAME.png)", "FILE")] = None,
    dpi: Annotated[int | None, Opt("dots an inch of a .png (default: 300)", least=1)] = None,
    force: ForceForeign = False,
    plugins: Plugins = None,
) -> int:
    """Draw one figure of finished runs, or a figure of the paper from its grid.

    Examples:
      puridiver figure --list
      puridiver figure stream runs/a runs/b --out comparison.png
          accuracy and purity over the stream, of two runs
      puridiver figure figure-tasks runs/figure-tasks --out tasks.pdf
          a figure of the paper, after `puridiver grid figure-tasks`
    """
    from puridiver.grid.presets import PRESETS
    from puridiver.report.figures import draw, figures, save
    from puridiver.report.reading import find_runs

    presets = {name: preset for name, preset in PRESETS.items() if preset.figure}
    if show_list:
        titles = {name: each.title for name, each in figures().items()}
        titles |= {name: preset.title for name, preset in presets.items()}
        say_table(titles.items(), ("name", "what it shows"))
        return 0
    known = [*figures(), *presets]
    if name is None:
        raise ValueError("name a figure; `puridiver figure --list` shows them")
    if name not in known:
        raise ValueError(f"a figure should be one of {', '.join(known)}, but got {name!r}{meant(name, known)}")
    if name in presets:
        places = runs or [Path("runs") / name]
        found = _runs_of_preset(name, places)
    else:
        if not runs:
            raise ValueError(f"name the folders of the runs to draw, as in `puridiver figure {name} runs/a`")
        found, left_out = find_runs(runs)
        for text in left_out:
            note(f"left out: {text}")
    drawing = draw(presets[name].figure if name in presets else name, found)
    if drawing.note:
        note(drawing.note)
    say(save(drawing, out or Path(f"{name}.png"), dpi, force))
    return 0


def _runs_of_preset(preset: str, folders: list[Path]) -> list[Run]:
    """The finished runs of a preset in the folders of grids, in the order of its methods."""
    from puridiver.grid.presets import PRESETS
    from puridiver.grid.spec import cells, find_grid
    from puridiver.grid.table import read
    from puridiver.report.reading import find_runs

    rows = read(folders)
    rows = rows[rows["grid"] == preset]
    present = [name for name in PRESETS[preset].sizes if name in set(rows["data"])]
    ids: dict[tuple[Any, ...], str] = {
        (row["method"], row["column"], row["seed"]): row["id"] for row in rows.to_dict("records")
    }
    wanted = [ids.get((cell.method, cell.column, cell.config.seed)) for cell in cells(find_grid(preset, present))]
    places = [place for id in wanted if id for folder in folders for place in sorted(folder.glob(f"cells/*-{id}"))]
    if not present or not places:
        raise DataError(f"{folders[0]} holds no finished runs of {preset}: run `puridiver grid {preset}` first")
    return find_runs(places)[0]
