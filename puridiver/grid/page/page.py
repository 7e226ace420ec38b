"""The results page as text, and what goes between the markers of docs/FIDELITY.md."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from puridiver.grid.page import fidelity, orders, paired, picture, remaining, sections, summary
from puridiver.grid.page.alpha_picture import alpha_picture
from puridiver.grid.page.coverage import coverage
from puridiver.grid.page.fidelity_picture import fidelity_picture
from puridiver.grid.page.links import list_of_sections
from puridiver.grid.page.tables import FIDELITY, START, Contents, Group, Table, sort_rows
from puridiver.grid.table import NAMES
from puridiver.grid.variants import Row
from puridiver.report.style import Picture
from puridiver.streams.names import PUBLISHED_KINDS, WORD

RULES = """\
- **What counts.** Whole runs (not shortened), judged on the test set, on the published streams (the supplement's table: on generated disjoint tasks), in bfloat16 on a GPU with captured steps. Everything else the ledger has is further below.
- **Last accuracy** is the true last: after the last epoch of the last task. *Best epoch* is chosen by looking at the test set, as the released program reports it (row 16 of [FIDELITY.md](FIDELITY.md)); it is no fair figure and never enters a verdict. The paper's own figures may be of that kind.
- **Repeated runs.** Of several runs of one cell and seed the last in the ledger counts, whatever its figure; the others are counted as *set aside* and listed below. Runs of a cell that tell the same settings, but carry different hashes of them, are never averaged: those with most seeds count, of equals the later ones.
- **Several tables.** A run may stand in more than one: PuriDivER by the recipe `official` is also the last line of Tables 3 and 4 and the first of a fidelity table.
- **Code.** Runs of different commits may share a mean (the long tables name the commits); runs of different settings, precision or kind of device never do.
- **Recipes.** A run of the default recipe is taken for what that recipe was when it ran.
- **Signs.** In a grid of methods and noises: ours / the paper's. Mean ± sample standard deviation (number of seeds); `-` for a deviation of one seed and for what was not measured; *rerun*: the public logs of github.com/wish44165/ntd, in which the author of NTD (arXiv 2404.04871) ran the released program, and NTD, on the same streams. *Seconds* are of one run; where several shared the GPU their number follows, and *runs at once* names it.
"""  # noqa: E501 - one line a paragraph, as in every page of docs/
TOLD_NOTE = (
    "Methods that are *told the noise* know its true rate (`--tell-noise`). The paper does not say whether its "
    "Co-teaching was; in the released program it is not unless by hand (row 17), so both lines stand beside the same "
    "figure. Untold it drops nothing and is plain training, but for chance: *as RSV*. The last two lines are not of "
    "the paper: GBS as GDumb has it, and NTD, a later sampler (Y.-H. Chen, arXiv 2404.04871) that drops, of the "
    "largest class, what had the highest loss on arrival."
)
SPR_NOTE = (
    "Generated disjoint streams of two classes a task, memory 1,000 (SPR: half of it is its delay buffer). "
    "`spr_budget` is the share of SPR's published self-supervised epochs: below 1 its figures say little about SPR as "
    "published. Asymmetric noise follows that protocol's own class map, and is not the one of Table 1."
)
HEADS = {
    "table1": ("Table 1", TOLD_NOTE),
    "table3": ("Table 3: re-labelling and consistency", "Recipe `official` unless said."),
    "table4": ("Table 4: static and adaptive alpha", "Recipe `official` unless said."),
    "disjoint": ("the supplement's table: disjoint tasks, SPR", SPR_NOTE),
}


LISTED_NOTE = (
    "The streams of these runs came in the order of the published split files, which in 12 of the 15 list a task's "
    "major classes first and all others after them. The released program, and so the paper and the rerun, shuffles "
    "each task (row 23 of [FIDELITY.md](FIDELITY.md)), as `--stream official:NOISE:SEED` does now. Below, the tables "
    "in this order show what was run in it."
)


OWN_NOTE = (
    "No run of these is of the paper's tables on CIFAR-10 and CIFAR-100, which this page is made for: whole runs on "
    "the published streams, in bfloat16 on a GPU (`puridiver grid table1 --data cifar10 --splits DIR`). So here are "
    "all runs, by what they have in common; `puridiver table` and `puridiver plot` say and draw more of them."
)


ON_THE_WAY = (
    "Mean accuracy over the stream (*anytime*), on the same kept-out images, by `online_prediction`, which changes "
    "nothing that is learnt, and so no accuracy at the end of a task."
)


# Rows, or what they were sorted into already: that takes seconds, and several parts may be made of the same.
Found = Sequence[Row] | Contents


def _sorted(found: Found) -> Contents:
    return found if isinstance(found, Contents) else sort_rows(found)


def make_page(found: Found, ledgers: Sequence[Path], out: Path | None = None, drawing: Path | None = None) -> str:
    """The whole page, from the rows of some ledgers; where it will lie decides how it names them and the drawing."""
    contents = _sorted(found)
    rows = contents.rows
    command, links = _names(ledgers, out, drawing)
    top = [
        f"<!-- Made by `{command}` from {_rows(rows)}. Do not edit: run the command again. -->",
        "# Results",
        f"Made by `{command}` from {_rows(rows)} of {links}.",
        *([_drawing_parts(drawing, out)] if drawing else []),
    ]
    if contents.in_tables:
        parts = [*_paper_parts(contents, rows), *_rest(contents, links)]
    else:  # of your own: a page of "not run" would hide them
        parts = [OWN_NOTE, *_rest(contents, links)]
    return "\n\n".join([*top, *list_of_sections(parts), *parts]) + "\n"


def _paper_parts(contents: Contents, rows: Sequence[Row]) -> list[str]:
    """The paper's tables with verdicts."""
    parts = list[str]()
    for group, tables in contents.tables.items():
        parts += [f"## {_title(group)}: does it reproduce?", *([LISTED_NOTE] if group.listed else [])]
        parts += [summary.summary(tables[0], rows), sections.sentence_of_cells(tables)]
    parts += ["## How to read the tables", RULES.rstrip()]
    for group, tables in contents.tables.items():
        second = group.listed and Group(group.data, WORD) in contents.tables
        parts += _table_parts(group, _told_of_second_order(tables) if second else tables)
    for data in dict.fromkeys(group.data for group in contents.tables):
        parts += _order_parts(contents, data)
    return parts


def _title(group: Group) -> str:
    return NAMES[group.data] + (" in the order of the files" if group.listed else "")


def _order_parts(contents: Contents, data: str) -> list[str]:
    """What the order of the streams changes, where both were run."""
    tables = contents.tables_of(data, "table1")
    found = orders.section(*tables) if len(tables) == len(PUBLISHED_KINDS) else ""
    return [f"## {NAMES[data]}: what the order of the published streams changes", found] if found else []


def fidelity_block(found: Found) -> str:
    """The table of what each row is worth, on CIFAR-10."""
    contents = _sorted(found)
    return fidelity.overview([contents.tables_of("cifar10", preset) for preset in FIDELITY])


def fidelity_drawing(found: Found) -> Picture:
    """The same as a picture."""
    contents = _sorted(found)
    return fidelity_picture([contents.tables_of("cifar10", preset) for preset in FIDELITY])


def alpha_drawing(found: Found) -> Picture:
    """Table 4 as a picture."""
    return alpha_picture(_sorted(found).tables_of("cifar10", "table4")[0])


def headline_block(found: Found) -> str:
    """The figures of PuriDivER on CIFAR-10 in one small table, and how much of the paper was run."""
    contents = _sorted(found)
    return f"{summary.headline(contents.tables_of('cifar10', 'table1'))}\n\n{coverage(contents)}"


def headline_drawing(found: Found) -> Picture:
    """The same as a picture."""
    return picture.headline_picture(_sorted(found).tables_of("cifar10", "table1"))


def _rows(rows: Sequence[Row]) -> str:
    return "1 row" if len(rows) == 1 else f"{len(rows)} rows"


def _names(ledgers: Sequence[Path], out: Path | None, drawing: Path | None) -> tuple[str, str]:
    """The command that makes the page, and links to its ledgers, from wherever the command was given."""
    files = [path.resolve() for path in ledgers]
    page = (out or Path(os.path.commonpath([path.parent for path in files])) / "RESULTS.md").resolve()
    root = Path(os.path.commonpath([path.parent for path in (*files, page)]))
    names = [_path_from(root, path) for path in files]
    options = ["--out", _path_from(root, page), *(["--picture", _path_from(root, drawing)] if drawing else [])]
    command = shlex.join(["puridiver", "results", *names, *options])
    links = [f"[{name}]({_target(_path_from(page.parent, path))})" for name, path in zip(names, files, strict=True)]
    return command, ", ".join(links)


def _path_from(folder: Path, path: Path) -> str:
    return Path(os.path.relpath(path.resolve(), folder)).as_posix()


def _target(path: str) -> str:
    """As a link of Markdown takes it."""
    return f"<{path}>" if " " in path else path


def _drawing_parts(drawing: Path, out: Path | None) -> str:
    """The headline's picture with its caption."""
    where = _path_from(out.resolve().parent, drawing) if out else drawing.as_posix()
    shown = f"![{picture.TITLE}: accuracy and purity under five noises]({_target(where)})"
    return f"{shown}\n\n*{picture.TITLE}. {picture.MEANING}*"


def _told_of_second_order(tables: Sequence[Table]) -> list[Table]:
    """The lines that were run; what was not stands in the tables of the first order."""
    return [table.of_what_was_run() for table in tables if _has_runs_of_its_own(table)]


def _has_runs_of_its_own(table: Table) -> bool:
    """Whether any line was run; in an ablation another than the recipe as it is, which Table 1 has."""
    whole = table.lines[0].title if table.preset in FIDELITY else paired.WHOLE.get(table.preset)
    return any(line.was_run and not (whole and line.title.startswith(whole)) for line in table.lines)


def _table_parts(group: Group, tables: Sequence[Table]) -> list[str]:
    """The tables of one data set."""
    name, parts = _title(group), list[str]()
    for table in tables:
        if table.preset in HEADS:
            head, note = HEADS[table.preset]
            where = NAMES[group.data] if table.preset == "disjoint" else name  # of no published stream
            against = paired.parts_less_the_whole(table)
            parts += [f"## {where}, {head}", note, sections.compact(table), *([against] if against else [])]
            parts.append(sections.folded(table))
    found = [table for table in tables if table.preset in FIDELITY]
    if found:
        parts += [f"## {name}, what each row of FIDELITY.md is worth", fidelity.RULE]
    for table in found:
        start, reading = START[table.preset], fidelity.changed_reading(table)
        parts += [f"### `{start}`, with one row at a time in {reading} reading", fidelity.section(table)]
        parts.append(sections.folded(table))
    return parts


def _other_runs_heading(contents: Contents) -> list[str]:
    if not contents.in_tables:
        return [f"## Runs ({len(contents.other)})"]
    return [
        "## Other runs",
        f"In none of the tables above, for precision, settings, stream or length ({len(contents.other)}).",
    ]


def _validation_parts(contents: Contents) -> list[str]:
    on_the_way = remaining.validation_on_the_way(contents.rows)
    return [
        "## Choosing the default recipe",
        "Runs judged on training images that were kept out of the stream, so that the choice does not look at the "
        "test set. Newest run of each seed; commits may differ, and so may `online_prediction`, which decides no last "
        "accuracy.",
        remaining.validation(contents.validation),
        *(["### What predicts between two memory trainings", ON_THE_WAY, on_the_way] if on_the_way else []),
    ]


def _older_parts(contents: Contents) -> list[str]:
    return [
        "## Runs set aside",
        f"In the place of each a later run of the same cell and seed counts, or runs of more seeds "
        f"({len(contents.older)}).",
        remaining.other_runs(contents.older),
    ]


def _rest(contents: Contents, links: str) -> list[str]:
    return [
        *(_validation_parts(contents) if contents.in_tables or contents.validation else []),
        *_other_runs_heading(contents),
        remaining.other_runs(contents.other),
        *(_older_parts(contents) if contents.in_tables or contents.older else []),
        "## To derive a figure again",
        f"Every run is a line of {links}: its `command` (DATA and SPLITS stand for your folders of data sets and of "
        "the published split files), `commit`, `versions`, `device`, `stream_hash` and `seed`. Check the commit out, "
        "install the versions and run the command; `puridiver results LEDGER --commands` prints the command of every "
        "row. Where a command names a published stream without an order, such as `official:sym40:1`, it means that of "
        "the files at its commit; today that is `official:sym40:1:listed`. What was done to rows by hand (commits of "
        "runs made without the repository's history, a recipe that means something else now) is told in "
        "[LOG.md](LOG.md).",
        *remaining.from_plugins(contents.rows),
        remaining.origins(contents.rows),
    ]
