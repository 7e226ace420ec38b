"""Tables of finished runs: rows of the ledger that differ only by seed, as mean ± standard deviation."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.options import declared
from puridiver.report.environments import environment_notes
from puridiver.report.ledger import code_of, device_type
from puridiver.report.titles import Title
from puridiver.runs.folder import without_folder
from puridiver.streams.names import (
    WORD,
    has_manifest_per_seed,
    is_manifest,
    is_published,
    order_in_record,
    without_seed,
)
from puridiver.streams.noise import noise_name

HASH_SHOWN = 7  # characters
OPTION_NAMES = list(declared())
# Runs are of one kind if they agree in all of these, and in the code. The hash has all of it and more, but versions
# before it did not write it.
GROUP = (
    "settings_hash", "data", "stream", "noise", "noise_rate", "noise_map", "sampler", "trainer", "recipe",
    "options_changed", "memory", "network", "epochs", "told_noise", "evaluated_on", "shortened", "precision", "graphs",
)  # fmt: skip
DIVERGED_NOTE = "diverged: runs whose network predicts nan in the end; their accuracy is in the mean"
HEADINGS = (
    "data",
    "sampler",
    "trainer",
    "recipe",
    "noise",
    "last accuracy %",
    "average %",
    "anytime %",
    "purity %",
    "seeds",
    "seconds",
)
LABELS = 5  # the first of them say what was run


def summarise(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """One line of text cells for each kind of run, in order of first appearance; repeated seeds count once."""
    return summarise_titled(rows, {})[0]


def summarise_titled(
    rows: Sequence[dict[str, Any]], titles: Mapping[str, Title]
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The lines of `summarise` and their headings; with what a grid calls each method, by the identity of its runs.

    Where the grid gave no method a name of its own, the columns of sampler and trainer say it all.
    """
    kinds, headings = labelled(rows, titles)
    return [(*labels, *_figures(members)) for members, labels in kinds], (*headings, *HEADINGS[LABELS:])


def labelled(
    rows: Sequence[dict[str, Any]], titles: Mapping[str, Title]
) -> tuple[list[tuple[list[dict[str, Any]], tuple[str, ...]]], tuple[str, ...]]:
    """The runs of each kind with the cells that say what they are, and the headings of these cells."""
    kinds = _kinds(rows)
    labels: list[tuple[str, ...]] = []
    for members, mark in zip(kinds, _marks(kinds), strict=True):
        data, sampler, trainer, recipe, noise = labels_of(members[0])
        labels.append((data, sampler, trainer, recipe + mark, noise))
    methods = [_title_of(members, titles) for members in kinds]
    if not any(methods):
        return list(zip(kinds, labels, strict=True)), HEADINGS[:LABELS]
    named = [
        (data, title or f"{sampler} + {trainer}", sampler, trainer, *rest)
        for title, (data, sampler, trainer, *rest) in zip(methods, labels, strict=True)
    ]
    return list(zip(kinds, named, strict=True)), (HEADINGS[0], "method", *HEADINGS[1:LABELS])


