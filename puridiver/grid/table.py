"""Tables of ledgers: mean ± standard deviation over seeds, beside the paper's figures, and paired comparisons.

Every row of a ledger names its grid, method and column, so that a table is a group-by. Several ledgers are one.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from puridiver.errors import meant
from puridiver.grid.presets import PRESETS
from puridiver.grid.spec import Grid
from puridiver.metrics import METRICS
from puridiver.runs.folder import SUMMARY, RunFolder
from puridiver.runs.ledger import LEDGER, checked, read_ledgers, shown_method

LAST = "last_accuracy"
PAPER, PAPER_RUNS = "paper", 3  # what to compare with that is no method; runs behind each of its figures
CELL = ["grid", "method", "column"]
SETTINGS = ["recipe", "memory", "network", "epochs", "precision", "device"]  # alike in all runs of a cell
NUMBERS = {"mean": ".2f", "against": ".2f", "difference": "+.2f", "low_95": "+.2f", "high_95": "+.2f", "p": ".3f",
           "p_corrected": ".3f"}  # fmt: skip
LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
})  # fmt: skip


def read(places: Iterable[str | Path]) -> pd.DataFrame:
    """The rows of ledgers, of folders that have one, and of run folders. The last row of a cell and seed counts."""
    rows: list[dict[str, Any]] = []
    for path in map(Path, places):
        if path.is_dir() and (row := RunFolder(path).read(SUMMARY)) is not None:
            rows.append(checked(row, str(path / SUMMARY)))
        else:
            rows += read_ledgers([path / LEDGER if path.is_dir() else path])
    return frame_of(rows)


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of a ledger as a data frame, without those that a later row of the same cell and seed replaces."""
    frame = pd.DataFrame(rows, columns=None if rows else [*CELL, "seed", "data", LAST])
    frame["grid"] = frame["grid"].fillna("")
    return frame.drop_duplicates([*CELL, "seed"], keep="last", ignore_index=True)


