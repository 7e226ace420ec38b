"""Tables of ledgers: mean ± standard deviation over seeds, beside the paper's figures, and paired comparisons.

Every row of a ledger names its grid, method and column, so that a table is a group-by. Several ledgers are one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from puridiver.errors import DataError
from puridiver.grid.presets import PRESETS
from puridiver.grid.run import LEDGER
from puridiver.grid.spec import Grid
from puridiver.metrics import METRICS
from puridiver.runs.folder import SUMMARY, RunFolder
from puridiver.runs.ledger import read_ledgers

LAST = "last_accuracy"
PAPER = "paper"  # what to compare with that is no method
PAPER_RUNS = 3  # behind each of the paper's figures
CELL = ["grid", "method", "column"]
SETTINGS = ["stream", "recipe", "memory", "network", "epochs", "precision", "device"]  # alike in all runs of a cell


def read(places: Iterable[str | Path]) -> pd.DataFrame:
    """The rows of ledgers, of folders that have one, and of run folders. The last row of a cell and seed counts."""
    rows: list[dict[str, Any]] = []
    for place in map(Path, places):
        row = RunFolder(place).read(SUMMARY) if place.is_dir() else None
        if row is not None:
            rows.append(row)
            continue
        ledger = place / LEDGER if place.is_dir() else place
        if not ledger.exists():
            raise DataError(f"{ledger} is not there; `puridiver grid` and `puridiver run --ledger` write ledgers")
        rows += read_ledgers([ledger])
    return frame_of(rows)


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of a ledger as a data frame, without those that a later row of the same cell and seed replaces."""
    frame = pd.DataFrame(rows, columns=None if rows else [*CELL, "seed", "data", LAST])
    frame["grid"] = frame["grid"].fillna("")
    return frame.drop_duplicates([*CELL, "seed"], keep="last", ignore_index=True)


@cache
def paper_figures() -> dict[str, Any]:
    """The paper's tables by name: their source, and figures by data, method and noise."""
    text = resources.files("puridiver.grid").joinpath("paper_figures.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def paper_figure(source: str, data: str, method: str, noise: str) -> tuple[float, float]:
    """Mean and standard deviation of a cell of the paper; nan where it has none."""
    text = paper_figures().get(source, {}).get("data", {}).get(data, {}).get(method, {}).get(noise, "")
    mean, _, deviation = str(text).partition(" (")[0].partition(" ± ")
    return float(mean or "nan"), float(deviation or "nan")


@dataclass
class Table:
    """A table in four formats: `frame` has a line a cell, with numbers alone; `shown` are the tables to print."""

    title: str
    frame: pd.DataFrame
    shown: dict[str, pd.DataFrame]
    notes: list[str] = field(default_factory=list)

    def to_text(self) -> str:
        parts = [f"{heading}\n{_aligned(frame)}" for heading, frame in self.shown.items()]
        return "\n\n".join([self.title, *parts, "\n".join(self.notes)])

    def to_markdown(self) -> str:
        parts = [f"{heading}\n\n{markdown(frame)}" for heading, frame in self.shown.items()]
        return "\n\n".join([f"**{self.title}**", *parts, "; ".join(self.notes) + "."])

    def to_csv(self) -> str:
        return str(self.frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))

    def to_latex(self) -> str:
        try:
            parts = [
                frame.to_latex(index=False, escape=True, caption=f"{self.title}. {heading}. {'; '.join(self.notes)}.")
                for heading, frame in self.shown.items()
            ]
        except ImportError as error:
            raise DataError("LaTeX tables need jinja2: pip install 'puridiver[report]'") from error
        return "\n".join(parts).replace("±", r"$\pm$")


