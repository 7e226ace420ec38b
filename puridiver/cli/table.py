"""`puridiver table`: finished runs as tables."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from puridiver.cli.flags import Arg, Opt
from puridiver.cli.grid import Data, Methods, Noises, listed
from puridiver.cli.output import plain
from puridiver.grid.presets import PRESETS
from puridiver.grid.spec import find_grid, only
from puridiver.grid.table import build, read

AGAINST = "compare every method with this one, or with the `paper`: difference, 95 % interval, p"


def table(
    words: Annotated[list[str], Arg("[GRID] LEDGER", "a preset or .toml file, then ledgers or folders of runs")],
    format: Annotated[Literal["text", "markdown", "csv", "latex"], Opt("how to write it (default: text)")] = "text",
    data: Data = None,
    methods: Methods = None,
    noises: Noises = None,
    against: Annotated[str | None, Opt(AGAINST, "METHOD")] = None,
    metric: Annotated[str, Opt("the figure to show (default: last_accuracy)", "NAME")] = "last_accuracy",
    whole: Annotated[bool, Opt("also show rows and columns of the grid that were not run", name="--all")] = False,
) -> int:
    """Print finished runs by method and column, with mean and deviation over seeds.

    Examples:
      puridiver table runs/ledger.jsonl                    every run of the ledgers given
      puridiver table table1 runs/table1 --format latex    the paper's Table 1, beside its figures
      puridiver table mine.toml --against "rsv + plain"    differences seed by seed, with an interval and p
      puridiver table table1 --metric memory_purity --noises sym-20,sym-40
    """
    name, *places = words
    grid = None
    if name in PRESETS or name.endswith(".toml"):
        rows = read(places or [f"runs/{Path(name).stem}"])
        sizes = PRESETS[name].sizes if name in PRESETS else {}
        grids = [find_grid(name, data or [each for each in sizes if each in set(rows["data"])])]
        (grid,) = only(grids, [*methods, *filter(None, [against])] if methods else (), listed(noises))
    elif data or methods or noises or whole:
        raise ValueError("--data, --methods, --noises and --all need a preset's name or a grid file before the ledger")
    else:
        rows = read(words)
    text = getattr(build(rows, grid, metric, against, whole), f"to_{format}")().rstrip("\n")
    sys.stdout.write((plain(text) if format == "text" else text) + "\n")
    return 0