def summary_notes(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader of these lines must know."""
    return environment_notes(_kinds(rows), of="line")


def _title_of(members: Sequence[Mapping[str, Any]], titles: Mapping[str, Title]) -> str:
    """What the grid calls runs of one kind; empty where that is but their sampler and trainer."""
    named = (titles[row["cell"]].text for row in members if row.get("cell") in titles)
    return next((text for text in named if text != f"{members[0]['sampler']} + {members[0]['trainer']}"), "")


def _kinds(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows that differ by seed alone, together; a later run of the same seed replaces the earlier."""
    groups: dict[tuple[str, ...], dict[int, dict[str, Any]]] = {}
    overwritten = _overwritten(rows)
    for row in rows:
        settings = settings_of(row)
        stream = str(row.get("stream_hash")) if settings in overwritten else ""
        groups.setdefault((settings, code_of(row), stream), {})[row["seed"]] = row
    return [list(group.values()) for group in groups.values()]


def _overwritten(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Settings whose manifest of one seed was now this, now that: which of other seeds belong together is not known."""
    streams: dict[tuple[str, int], set[Any]] = {}
    for row in rows:
        if has_manifest_per_seed(str(row.get("stream"))):
            streams.setdefault((settings_of(row), row["seed"]), set()).add(row.get("stream_hash"))
    return {settings for (settings, _), found in streams.items() if len(found) > 1}


def settings_of(row: Mapping[str, Any]) -> str:
    """All settings of a row but its seed, as text to compare."""
    return repr([*(_kind(row, name) for name in GROUP), len(row.get("task_accuracy", ())), device_type(row)])


def _kind(row: Mapping[str, Any], name: str) -> Any:
    """A row's entry for grouping; published streams of one noise and several seeds are of one kind."""
    value = row.get(name)
    if name == "options_changed":
        return sorted(row[name].items())  # whatever order they were asked for in
    return _stream_kind(str(value)) if name == "stream" else value


def _stream_kind(stream: str) -> str:
    """A manifest without its folder: the hash of the settings has its content, unless there is one for each seed."""
    alone = is_manifest(stream) and not has_manifest_per_seed(stream)
    return str(without_folder(stream)) if alone else without_seed(stream)


def _marks(kinds: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Settings without a column that differ between runs of one data set, and what else tells equal lines apart."""
    marks = _differing(kinds)
    marks = [order + mark for order, mark in zip(_orders(kinds, marks), marks, strict=True)]
    values: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "epochs": lambda row: str(row.get("epochs") or ""),
        "device": device_type,
        "noise map": lambda row: str(row.get("noise_map") or "by default"),
        "graphs": lambda row: "yes" if row.get("graphs") else "no",
        "code": lambda row: code_of(row)[:HASH_SHOWN],
        "settings": lambda row: str(row.get("settings_hash") or "")[:HASH_SHOWN],
        "manifest": lambda row: str(row.get("stream_hash") or "")[:HASH_SHOWN],
    }
    for name, value in values.items():
        labels = [(*labels_of(members[0]), mark) for members, mark in zip(kinds, marks, strict=True)]
        for number, members in enumerate(kinds):
            alike = [kinds[other][0] for other, label in enumerate(labels) if label == labels[number]]
            if len({value(row) for row in alike}) > 1:
                marks[number] += f", {name} {value(members[0]) or 'not told'}"
    return marks


def _differing(kinds: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """Named on every line of the data set, or one would think that what a line does name makes the difference alone."""
    marks = [""] * len(kinds)
    values: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "stream": lambda row: _stream(str(row.get("stream") or "")),
        "imbalance": lambda row: str(row.get("imbalance") or 1),
        "judged on": lambda row: str(row.get("evaluated_on") or ""),
        "memory": lambda row: str(row.get("memory") or ""),
        "network": lambda row: str(row.get("network") or ""),
        "tasks": lambda row: str(len(row.get("task_accuracy", ()))),
        "image size": lambda row: str(row.get("image_size") or "by default"),
        "test share": lambda row: str(row.get("test_share") or "by default"),
    }
    for name, value in values.items():
        found: dict[str, set[str]] = {}
        for members in kinds:
            found.setdefault(members[0]["data"], set()).add(value(members[0]))
        for number, members in enumerate(kinds):
            if len(found[members[0]["data"]]) > 1:
                marks[number] += f", {name} {value(members[0]) or 'not told'}"
    return marks


def _stream(stream: str) -> str:
    """Of a published stream that it is one: its noise has a column, and its order is told where it matters."""
    return WORD if is_published(stream) else stream


def _orders(kinds: Sequence[Sequence[Mapping[str, Any]]], marks: Sequence[str]) -> list[str]:
    """The order of each published stream, if the rows have both and no mark tells it: another order, another stream."""
    orders = [order_in_record(str(members[0].get("stream") or "")) for members in kinds]
    both = len(set(orders) - {""}) > 1
    return [
        f", {order}" if both and order and order not in mark else "" for order, mark in zip(orders, marks, strict=True)
    ]


def _figures(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return (
        spread([row["last_accuracy"] for row in rows]) + diverged_mark(rows),
        spread([row["average_accuracy"] for row in rows]),
        spread([row.get("anytime_area") for row in rows]),
        spread([row["memory_purity"] for row in rows]),
        str(len(rows)),
        seconds_of(rows),
    )


def labels_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What the first columns say of a run."""
    options = {**row["options_changed"]}
    changed = "".join(f", {name}={options[name]}" for name in sorted(options, key=_place))
    told = ", told the noise" if row["told_noise"] else ""
    short = " (shortened)" if row["shortened"] else ""
    precision = f", {row['precision']}" if row.get("precision", "float32") != "float32" else ""
    return (
        row["data"],
        row["sampler"],
        row["trainer"] + told,
        row["recipe"] + changed + precision + short,
        noise_name(row["noise"], row["noise_rate"]),
    )


def _place(name: str) -> tuple[int, str]:
    """Where an option stands among all: lines that share some have them in the same order."""
    return (OPTION_NAMES.index(name) if name in OPTION_NAMES else len(OPTION_NAMES), name)


def seconds_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Mean seconds; "-" where some runs shared their device with others and some did not."""
    if len({(row.get("device"), row.get("lanes", 1)) for row in rows}) > 1:
        return "-"
    return f"{statistics.mean(row['seconds'] for row in rows):.1f}"


def spread(fractions: Sequence[float | None]) -> str:
    """Percent as mean ± sample standard deviation; the mean alone for one value; "-" where one is not known.

    Whoever shows percents of runs should call it: the mean of values times 100 may round to another digit.
    """
    known = [value for value in fractions if value is not None]
    if len(known) < len(fractions):
        return "-"
    mean = f"{100 * statistics.mean(known):z.1f}"  # z: no minus before a zero
    return mean if len(known) == 1 else f"{mean} ± {100 * statistics.stdev(known):.1f}"


def count_diverged(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many runs ended with a network that predicts nan: their accuracy is that of naming one class always."""
    return sum(bool(row.get("diverged", False)) for row in rows)


def diverged_mark(rows: Sequence[Mapping[str, Any]]) -> str:
    """What follows a figure of runs of which some diverged."""
    count = count_diverged(rows)
    return f" ({count} diverged)" if count else ""


def markdown_text(words: str) -> str:
    """What a title or note says, as it is: a page would take <d> for a tag, and show nothing."""
    return words.replace("<", "&lt;")


def markdown_row(cells: Sequence[str]) -> str:
    """A line of a table; a bar in a cell would end it."""
    return "| " + " | ".join(markdown_text(cell).replace("|", "\\|") for cell in cells) + " |"


def as_markdown(lines: Sequence[tuple[str, ...]], headings: Sequence[str] = HEADINGS) -> str:
    rule = "|" + "---|" * len(headings)
    return "\n".join([markdown_row(headings), rule, *map(markdown_row, lines)])


def as_csv(lines: Sequence[tuple[str, ...]], headings: Sequence[str] = HEADINGS) -> str:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headings, *lines])
    return text.getvalue().rstrip("\n")


def as_text(lines: Sequence[tuple[str, ...]], headings: Sequence[str] = HEADINGS) -> str:
    table = [headings, *lines]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    "<": "$<$", ">": "$>$", "|": r"\textbar{}",
    "[": "{[}", "]": "{]}",  # at the start of a cell a bracket is read as an argument of the line break before it
}  # fmt: skip