@cache
def paper_figures() -> dict[str, Any]:
    """The paper's tables by name: their source, and figures by data, method and noise."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("paper_figures.json").read_text(encoding="utf-8"))
    return found


def paper_figure(source: str, data: str, method: str, noise: str) -> tuple[float, float]:
    """Mean and standard deviation of a cell of the paper; nan where it has none."""
    text = paper_figures().get(source, {}).get("data", {}).get(data, {}).get(method, {}).get(noise, "")
    mean, _, deviation = text.partition(" ± ")
    return float(mean or "nan"), float(deviation or "nan")


@dataclass
class Table:
    """A table in four formats: `frame` has a line a cell, with numbers alone; `shown` are the tables to print."""

    title: str
    frame: pd.DataFrame
    shown: dict[str, pd.DataFrame]
    notes: list[str]
    best: dict[str, pd.DataFrame] = field(default_factory=dict)  # which cells of a shown table are its columns' best

    def to_text(self) -> str:
        parts = [self.title]
        for heading, frame in self.shown.items():
            lines = [list(frame.columns), *frame.astype(str).to_numpy().tolist()]
            widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
            aligned = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
            parts.append("\n".join([heading, *aligned]))
        return "\n\n".join([*parts, "\n".join(self.notes)])

    def to_markdown(self) -> str:
        parts = [f"{heading}\n\n{markdown(frame)}" for heading, frame in self.shown.items()]
        return "\n\n".join([f"**{self.title}**", *parts, "; ".join(self.notes) + "."])

    def to_csv(self) -> str:
        return str(self.frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))

    def to_latex(self) -> str:
        """Booktabs tables with the best cell of each column in bold."""
        title = re.sub(r"^(table|figure) [^:]*: ", "", self.title, flags=re.I)  # LaTeX counts its tables itself
        return "\n".join(
            latex(frame, self.best.get(heading), f"{title}. {heading}. {'; '.join(self.notes)}.")
            for heading, frame in self.shown.items()
        )


def markdown(frame: pd.DataFrame) -> str:
    """A data frame as a Markdown table."""
    lines = [list(frame.columns), ["---"] * len(frame.columns), *frame.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def latex(frame: pd.DataFrame, best: pd.DataFrame | None, caption: str) -> str:
    """A data frame as a booktabs table, its source aligned; of the best cells the figure before brackets is bold.

    A table that is wider than the text is scaled down, by the package graphicx.
    """
    lines = [[str(cell).translate(LATEX) for cell in line] for line in [frame.columns, *frame.to_numpy()]]
    for row, column in [] if best is None else np.argwhere(best.to_numpy()):
        figure, bracket, rest = lines[row + 1][column].partition(" (")
        lines[row + 1][column] = rf"\textbf{{{figure}}}{bracket}{rest}"
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = [" & ".join(map(str.ljust, line, widths)) + r" \\" for line in lines]
    fitted = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{(caption[:1].upper() + caption[1:]).translate(LATEX)}}}", fitted,
        rf"\begin{{tabular}}{{l{'r' * (len(frame.columns) - 1)}}}", r"\toprule", head, r"\midrule", *body,
        r"\bottomrule", r"\end{tabular}}", r"\end{table}", "",
    ])  # fmt: skip


def build(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]], grid: Grid | None = None, metric: str = LAST,
    against: str | None = None, whole: bool = False,
) -> Table:  # fmt: skip
    """The table of a grid from the rows of ledgers; without a grid, of everything that the rows have.

    `metric` is the figure to show. `against` compares every method with one of them, or with the "paper". `whole`
    shows all rows and columns of the grid, also those of which nothing was run.
    """
    frame = rows if isinstance(rows, pd.DataFrame) else frame_of(rows)
    if grid is not None:  # "table1 recipe=paper" is Table 1 with a change
        methods, columns = [m.title for m in grid.methods], [c.title for c in grid.columns]
        frame = frame[(frame["grid"] == grid.name) | frame["grid"].str.startswith(grid.name + " ")]
        frame = frame[frame["method"].isin(methods) & frame["column"].isin(columns)]
        order = {name: place for place, name in enumerate([*methods, *columns])}
        frame = frame.sort_values(CELL, key=lambda names: names if names.name == "grid" else names.map(order))
    if metric not in frame:
        raise ValueError(f"metric should be one of {', '.join(METRICS)}, but got {metric!r}{meant(metric, METRICS)}")
    scale, named = (100, f"{METRICS[metric].title} %") if metric in METRICS and METRICS[metric].unit else (1, metric)
    frame = frame.assign(value=frame[metric].astype(float) * scale)
    title = grid.title if grid is not None else "Runs by method and column"
    if against is not None:
        return _compared(frame, title, f"{named} against {against}", against, metric)
    return _by_method(frame, title, named, metric, grid if whole else None)


def _by_method(frame: pd.DataFrame, title: str, named: str, metric: str, whole: Grid | None) -> Table:
    """A row a method and a column a column, a table for each grid and data set."""
    summary, settings = summarise(frame, metric), [name for name in SETTINGS if name in frame]
    notes = [f"{named}, mean ± standard deviation (seeds)"]
    notes += ["[...] the paper's figure"] if summary["paper"].notna().any() else []
    notes += ["diverged: runs whose network predicts nan in the end"] if summary["diverged"].any() else []
    mixed = [name for name in settings if (frame.groupby(CELL)[name].nunique() > 1).any()]
    notes += [f"some cells mix runs of different {name}" for name in mixed]
    table, titles = Table(title, summary, {}, notes), titles_of(frame)
    lower = metric in METRICS and METRICS[metric].better == "lower"
    for (name, data), block in summary.assign(text=summary.apply(_cell, axis=1)).groupby(["grid", "data"], sort=False):
        runs = frame[(frame["grid"] == name) & (frame["data"] == data)]
        alike = [f"{each} {runs[each].iloc[0]}" for each in settings if runs[each].nunique() == 1]
        heading = ", ".join([*filter(None, (data, name)), *alike])
        methods, columns = block["method"].unique(), block["column"].unique()
        if whole is not None:
            methods, columns = [m.title for m in whole.methods], [c.title for c in whole.columns if c.data == data]
        wide = block.pivot(index="method", columns="column").reindex(index=methods)
        text, means = (wide[each].reindex(columns=columns) for each in ("text", "mean"))
        shown = text.astype(object).fillna("-").rename(index=titles)
        shown.columns = [column.removeprefix(f"{data} ") for column in columns]
        table.shown[heading] = shown.reset_index()
        rounded = means.astype(float).round(1)
        best = rounded.eq(rounded.min() if lower else rounded.max()) & (len(rounded.dropna(how="all")) > 1)
        best.insert(0, "method", False)
        table.best[heading] = best
    return table


def titles_of(frame: pd.DataFrame) -> dict[str, str]:
    """What the methods of rows are called in a table, by their names in the ledger."""
    return {row["method"]: shown_method(row) for row in frame.to_dict("records")}


def summarise(frame: pd.DataFrame, metric: str = LAST) -> pd.DataFrame:
    """A line a cell: mean, standard deviation and number of seeds of `value`, beside the paper's figure."""
    diverged = frame["diverged"].fillna(False).astype(bool) if "diverged" in frame else False
    summary = frame.assign(diverged=diverged).groupby([*CELL, "data"], sort=False).agg(
        mean=("value", "mean"), deviation=("value", "std"), seeds=("value", "count"), diverged=("diverged", "sum")
    ).reset_index()  # fmt: skip
    papers = []
    for grid, method, column, data in summary[[*CELL, "data"]].itertuples(index=False):
        preset = PRESETS.get(grid.partition(" ")[0])
        source = preset.paper if preset is not None and metric == LAST else ""
        papers.append(paper_figure(source, data, method, column.rpartition(" ")[2]))
    summary[["paper", "paper_deviation"]] = np.array(papers).reshape(-1, 2)
    return summary


