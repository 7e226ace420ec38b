"""The head of the results page: does it reproduce what is published?"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from puridiver.grid.cells import Column
from puridiver.grid.page.sections import beside_the_paper, by_seed, entry_of, ours
from puridiver.grid.page.tables import (
    BASE,
    DEFAULT,
    RELEASED,
    UNFELT,
    CellRuns,
    Line,
    Table,
    default_changes,
    felt,
    released_title,
)
from puridiver.grid.page.verdicts import (
    NOT_RUN,
    SURE,
    TOO_FEW,
    UNKNOWN,
    at_least,
    chance_against,
    difference,
    error,
    p_text,
    within,
)
from puridiver.grid.table import Entry, make_entry, paper_figures, rerun_figure
from puridiver.grid.variants import Row, row_kind
from puridiver.recipes import RECIPES
from puridiver.report.table import as_markdown, labels_of, settings_of
from puridiver.streams.noise import noise_name

OURS_HEADINGS = ("noise", "ours, last % (seeds)")
RERUN_HEADINGS = ("rerun, last epoch %", "difference", "within 2 points")
PAPER_HEADINGS = ("paper %", "difference", "p", "at least the paper's")
ERROR_NOTE = (
    "A difference is ± its standard error, by both deviations; the paper's figures are of three runs. *p*: how often "
    "chance alone would give as much (Welch's t-test). Where the error is as large as the difference, or as the 2 "
    "points, a yes or a no is little more than chance."
)
PAIRED_HEADING = f"difference to `{BASE}`, same seeds"
PURITY = "memory purity %: "
LISTED = ", files' order"
LISTED_NOTE = (
    "*Files' order*: on the published streams in the order of their files; the released program shuffles each task "
    "first ([row 23](docs/FIDELITY.md)). Lines in different orders are not quite comparable."
)
BEST_HEADINGS = ("noise", "best setting run", "last % (seeds)", "paper %", "difference")


def summary(table1: Table, rows: Sequence[Row]) -> str:
    """Verdicts on `official` and on the default recipe, each noise of Table 1."""
    base = table1.line(f"PuriDivER, recipe {BASE}")
    parts = [
        f"### Recipe `{BASE}`, the released program's procedure",
        _verdict(table1, base, rerun=True),
        _verdict_table(table1, base, rerun=True),
        f"*Rerun*: {paper_figures()['rerun']['source']}; where there are two runs, the third log breaks off. "
        f"*Paper*: its {paper_figures()[table1.paper]['source']}. {ERROR_NOTE}",
    ]
    for name, options in RELEASED.items():
        line = table1.line(released_title(name))
        if line.was_run:
            spelt = " ".join(f"`--set {option}={value}`" for option, value in options.items())
            pronoun = "it" if name.startswith("row ") else "them"
            parts.append(f"With {name} as the released program has {pronoun}, too ({spelt}):")
            parts += [_verdict(table1, line, rerun=True), _verdict_table(table1, line, rerun=True, base=base)]
    changes = default_changes()
    if not felt(changes):
        same = f"The default recipe, `{DEFAULT}`, is the same as `{BASE}` at present: the table above is of both."
        parts += [f"### The default recipe, `{DEFAULT}`", same, _verdict(table1, base, rerun=False)]
        default = base
    else:
        spelt = ", ".join(f"`{name}={value}`" for name, value in changes.items())
        default = table1.line(f"PuriDivER, recipe {DEFAULT}")
        unfelt = [f"`{name}`" for name in changes if name in UNFELT]
        note = (
            f" No figure of these tables depends on {', '.join(unfelt)}: runs with any value of it count."
            if unfelt
            else ""
        )
        what = f"It is `{BASE}` with {spelt}.{note}"
        parts += [f"### The default recipe, `{DEFAULT}`", what]
        if default.was_run:
            parts += [_verdict(table1, default, rerun=False), _verdict_table(table1, default, rerun=False, base=base)]
        else:
            parts.append("Not run on streams in this order.")
    best = _best_found(table1, default, rows)
    return "\n\n".join([*parts, *([best] if best else [])])


def headline(tables: Sequence[Table]) -> str:
    """The few figures that a README shows: noises by what is ours and what is published.

    Of the baselines those with plain training that were run under every noise. Of the tables, one for each order of the
    streams, the first counts, and of the others what was run more often there.
    """
    first, found = tables[0], headline_lines(tables)
    figures = [beside_the_paper(table, line, in_order(table)) for table, line in found]
    ours = {line.title for line in _puridiver(first)}
    purity = [
        (f"{PURITY}{line.title}{in_order(table)}", *map(_purity, line.cells))
        for table, line in found
        if line.title in ours
    ]
    lines = [*figures, *_reruns(first), *purity]
    parts = [as_markdown(lines, ("last accuracy %: ours / the paper's", *first.noises))]
    parts.append(_headline_verdicts(first))
    parts += [LISTED_NOTE] * any(table.listed for table, _ in found)
    return "\n\n".join(parts)


def _reruns(table: Table) -> list[tuple[str, ...]]:
    """What others measured, under each noise: of PuriDivER, and of NTD by its own author."""
    found = [("PuriDivER, an independent rerun of the released program, last epoch", *published(table)[1])]
    ntd = table.find("NTD")
    if ntd is not None:
        figures = [rerun or UNKNOWN for _, rerun in _entries(table, ntd)]
        found.append(("NTD, its author's own runs (in the same logs), last epoch", *figures))
    return found


def _headline_verdicts(table: Table) -> str:
    """`official` is to be where the rerun is, the default at least where the paper is."""
    base, *default = _puridiver(table)
    to_rerun = [difference(entry, figure) for entry, figure in _entries(table, base)]
    found = [(BASE, _verdict(table, base, rerun=True), to_rerun)]
    for line in default:
        to_paper = [difference(entry, entry.paper) for entry, _ in _entries(table, line)]
        found.append((DEFAULT, _verdict(table, line, rerun=False), to_paper))
    return "\n\n".join(
        f"Recipe `{name}`{in_order(table)}: {verdict} Differences in points: {_listed(points)}."
        for name, verdict, points in found
    )


def _listed(points: Sequence[float | None]) -> str:
    return ", ".join(UNKNOWN if point is None else f"{point:+.1f}" for point in points)


def _puridiver(table: Table) -> list[Line]:
    """PuriDivER by the released program's procedure, and by the default where that is another."""
    names = (BASE, DEFAULT) if felt(default_changes()) else (BASE,)
    return [table.line(f"PuriDivER, recipe {name}") for name in names]