def _aligned(frame: pd.DataFrame) -> str:
    """Columns of text, aligned to the left."""
    lines = [list(frame.columns), *frame.astype(str).to_numpy().tolist()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def markdown(frame: pd.DataFrame) -> str:
    """A data frame as a Markdown table."""
    lines = [list(frame.columns), ["---"] * len(frame.columns), *frame.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def build(
    rows: pd.DataFrame | Sequence[Mapping[str, Any]],
    grid: Grid | None = None,
    metric: str = LAST,
    against: str | None = None,
) -> Table:
    """The table of a grid from the rows of ledgers; without a grid, of everything that the rows have.

    Parameters
    ----------
    metric
        The figure to show, by its name in the rows.
    against
        A method of the grid, or "paper": compare every method with it, by seeds that both were run on.
    """
    frame = rows if isinstance(rows, pd.DataFrame) else frame_of(rows)
    if grid is not None:  # "table1 recipe=paper" is Table 1 with a change
        frame = frame[(frame["grid"] == grid.name) | frame["grid"].str.startswith(grid.name + " ")]
        frame = frame[frame["method"].isin([m.title for m in grid.methods])]
        frame = frame[frame["column"].isin([c.title for c in grid.columns])]
    if metric not in frame and len(frame):
        raise ValueError(f"metric should be one of {', '.join(METRICS)}, but got {metric!r}")
    frame = frame.assign(value=_scaled(frame, metric)) if len(frame) else frame.assign(value=[])
    title = grid.title if grid is not None else "Runs by method and column"
    summary = summarise(frame, metric, grid)
    if against is not None:
        return _compared(frame, summary, title, metric, against)
    notes = [f"{_named(metric)}, mean ± standard deviation (seeds)"]
    if summary["paper"].notna().any():
        notes.append("[...] the paper's figure")
    if (summary["diverged"] > 0).any():
        notes.append("diverged: runs whose network predicts nan in the end; their accuracy is in the mean")
    shown = {}
    for (name, data), block in summary.groupby(["grid", "data"], sort=False):
        texts = block.assign(text=[_text(line) for line in block.to_dict("records")])
        wide = texts.pivot(index="method", columns="column", values="text").reindex(
            index=block["method"].unique(), columns=block["column"].unique()
        )
        wide.columns = pd.Index([str(c).removeprefix(f"{data} ") for c in wide.columns], name=None)
        of_block = frame[(frame["grid"] == name) & (frame["data"] == data)]
        shown[_heading(of_block, str(name), str(data))] = wide.fillna("-").rename_axis("method").reset_index()
    return Table(title, summary, shown, [*notes, *_mixed(frame)])


def summarise(frame: pd.DataFrame, metric: str = LAST, grid: Grid | None = None) -> pd.DataFrame:
    """A line a cell: mean, standard deviation and number of seeds of `value`, beside the paper's figure."""
    frame = frame.assign(diverged=frame.get("diverged", pd.Series(False, frame.index)).fillna(False).astype(bool))
    grouped = frame.groupby([*CELL, "data"], sort=False, dropna=False)
    summary = grouped.agg(
        mean=("value", "mean"), deviation=("value", "std"), seeds=("value", "count"), diverged=("diverged", "sum")
    ).reset_index()
    papers = []
    for line in summary.to_dict("records"):
        preset = PRESETS.get(str(line["grid"]).partition(" ")[0])
        noise = str(line["column"]).rpartition(" ")[2]
        known = preset.paper if preset is not None and metric == LAST else ""
        papers.append(paper_figure(known, line["data"], line["method"], noise))
    summary[["paper", "paper_deviation"]] = papers if papers else np.empty((0, 2))
    if grid is not None:  # in the order of the grid
        order = {title: place for place, title in enumerate([m.title for m in grid.methods])}
        columns = {title: place for place, title in enumerate([c.title for c in grid.columns])}
        summary = summary.sort_values(
            ["grid", "method", "column"], key=lambda s: s.map({"method": order, "column": columns}.get(s.name, {}).get)
            if s.name != "grid" else s, ignore_index=True,
        )  # fmt: skip
    return summary


def _scaled(frame: pd.DataFrame, metric: str) -> pd.Series:
    """The figures of a metric; shares as percentages."""
    return frame[metric].astype(float) * (100 if metric in METRICS and METRICS[metric].unit == "%" else 1)


def _named(metric: str) -> str:
    """A metric in words, with its unit."""
    return f"{METRICS[metric].title} {METRICS[metric].unit}".rstrip() if metric in METRICS else metric


def _heading(frame: pd.DataFrame, grid: str, data: str) -> str:
    """The data, the grid with its changes, and the settings that all runs share."""
    told = [f"{name} {frame[name].iloc[0]}" for name in SETTINGS[1:] if name in frame and frame[name].nunique() == 1]
    return ", ".join([data, *([grid] if grid else []), *told])


def _text(line: Mapping[str, Any]) -> str:
    if not line["seeds"]:
        return "not recorded"
    spread = "" if pd.isna(line["deviation"]) else f" ± {line['deviation']:.1f}"
    lost = f"; {line['diverged']} diverged" if line["diverged"] else ""
    paper = "" if pd.isna(line["paper"]) else f" [{line['paper']:.1f} ± {line['paper_deviation']:.1f}]"
    return f"{line['mean']:.1f}{spread} ({line['seeds']}{lost}){paper}"


def _mixed(frame: pd.DataFrame) -> list[str]:
    """A note for each setting in which runs of one cell differ."""
    found = []
    for name in (name for name in SETTINGS if name in frame):
        values = frame[name].astype(str)
        if name == "stream":  # "official:sym40:1:shuffled" differs by seed
            values = values.str.replace(r":\d+", "", regex=True)
        mixed = values.groupby([frame[key] for key in CELL]).nunique()
        if (mixed > 1).any():
            _, method, column = mixed.index[mixed > 1][0]
            found.append(f"runs of different {name} in one cell, such as {method}, {column}")
    return found


# Comparisons ---------------------------------------------------------------------------------------------------------


def _compared(frame: pd.DataFrame, summary: pd.DataFrame, title: str, metric: str, against: str) -> Table:
    """Every method against one of them, or against the paper, with p corrected for all comparisons (Holm)."""
    from statsmodels.stats.multitest import multipletests

    if against == PAPER:
        lines = [{**_where(line), **against_paper(line)} for line in summary.to_dict("records")]
        how = "Welch's t-test against the paper's mean, deviation and three runs"
    else:
        lines, how = _paired_lines(frame, against), "paired t-test over seeds that both methods were run on"
    found = pd.DataFrame(lines)
    found["p_corrected"] = np.nan
    over_columns = found["column"].str.fullmatch(r"all \d+")
    for family in (over_columns, ~over_columns):
        known = family & found["p"].notna()
        if known.any():
            found.loc[known, "p_corrected"] = multipletests(found.loc[known, "p"], method="holm")[1]
    text = found[[*CELL, "pairs"]].copy()
    for name, form in (("mean", "{:.2f}"), ("against", "{:.2f}"), ("difference", "{:+.2f}"), ("low_95", "{:+.2f}"),
                       ("high_95", "{:+.2f}"), ("p", "{:.3f}"), ("p_corrected", "{:.3f}")):  # fmt: skip
        text[name] = ["-" if pd.isna(value) else form.format(value) for value in found[name]]
    notes = [
        f"{_named(metric)} against {against}: {how}, two-sided",
        "p_corrected: for all lines of single columns, and for all lines over several columns (Holm)",
    ]
    return Table(title, found, {f"against {against}": text}, notes)


def _where(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in CELL}


def _paired_lines(frame: pd.DataFrame, against: str) -> list[dict[str, Any]]:
    """A line for each other method and column; then one for each method over several columns together."""
    titles = frame["method"].unique()
    if against not in titles:
        raise ValueError(f"against should be {PAPER!r} or one of {', '.join(map(repr, titles))}, but got {against!r}")
    wide = frame.pivot(index=["grid", "column", "seed"], columns="method", values="value")
    found, together = [], dict[tuple[str, str], list[pd.DataFrame]]()
    for grid, column in frame[["grid", "column"]].drop_duplicates().itertuples(index=False):
        for method in (title for title in titles if title != against):
            pairs = wide.loc[(grid, column), [method, against]].dropna()
            if len(pairs):
                together.setdefault((grid, method), []).append(pairs)
                line = {"grid": grid, "method": method, "column": column}
                found.append({**line, **paired(pairs[method].to_numpy(), pairs[against].to_numpy())})
    for (grid, method), columns in together.items():
        if len(columns) > 1:
            line = {"grid": grid, "method": method, "column": f"all {len(columns)}"}
            found.append({**line, **pooled([pairs.to_numpy().T for pairs in columns])})
    return found


def paired(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """The difference of paired runs: mean, standard error, 95 % interval and p of a two-sided paired t-test.

    Without a spread p is not known, unless all pairs are equal.
    """
    differences = np.round(ours - theirs, 9)
    found: dict[str, Any] = {
        "pairs": len(ours), "mean": ours.mean(), "against": theirs.mean(), "difference": differences.mean(),
        "standard_error": np.nan, "low_95": np.nan, "high_95": np.nan, "p": np.nan,
    }  # fmt: skip
    if len(ours) < 2:
        return found
    found["standard_error"] = stats.sem(differences)
    if not found["standard_error"]:
        return {**found, "p": np.nan if differences[0] else 1.0}
    test = stats.ttest_1samp(differences, 0.0)
    low, high = test.confidence_interval(0.95)
    return {**found, "low_95": low, "high_95": high, "p": test.pvalue}


def pooled(columns: Sequence[np.ndarray]) -> dict[str, Any]:
    """The mean over columns of their mean differences; each column is an array of our and their runs.

    All columns share one spread of seeds: a column of two or three pairs knows its own badly.
    """
    differences = [np.round(ours - theirs, 9) for ours, theirs in columns]
    means, counts = np.array([d.mean() for d in differences]), np.array([len(d) for d in differences])
    freedom = counts.sum() - len(counts)
    found: dict[str, Any] = {
        "pairs": int(counts.sum()), "mean": np.mean([c[0].mean() for c in columns]),
        "against": np.mean([c[1].mean() for c in columns]), "difference": means.mean(),
        "standard_error": np.nan, "low_95": np.nan, "high_95": np.nan, "p": np.nan,
    }  # fmt: skip
    if not freedom:
        return found
    variance = sum(((d - d.mean()) ** 2).sum() for d in differences) / freedom
    error = found["standard_error"] = np.sqrt(variance * (1 / counts).sum()) / len(counts)
    if not error:
        return {**found, "p": np.nan if means.mean() else 1.0}
    reach = error * stats.t.ppf(0.975, freedom)
    p = 2 * stats.t.sf(abs(means.mean()) / error, freedom)
    return {**found, "low_95": means.mean() - reach, "high_95": means.mean() + reach, "p": p}


def against_paper(line: Mapping[str, Any]) -> dict[str, Any]:
    """Our mean of a cell less the paper's, with the 95 % interval and p of Welch's t-test."""
    found: dict[str, Any] = {
        "pairs": line["seeds"], "mean": line["mean"], "against": line["paper"],
        "difference": line["mean"] - line["paper"], "standard_error": np.nan, "low_95": np.nan, "high_95": np.nan,
        "p": np.nan,
    }  # fmt: skip
    ours, theirs = line["deviation"] ** 2 / max(line["seeds"], 1), line["paper_deviation"] ** 2 / PAPER_RUNS
    if not ours + theirs > 0 or line["seeds"] < 2:  # also without a deviation
        return found
    error = np.sqrt(ours + theirs)
    freedom = (ours + theirs) ** 2 / (ours**2 / (line["seeds"] - 1) + theirs**2 / (PAPER_RUNS - 1))
    reach = error * stats.t.ppf(0.975, freedom)
    p = 2 * stats.t.sf(abs(found["difference"]) / error, freedom)
    return {
        **found, "standard_error": error, "low_95": found["difference"] - reach, "high_95": found["difference"] + reach,
        "p": p,
    }  # fmt: skip
