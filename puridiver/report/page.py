"""The report of runs: one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.errors import DataError
from puridiver.report import style
from puridiver.report.figures import detailed, draw, figures
from puridiver.report.figures.base import Drawing
from puridiver.report.gallery import memory_gallery
from puridiver.report.reading import Run, grouped, label_note

if TYPE_CHECKING:
    from pandas import DataFrame


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


@dataclass(frozen=True)
class RunPart:
    """Everything the page tells of one run."""

    name: str
    title: str
    run: Run
    headlines: list[Headline]
    figures: list[PageFigure]
    not_drawn: list[str]
    gallery: dict[str, Any] | None
    no_gallery: str  # why there is none


def write_page(runs: Sequence[Run], notes: Sequence[str], out: Path, force: bool = False) -> Path:
    """Write the report of these runs; `force` replaces a file that puridiver did not write."""
    style.check_output(out, force)
    return style.write_output(out, render(runs, notes).encode(), force)


def render(runs: Sequence[Run], notes: Sequence[str]) -> str:
    """The page as HTML."""
    style.check_installed("report", "jinja2", "PIL", "matplotlib")
    chosen, several = detailed(runs), len(runs) > 1
    names = [name for name, figure in figures().items() if figure.of_several]
    drawn, not_drawn = _figures(runs, names, "all") if several else ([], [])
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
        parts=[_run_part(run, number, several) for number, run in enumerate(chosen, start=1)],
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


def table_html(frame: DataFrame) -> str:
    """A table for the page; columns that say the same in every row are left out."""
    same = [name for name in ("figure", "line", "run") if name in frame and frame[name].nunique() == 1]
    html = frame.drop(columns=same).to_html(index=False, border=0, na_rep="-", float_format=lambda v: f"{v:.4g}")
    return html.replace(' class="dataframe"', "").replace("<th>", '<th scope="col">')


# One run -----------------------------------------------------------------------------------------------------------


def _run_part(run: Run, number: int, several: bool) -> RunPart:
    name = f"run{number}"
    drawn, not_drawn = _figures([run], [name for name, figure in figures().items() if figure.of_run], name)
    shown, reason = None, "the run did not keep its memory"
    try:
        shown = memory_gallery(run, name)
    except DataError as error:
        reason = str(error)
    title = f"{run.method}, {run.column}, seed {run.seed}" if several else "What happened"
    return RunPart(name, title, run, headlines(run), drawn, not_drawn, shown, reason)


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
    """The figures that matter; the first one is the headline."""
    s, by = run.summary, label_note(run.summary)
    right = f"as labelled, {by}" if by else "correctly"
    found = [
        Headline("Last accuracy", percent(s["last_accuracy"]),
                 f"of the {s['evaluated_on']} images are classified {right}, after the last epoch of the last task."),
        _purity_headline(s),
        Headline("Average accuracy", percent(s["average_accuracy"]),
                 f"mean over the ends of the tasks{_of_seen(s, 'average_accuracy', 'average_seen_accuracy')}."),
        Headline("Anytime accuracy", percent(s["anytime_area"]),
                 f"mean over the whole stream{_of_seen(s, 'anytime_area', 'anytime_seen_area')}."),
        Headline("Forgetting", percent(s["forgetting"]),
                 f"mean drop on earlier classes from their best accuracy; lower is better{_transfer(s)}."),
    ]  # fmt: skip
    if s.get("memory_diversity") is not None:
        found.append(
            Headline("Diversity", f"{s['memory_diversity']:.2f}", "mean distance within a class of the memory.")
        )
    device = s.get("device", "an unknown device")
    return [*found, Headline("Time", f"{run.training_seconds:.1f} s", f"of training on {device}, without evaluation.")]


def _purity_headline(s: dict[str, Any]) -> Headline:
    if s["memory_purity"] is None or s["stream_noise"] is None:
        return Headline("Memory purity", "not known", "the true labels of these data are not known.")
    known = s.get("memory_known", s["memory_size"])
    some = f" whose truth is known (of {s['memory_size']})" if known < s["memory_size"] else ""
    meaning = (
        f"of the {known} labels in the memory{some} are right; in the stream {percent(1 - s['stream_noise'])} are."
    )
    return Headline("Memory purity", percent(s["memory_purity"]), meaning)


def _of_seen(s: dict[str, Any], of_all: str, of_seen: str) -> str:
    """The same on classes that had arrived by then, where it differs: disjoint tasks bring some of them late."""
    found = s.get(of_seen)
    differs = found is not None and percent(found) != percent(s[of_all])
    return f"; {percent(found)} on the classes that had arrived" if differs else ""


def _transfer(s: dict[str, Any]) -> str:
    found = s.get("backward_transfer")  # null for a single task
    return "" if found is None else f"; {100 * found:+.1f} points since the end of each task (backward transfer)"


# Several runs ------------------------------------------------------------------------------------------------------

COMPARED: dict[str, tuple[Callable[[Run], float | None], float, int]] = {
    "last accuracy %": (lambda run: run.summary["last_accuracy"], 100, 1),
    "purity %": (lambda run: run.summary["memory_purity"], 100, 1),
    "average %": (lambda run: run.summary["average_accuracy"], 100, 1),
    "anytime %": (lambda run: run.summary["anytime_area"], 100, 1),
    "forgetting %": (lambda run: run.summary["forgetting"], 100, 1),
    "diversity": (lambda run: run.summary.get("memory_diversity"), 1, 2),
    "training s": (lambda run: run.training_seconds, 1, 1),
}  # heading: value, scale, digits


def comparison(runs: Sequence[Run]) -> DataFrame:
    """One row a group: mean ± standard deviation over its seeds."""
    import pandas as pd

    rows = []
    for group in grouped(runs):
        values = {heading: (group.values(value), scale, digits) for heading, (value, scale, digits) in COMPARED.items()}
        cells = {heading: spread(*value) for heading, value in values.items()}
        rows.append({"method": group.label, **cells, "seeds": ", ".join(str(run.seed) for run in group.runs)})
    return pd.DataFrame(rows)


def spread(values: Sequence[float | None], scale: float = 100, digits: int = 1) -> str:
    """Mean ± sample standard deviation; the mean alone for one value; "-" where a value is not known."""
    import pandas as pd

    known = pd.Series(values, dtype=float)
    if known.isna().any():
        return "-"
    mean = f"{scale * known.mean():z.{digits}f}"  # z: no minus before a zero
    return mean if len(known) == 1 else f"{mean} ± {scale * known.std():.{digits}f}"