def _cell(line: Mapping[str, Any]) -> str:
    """A line of the summary as the text of a cell: "53.0 ± 3.6 (3) [59.2 ± 0.3]"."""
    if not line["seeds"]:
        return "not recorded"
    own, theirs = ("" if pd.isna(line[name]) else f" ± {line[name]:.1f}" for name in ("deviation", "paper_deviation"))
    lost = f"; {line['diverged']} diverged" if line["diverged"] else ""
    paper = "" if pd.isna(line["paper"]) else f" [{line['paper']:.1f}{theirs}]"
    return f"{line['mean']:.1f}{own} ({line['seeds']}{lost}){paper}"


# Comparisons --------------------------------------------------------------------------------------------------------


def _compared(frame: pd.DataFrame, title: str, what: str, against: str, metric: str) -> Table:
    """Every method against one of them, or against the paper, with p corrected for all comparisons (Holm)."""
    from statsmodels.stats.multitest import multipletests

    titles = titles_of(frame)
    against = next((name for name, title in titles.items() if title == against and name != against), against)
    if against == PAPER:
        cells = summarise(frame, metric).to_dict("records")
        lines = [{**{name: cell[name] for name in CELL}, **against_paper(cell)} for cell in cells]
        how = f"Welch's t-test against its mean, deviation and {PAPER_RUNS} runs"
    else:
        lines, how = _paired_lines(frame, against), "paired t-test over seeds that both were run on"
    if not lines:
        raise ValueError(f"there is nothing to compare: no other method ran on a column and seed of {against!r}")
    found = pd.DataFrame(lines).assign(p_corrected=np.nan)
    over_columns = found["column"].str.fullmatch(r"all \d+")
    for family in (over_columns, ~over_columns):
        known = family & found["p"].notna()
        if known.any():
            found.loc[known, "p_corrected"] = multipletests(found.loc[known, "p"], method="holm")[1]
    text = found[[*CELL, "pairs"]].replace({"method": titles})
    for name, form in NUMBERS.items():
        text[name] = ["-" if pd.isna(value) else format(value, form) for value in found[name]]
    notes = [f"p: {how}, two-sided", "p_corrected: Holm's correction, once over single columns, once over all columns"]
    return Table(title, found, {what: text}, notes)


def _paired_lines(frame: pd.DataFrame, against: str) -> list[dict[str, Any]]:
    """A line for each other method and column, and one for each method over several columns together."""
    titles, lines = list(titles_of(frame).values()), list[dict[str, Any]]()
    if against not in frame["method"].unique():
        known = ", ".join(map(repr, titles))
        raise ValueError(f"against should be {PAPER!r} or one of {known}, but got {against!r}{meant(against, titles)}")
    place = ["grid", "column", "seed"]
    theirs = frame[frame["method"] == against].set_index(place)["value"].rename("theirs")
    pairs = frame[frame["method"] != against].join(theirs, on=place).dropna(subset=["value", "theirs"])
    for (grid, method), part in pairs.groupby(["grid", "method"], sort=False):
        columns = list(part.groupby("column", sort=False))
        if len(columns) > 1:
            columns.append((f"all {len(columns)}", part))
        lines += [{"grid": grid, "method": method, "column": name, **paired(each)} for name, each in columns]
    return lines


def paired(pairs: pd.DataFrame) -> dict[str, Any]:
    """The mean over columns of their mean differences of `value` and `theirs`, which are paired by seed.

    Several columns share one spread of seeds: a column of two or three pairs knows its own badly.
    """
    difference = (pairs["value"] - pairs["theirs"]).round(9)
    by_column = difference.groupby(pairs["column"])
    counts = by_column.size()
    freedom = len(difference) - len(counts)
    squares = ((difference - by_column.transform("mean")) ** 2).sum()
    error = np.sqrt(squares / freedom * (1 / counts).sum()) / len(counts) if freedom else np.nan
    mean, against = pairs.groupby("column")[["value", "theirs"]].mean().mean()
    return _line(len(difference), mean, against, by_column.mean().mean(), error, freedom)


def against_paper(line: Mapping[str, Any]) -> dict[str, Any]:
    """Our mean of a cell less the paper's, by Welch's t-test."""
    n, variances = line["seeds"], (line["deviation"] ** 2, line["paper_deviation"] ** 2)
    ours, theirs = variances[0] / max(n, 1), variances[1] / PAPER_RUNS  # nan without a deviation
    squares = ours**2 / max(n - 1, 1) + theirs**2 / (PAPER_RUNS - 1)
    freedom = (ours + theirs) ** 2 / squares if squares else np.nan
    return _line(n, line["mean"], line["paper"], line["mean"] - line["paper"], np.sqrt(ours + theirs), freedom)


def _line(pairs: int, mean: float, against: float, difference: float, error: float, freedom: float) -> dict[str, Any]:
    """A comparison with its 95 % interval and p of a two-sided t-test; without a spread p is known only of equals."""
    reach = error * stats.t.ppf(0.975, freedom) if error > 0 else np.nan
    p = 2 * stats.t.sf(abs(difference) / error, freedom) if error > 0 else 1.0 if error == difference == 0 else np.nan
    return {
        "pairs": pairs, "mean": mean, "against": against, "difference": difference, "standard_error": error,
        "low_95": difference - reach, "high_95": difference + reach, "p": p,
    }  # fmt: skip
