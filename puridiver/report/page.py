"""The report of runs: one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from puridiver.errors import DataError
from puridiver.metrics import METRICS, Metric
from puridiver.report import style
from puridiver.report.figures import detailed, draw, figures
from puridiver.report.figures.base import Drawing
from puridiver.report.gallery import memory_gallery
from puridiver.report.reading import Run, grouped

# Shown in this order, then all other metrics; the best epoch is a note, since it is not a fair figure.
FIRST = ("last_accuracy", "memory_purity", "average_accuracy", "anytime_area", "forgetting")
BEST_EPOCH = "best_epoch_accuracy"


@dataclass(frozen=True)
class PageFigure:
    """A drawing on the page: its panels as SVG, those that are folded away, and its numbers as HTML."""

    name: str
    drawing: Drawing
    shown: list[str]
    folded: list[str]
    table: str


@dataclass(frozen=True)
class Headline:
    """A figure that matters, with a sentence on its meaning."""

    label: str
    value: str
    meaning: str


def write_page(runs: Sequence[Run], notes: Sequence[str], out: Path, force: bool = False) -> Path:
    """Write the report of these runs; `force` replaces a file that puridiver did not write."""
    style.check_output(out, force)
    return style.write_output(out, render(runs, notes).encode(), force)


def render(runs: Sequence[Run], notes: Sequence[str]) -> str:
    """The page as HTML."""
    style.check_installed("report", "jinja2", "PIL", "matplotlib")
    several = len(runs) > 1
    names = [name for name, figure in figures().items() if figure.of_several and several]
    drawn, not_drawn = _figures(runs, names, "all")
    return fill(
        "page.html",
        "report",
        percent=percent,
        title=page_title(runs),
        notes=notes,
        several=several,
        comparison=table_html(comparison(runs)) if several else "",
        figures=drawn,
        not_drawn=not_drawn,
        n_runs=len(runs),
        parts=[_run_part(run, f"run{number}") for number, run in enumerate(detailed(runs), start=1)],
        shortened=any(run.summary["shortened"] for run in runs),
    )


def fill(name: str, kind: str, **values: Any) -> str:
    """Fill a template; `kind` is what the page calls itself ("report", "audit")."""
    import jinja2
    from markupsafe import Markup

    here = resources.files("puridiver.report") / "templates"
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("puridiver.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )  # fmt: skip
    css, js = (Markup((here / f"page.{ending}").read_text(encoding="utf-8")) for ending in ("css", "js"))
    return environment.get_template(name).render(css=css, js=js, safe=Markup, kind=kind, mark=style.MARK, **values)


def page_title(runs: Sequence[Run]) -> str:
    columns = sorted({run.column for run in runs})
    where = columns[0] if len(columns) == 1 else f"{len(columns)} streams"
    return f"{runs[0].method} on {where}" if len(runs) == 1 else f"{len(runs)} runs on {where}"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:z.{digits}f} %"


def table_html(frame: pd.DataFrame) -> str:
    """A table for the page; columns that say the same in every row are left out."""
    same = [name for name in ("figure", "line", "run") if name in frame and frame[name].nunique() == 1]
    html = frame.drop(columns=same).to_html(index=False, border=0, na_rep="-", float_format=lambda v: f"{v:.4g}")
    return html.replace(' class="dataframe"', "").replace("<th>", '<th scope="col">')


# One run -----------------------------------------------------------------------------------------------------------


def _run_part(run: Run, name: str) -> dict[str, Any]:
    """Everything the page tells of one run."""
    drawn, not_drawn = _figures([run], [figure.name for figure in figures().values() if figure.of_run], name)
    shown, reason = None, "the run did not keep its memory"
    try:
        shown = memory_gallery(run, name)
    except DataError as error:
        reason = str(error)
    return {
        "name": name, "run": run, "title": f"{run.method}, {run.column}, seed {run.seed}", "headlines": headlines(run),
        "best_epoch": run.summary.get(BEST_EPOCH), "figures": drawn, "not_drawn": not_drawn, "gallery": shown,
        "no_gallery": reason,
    }  # fmt: skip


def _figures(runs: Sequence[Run], names: Sequence[str], prefix: str) -> tuple[list[PageFigure], list[str]]:
    """The figures that these runs allow, and why the others are missing."""
    found, missing = [], []
    for name in names:
        try:
            drawing = draw(name, runs)
        except DataError as error:
            missing.append(str(error))
            continue
        place = f"{prefix}-{name}"
        svgs = [style.inline_svg(panel, f"{place}-{i}", drawing.caption) for i, panel in enumerate(drawing.panels)]
        first = len(svgs) - (drawing.shown or len(svgs))
        found.append(PageFigure(place, drawing, svgs[first:], svgs[:first], table_html(drawing.numbers)))
    return found, missing


def headlines(run: Run) -> list[Headline]:
    """Every metric that the run has, the last accuracy first, and the time."""
    found: dict[str, Headline] = {}
    for metric in _metrics():
        value = run.summary.get(metric.name)
        if value is not None:
            shown = percent(value) if metric.unit == "%" else f"{value:.2f} {metric.unit}".strip()
            of_all = found.get(metric.name.replace("_seen", ""))
            if of_all is None or of_all.value != shown:  # on classes seen so far: only where it differs
                title = metric.title[:1].upper() + metric.title[1:]
                found[metric.name] = Headline(title, shown, _meaning(metric, run))
    device = run.summary.get("device", "an unknown device")
    time = Headline("Training time", f"{run.training_seconds:.1f} s", f"On {device}, without evaluation.")
    return [*found.values(), time]


def _metrics() -> list[Metric]:
    """All metrics but the best epoch, the most important first."""
    order = {name: place for place, name in enumerate(FIRST)}
    names = sorted(METRICS, key=lambda name: (order.get(name, len(FIRST)), name))
    return [METRICS[name] for name in names if name != BEST_EPOCH]


def _meaning(metric: Metric, run: Run) -> str:
    s, words = run.summary, (metric.__doc__ or "").strip().partition("\n")[0]
    if metric.name == FIRST[0]:
        words = f"{words} Of the {s['evaluated_on']} images, {label_note(s)}."
    if metric.name == "memory_purity" and s["stream_noise"] is not None:
        words = f"{words} In the stream it is {percent(1 - s['stream_noise'])}."
    return words + " Lower is better." * (metric.better == "lower")


def label_note(summary: Mapping[str, Any]) -> str:
    """By which labels the evaluation images count as right."""
    if summary["stream_noise"] is None or summary.get("verified") == 0:
        return "by the labels that they came with, which may be wrong"
    if "verified" not in summary:
        return "by their true labels"
    known = f"{summary['verified']} of {summary['evaluated']}, of these {summary['verified_accuracy']:.1%}"
    return f"by the true label where it is known ({known}), else by the label that they came with"


# Several runs ------------------------------------------------------------------------------------------------------


def comparison(runs: Sequence[Run]) -> pd.DataFrame:
    """One row a group: mean ± standard deviation over its seeds of every metric that differs from the others."""
    groups = grouped(runs)
    columns = {"method": [group.label for group in groups]}
    for metric in _metrics():
        scale, digits = (100, 1) if metric.unit == "%" else (1, 2)
        cells = [spread([run.summary.get(metric.name) for run in group.runs], scale, digits) for group in groups]
        if set(cells) != {"-"} and cells not in columns.values():
            columns[f"{metric.title} {metric.unit}"] = cells
    columns["training s"] = [spread([run.training_seconds for run in group.runs], 1) for group in groups]
    columns["seeds"] = [", ".join(str(run.seed) for run in group.runs) for group in groups]
    return pd.DataFrame(columns)


def spread(values: Sequence[float | None], scale: float = 100, digits: int = 1) -> str:
    """Mean ± sample standard deviation; the mean alone for one value; "-" where a value is not known."""
    known = pd.Series(values, dtype=float)
    if known.isna().any():
        return "-"
    mean = f"{scale * known.mean():z.{digits}f}"  # z: no minus before a zero
    return mean if len(known) == 1 else f"{mean} ± {scale * known.std():.{digits}f}"