def published(table: Table) -> tuple[list[str], list[str]]:
    """PuriDivER's figure under each noise: the paper's, and the rerun's."""
    found = _entries(table, _puridiver(table)[0])
    return [entry.paper or UNKNOWN for entry, _ in found], [rerun or UNKNOWN for _, rerun in found]


def headline_lines(tables: Sequence[Table]) -> list[tuple[Table, Line]]:
    """What the headline shows: of PuriDivER the lines of the first table, and of the others what was run more often
    there; of each baseline the line with most runs, of equals the first."""
    first, *others = tables
    found = [(first, line) for line in _puridiver(first)]
    found += [(table, line) for table in others for line in _puridiver(table) if _was_run_more(line, first)]
    baselines: dict[str, tuple[Table, Line]] = {}
    for table in tables:
        for line in _plain_baselines(table):
            if line.title not in baselines or line.n_runs > baselines[line.title][1].n_runs:
                baselines[line.title] = (table, line)
    return [*found, *baselines.values()]


def _plain_baselines(table: Table) -> list[Line]:
    """Those that were run under every noise."""
    return [line for line in table.lines if line.method.trainer == "plain" and all(cell.rows for cell in line.cells)]


def _was_run_more(line: Line, first: Table) -> bool:
    """More often than in the first order, under any noise."""
    other = first.find(line.title)
    return other is None or any(len(a.rows) > len(b.rows) for a, b in zip(line.cells, other.cells, strict=True))


def in_order(table: Table) -> str:
    return LISTED if table.listed else ""


def _purity(cell: CellRuns) -> str:
    known = [row["memory_purity"] for row in cell.rows if row["memory_purity"] is not None]
    return f"{100 * statistics.mean(known):.1f} ({len(known)})" if known else UNKNOWN


def _entries(table: Table, line: Line) -> list[tuple[Entry, str]]:
    """Of each noise our entry, with the paper's figure, and the rerun's."""
    return [(entry_of(table, line, cell), rerun_figure(line.method.title, cell.column)) for cell in line.cells]