_MINUS = re.compile(r"(?<![\w-])-(?=\d)")  # before a number, and not the hyphen of "blurry-10"


def latex_escaped(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return _MINUS.sub("$-$", escaped.replace("--", "-{}-"))  # two hyphens would be a dash


def latex_tabular(heading: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A tabular with the rules of booktabs; figures to the right, words to the left."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join(latex_escaped(cell) for cell in cells) + r" \\"

    sides = "".join("r" if _of_figures(column) else "l" for column in zip(*lines, strict=True)) or "l" * len(heading)
    opening = rf"\begin{{tabular}}{{{sides}}}"
    rows = [line(heading), r"\midrule", *map(line, lines)]
    return "\n".join([opening, r"\toprule", *rows, r"\bottomrule", r"\end{tabular}"])


def _of_figures(column: Sequence[str]) -> bool:
    """Whether a column has figures (such as "-0.3", "[59.2]" or "<0.001"), or signs where there are none."""
    words = [cell for cell in column if not re.match(r"\W*(\d|$)", cell)]
    return any(re.match(r"\W*\d", cell) for cell in column) and set(words) <= {"not run"}


def latex_table(heading: Sequence[str], lines: Sequence[Sequence[str]], caption: str, label: str, note: str) -> str:
    r"""A tabular with its caption and \label, as a paper takes it, and in small print below what its figures are."""
    head = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escaped(caption)}}}",
        rf"\label{{{label}}}",  # after the caption, whose number it takes
    ]
    below = rf"\par\smallskip\parbox{{\linewidth}}{{\footnotesize {latex_escaped(note)}}}"
    return "\n".join([*head, latex_tabular(heading, lines), below, r"\end{table}"])


def latex_label(*words: str) -> str:
    """A label of letters, digits and hyphens alone: other signs mean something to LaTeX, or to the packages in use."""
    return "tab:" + "-".join(filter(None, (re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words)))


def as_sentence(words: str) -> str:
    """With a full stop, unless it ends with a sign of its own."""
    return words if words.endswith((".", "?", "!")) else f"{words}."


def as_latex(lines: Sequence[tuple[str, ...]], headings: Sequence[str] = HEADINGS) -> str:
    return latex_tabular(headings, lines)


FORMATS = {"text": as_text, "markdown": as_markdown, "csv": as_csv, "latex": as_latex}


def insert_between_markers(page: Path, name: str, content: str) -> None:
    """Replace what stands between `<!-- name:begin -->` and `<!-- name:end -->` in a page."""
    page.write_text(with_inserted(page, name, content))


def with_inserted(page: Path, name: str, content: str) -> str:
    """The page's text with other content between its markers."""
    try:
        text = page.read_text()
    except UnicodeDecodeError as error:
        raise DataError(f"{page} is no page of text") from error
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise DataError(f"{page} should hold the markers {begin} and {end}, each once and in this order")
    head, rest = text.split(begin)
    return f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}"
