"""What each difference between the paper and its released program is worth, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from puridiver.grid.page.pooled import against
from puridiver.grid.page.sections import entry_of, ours
from puridiver.grid.page.tables import START, Table
from puridiver.grid.page.verdicts import NOT_RUN, TOO_FEW, Comparison, p_text
from puridiver.report.table import as_markdown

READINGS = {"official": "the released program's", "paper": "the paper's"}
RULE = (
    "A difference is the mean, in points of last accuracy, over the seeds that were run both ways (the same streams), "
    "± its standard error. Two or three seeds tell little about their own spread, so that where four settings or more "
    "of a column were run more than once, error and p come from all of them together: from what is left of their "
    "accuracies without what setting and seed explain (a two-way analysis of variance, by least squares; settings with "
    "a run that diverged left out). A reading *is better* where chance alone would give as large a difference among "
    "all rows of the column in at most one of twenty such columns (Holm's correction), and *may be better* where it "
    "would in at most one of twenty rows. With fewer settings each has a paired t-test of its own: *is* for p up to "
    "0.05, *may be* up to 0.2. Where some runs of a row, or of the recipe as it is, diverged and others did not, error "
    "and p are from a paired t-test. "
    "All rows of a column in one order of the streams are compared with the same runs of the recipe as it is: if "
    "these came out low, every row looks better. Of one seed there is no error, and no verdict."
)
SAME = "the same: the row changes nothing there"
LISTED_MARK = " (files' order)"
LISTED_NOTE = (
    "*(files' order)*: both of a comparison on published streams in the order of their files instead of shuffled "
    "(row 23)."
)


def changed_reading(table: Table) -> str:
    """Whose reading the rows of a fidelity table switch to."""
    (other,) = (reading for start, reading in READINGS.items() if start != START[table.preset])
    return other


def section(table: Table) -> str:
    """Accuracies, differences to the recipe as it is, and verdicts."""
    headings = ["row"]
    for noise in table.noises:
        headings += [f"{noise}, last % (seeds)", "difference", "verdict"]
    lines, compared = [], comparisons(table)
    for line in table.lines:
        cells = [line.title]
        for c, cell in enumerate(line.cells):
            found = compared[line.title][c] if line.title in compared else None
            same = bool(line.stands_for) and not cell.rows
            cells.append(f"as *{line.stands_for}*" if same else ours(entry_of(table, line, cell)))
            cells += ["", ""] if found is None else ["-", SAME] if same else [with_p(found), verdict(table, found)]
        lines.append(tuple(cells))
    return as_markdown(lines, headings)


def comparisons(table: Table) -> dict[str, list[Comparison]]:
    """Every line but the first, by its title, against that, the recipe as it is, noise by noise."""
    first, *others = table.lines
    columns = [against(cell, [line.cells[c] for line in others]) for c, cell in enumerate(first.cells)]
    return {line.title: [column[number] for column in columns] for number, line in enumerate(others)}


def with_p(found: Comparison) -> str:
    """The difference, its error, and how often chance alone would give as much: in one row, and among all."""
    if found.chance is None:
        return found.text
    among = "" if found.corrected is None else f"; among all {p_text(found.corrected, 3)}"
    return f"{found.text} (p {p_text(found.chance, 3)}{among})"


def verdict(table: Table, found: Comparison) -> str:
    """Whose reading is better, and how many runs of the row diverged."""
    if found.difference is None:
        return "nothing to compare with" if found.was_run else NOT_RUN
    lost = f"; diverged in {found.diverged} of {found.pairs}" if found.diverged else ""
    base = f"; the recipe as it is diverged in {found.base_diverged} of {found.pairs}" if found.base_diverged else ""
    return _whose(table, found) + lost + base


def _whose(table: Table, found: Comparison) -> str:
    if found.direction is None:
        return TOO_FEW
    if found.direction == 0:
        return "not told apart"
    reading = changed_reading(table) if found.direction > 0 else READINGS[START[table.preset]]
    return f"{reading} reading {'is' if abs(found.direction) > 1 else 'may be'} better"


def overview(tables: Sequence[Sequence[Table]]) -> str:
    """The table of docs/FIDELITY.md: a line a row, from both ends; of each end the tables of every order of streams."""
    firsts = [orders[0] for orders in tables]
    headings = [
        "row", *(f"from `{START[table.preset]}`, {noise}" for table in firsts for noise in table.noises),
    ]  # fmt: skip
    lines, compared = [], [[(table, comparisons(table)) for table in orders] for orders in tables]
    for title in [line.title for line in firsts[0].lines[1:]]:
        cells = [title]
        for orders in compared:
            found = [[(table, comparison) for comparison in of_line[title]] for table, of_line in orders]
            same = any(table.line(title).stands_for for table, _ in orders)
            cells += [_short(*most_telling(column), same) for column in zip(*found, strict=True)]
        lines.append(tuple(cells))
    ways = "; ".join(
        f"from `{START[table.preset]}`: that recipe with the row alone in {changed_reading(table)} reading"
        for table in firsts
    )
    listed = any(LISTED_MARK in cell for line in lines for cell in line)
    note = f" {LISTED_NOTE}" if listed else ""
    return f"{RULE} {ways[0].upper()}{ways[1:]}.{note}\n\n{as_markdown(lines, headings)}"


def most_telling(found: Sequence[tuple[Table, Comparison]]) -> tuple[Table, Comparison]:
    """Of one comparison in every order of the streams the first with a verdict, a difference, or any run."""
    return min(found, key=lambda pair: (pair[1].chance is None, pair[1].difference is None, not pair[1].was_run))


def _short(table: Table, found: Comparison, same: bool) -> str:
    word = verdict(table, found)
    if found.difference is None:
        return SAME if same and not found.was_run else word
    return f"{found.text}: {word}{LISTED_MARK if table.listed else ''}"