def _verdict(table: Table, line: Line, rerun: bool) -> str:
    """One sentence with the counts."""
    found = _entries(table, line)
    if rerun:
        target, sure = "within 2 points of the independent rerun's last epoch", ""
        verdicts = [within(entry, figure) for entry, figure in found]
    else:
        target = "at least at the paper's figure by true last accuracy"
        verdicts = [at_least(entry, entry.paper) for entry, _ in found]
        sure = f", beyond chance under {sum(_is_surely_above(entry) for entry, _ in found)}"
    counts = Counter(verdicts)
    missing = [f", {counts[word]} {word}" for word in (TOO_FEW, NOT_RUN) if counts[word]]
    left = f"{counts['no']} not{''.join(missing)}"
    return f"**{target[0].upper()}{target[1:]}: {counts['yes']} of {len(found)} noises ({left}){sure}.**"


def _is_surely_above(entry: Entry) -> bool:
    chance = chance_against(entry, entry.paper)
    return at_least(entry, entry.paper) == "yes" and chance is not None and chance <= SURE


def _verdict_table(table: Table, line: Line, rerun: bool, base: Line | None = None) -> str:
    """A line beside what is published, the rerun's figure if asked for; with another line also beside that by seed.

    What is meant to lie elsewhere than the released program is not judged by a rerun of it.
    """
    headings = (*OURS_HEADINGS, *(RERUN_HEADINGS if rerun else ()), *PAPER_HEADINGS)
    lines = []
    for noise, (entry, figure) in zip(table.noises, _entries(table, line), strict=True):
        cells = [noise, ours(entry)]
        if rerun:
            cells += [figure or UNKNOWN, _points(entry, figure), within(entry, figure)]
        chance = p_text(chance_against(entry, entry.paper))
        cells += [entry.paper or UNKNOWN, _points(entry, entry.paper), chance]
        lines.append((*cells, at_least(entry, entry.paper)))
    if base is None:
        return as_markdown(lines, headings)
    paired = [by_seed(cell, other).text for cell, other in zip(line.cells, base.cells, strict=True)]
    return as_markdown([(*cells, text) for cells, text in zip(lines, paired, strict=True)], (*headings, PAIRED_HEADING))


def _points(ours: Entry, figure: str) -> str:
    """A difference to a published figure, ± its standard error."""
    found, its_error = difference(ours, figure), error(ours, figure)
    if found is None:
        return UNKNOWN
    return f"{found:+.2f} ± {UNKNOWN if its_error is None else f'{its_error:.2f}'}"


# The best that was found -------------------------------------------------------------------------------------------


def _best_found(table: Table, default: Line, rows: Sequence[Row]) -> str:
    """Where the default stays below the paper, the highest mean of any setting that was run."""
    lines = []
    for noise, cell in zip(table.noises, default.cells, strict=True):
        entry = entry_of(table, default, cell)
        if at_least(entry, entry.paper) == "no":
            setting, best = _best(rows, cell)
            lines.append((noise, setting, ours(best), entry.paper, _points(best, entry.paper)))
    if not lines:
        return ""
    note = (
        "Where the default stays below the paper, the highest mean of any setting in this ledger, of at least as many "
        "seeds, whole runs on the published streams. It is picked by test accuracy, so it is the best that was found "
        "and no fair claim; [LOG.md](LOG.md) tells what is known of the causes."
    )
    return f"{note}\n\n{as_markdown(lines, BEST_HEADINGS)}"


def _best(rows: Sequence[Row], default: CellRuns) -> tuple[str, Entry]:
    """What the best setting on the column of a cell is, and its figures; the cell itself if there is no better one."""
    groups: dict[str, dict[int, Row]] = {}
    for row in rows:
        if _on_column(row, default.column) and row["evaluated_on"] == "test" and not row["shortened"]:
            groups.setdefault(_same_settings(row), {})[row["seed"]] = row
    others = [list(group.values()) for group in groups.values() if len(group) >= len(default.rows)]
    best = max([default.rows, *others], key=lambda group: statistics.mean(row["last_accuracy"] for row in group))
    return _label(best[0]), make_entry(best)


def _on_column(row: Row, column: Column) -> bool:
    noise = noise_name(row["noise"], row["noise_rate"])
    return (row["data"], row_kind(row), noise) == (column.data, column.stream, column.noise)


def _same_settings(row: Row) -> str:
    """As rows tell it; the name of a recipe does not matter where another has the same options."""
    return settings_of({**row, "settings_hash": None, "recipe": _first_name(row["recipe"])})


def _first_name(recipe: str) -> str:
    return next((name for name, options in RECIPES.items() if options == RECIPES.get(recipe)), recipe)


def _label(row: Mapping[str, object]) -> str:
    _, sampler, trainer, recipe, _ = labels_of(row)
    precision = ", float32" if row.get("precision", "float32") == "float32" else ""  # labels name others only
    return f"{sampler} + {trainer}, {recipe}{precision}"
