"""The report: one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.report import gallery, style
from puridiver.report.curves import spread_text
from puridiver.report.figures import FIGURES, detailed
from puridiver.report.judged import judged_by
from puridiver.report.reading import Group, Run, grouped, noise_title
from puridiver.report.table import spread
from puridiver.report.templating import fill

OF_A_RUN = ("accuracy", "alpha", "memory", "sets", "mixtures", "balance", "confusion")
OF_SEVERAL = ("tasks", "accuracy", "time", "memory", "alpha", "diversity")


@dataclass(frozen=True)
class PageFigure:
    """A picture on the page: its panels as SVG, those that are folded away, its numbers."""

    name: str
    picture: style.Picture
    shown: list[str]
    folded: list[str]


@dataclass(frozen=True)
class Headline:
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
    gallery: gallery.Gallery | None
    no_gallery: str  # why there is none


def write_page(runs: Sequence[Run], notes: Sequence[str], out: Path) -> Path:
    """Write the report of these runs."""
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file for the page")
    content = render(runs, notes).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, content)
    return out


def render(runs: Sequence[Run], notes: Sequence[str]) -> str:
    style.check_installed("report", "jinja2", "PIL", "matplotlib")
    chosen = detailed(runs)
    several = len(runs) > 1
    figures, not_drawn = _figures(runs, OF_SEVERAL, "all") if several else ([], [])
    return fill(
        "page.html",
        "report",
        percent=percent,
        title=page_title(runs),
        notes=notes,
        several=several,
        comparison=[_comparison_row(group) for group in grouped(runs)] if several else [],
        headings=COMPARISON,
        figures=figures,
        not_drawn=not_drawn,
        all_runs=runs,
        parts=[_run_part(run, number, several) for number, run in enumerate(chosen, start=1)],
        left_out=len(runs) - len(chosen),
        shortened=any(run.summary["shortened"] for run in runs),
    )


def page_title(runs: Sequence[Run]) -> str:
    kinds = {(run.summary["data"], noise_title(run.summary)) for run in runs}
    what = ", ".join(next(iter(kinds))) if len(kinds) == 1 else f"{len(kinds)} streams"
    return f"{runs[0].name} on {what}" if len(runs) == 1 else f"{len(runs)} runs on {what}"


def percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:z.{digits}f} %"


# One run -----------------------------------------------------------------------------------------------------------


def _run_part(run: Run, number: int, several: bool) -> RunPart:
    name = f"run{number}"
    figures, not_drawn = _figures([run], OF_A_RUN, name)
    options = [f"{option}={value}" for option, value in run.summary["options_changed"].items()]
    kinds = [noise_title(run.summary), *options, f"seed {run.seed}"]
    title = f"{run.name}: {', '.join(kinds)}" if several else "What happened"
    shown, reason = None, "this run is of a version that did not keep its memory"
    try:
        shown = gallery.build(run, name)
    except DataError as error:
        reason = str(error)
    return RunPart(name, title, run, headlines(run), figures, not_drawn, shown, reason)


def _of_seen(s: dict[str, Any], of_all: str = "average_accuracy", of_seen: str = "average_seen_accuracy") -> str:
    """The same on the classes that had come by then, where that differs: disjoint tasks bring some of them late."""
    found = s.get(of_seen)
    differs = found is not None and percent(found) != percent(s[of_all])
    return f"; {percent(found)} on classes that had come by then" if differs else ""


def _transfer(s: dict[str, Any]) -> str:
    found = s.get("backward_transfer")  # not in summaries of old versions; null of a single task
    return "" if found is None else f"; since just after each task, {100 * found:+.1f} points (backward transfer)"


def headlines(run: Run) -> list[Headline]:
    """The figures that matter, each with a sentence; the first is the headline."""
    s, by = run.summary, judged_by(run.summary)
    found = [
        Headline("Last accuracy", percent(s["last_accuracy"]),
                 f"of the {s['evaluated_on']} images are named {'as labelled' if by else 'rightly'} after the whole "
                 f"stream, at the true last epoch{': ' * bool(by)}{by}. This is the headline."),
        _purity_headline(s),
        Headline("Average accuracy", percent(s["average_accuracy"]), f"mean over the ends of the tasks{_of_seen(s)}."),
        Headline("Anytime accuracy", percent(s["anytime_area"]), "mean over the whole stream, also between trainings"
                 f"{_of_seen(s, 'anytime_area', 'anytime_seen_area')}."),
        Headline("Forgetting", percent(s["forgetting"]),
                 "mean drop on the classes of earlier tasks since they were known best; lower is better"
                 f"{_transfer(s)}."),
    ]  # fmt: skip
    if s.get("memory_diversity") is not None:
        meaning = "mean distance between images of one class in the memory; higher is more varied."
        found.append(Headline("Diversity", f"{s['memory_diversity']:.2f}", meaning))
    meaning = f"of learning on {s.get('device', 'an unknown device')}, evaluation not counted."
    return [*found, Headline("Time", f"{run.training_seconds:.1f} s", meaning)]


def _purity_headline(summary: dict[str, Any]) -> Headline:
    purity, noise, size = summary["memory_purity"], summary["stream_noise"], summary["memory_size"]
    if purity is None or noise is None:
        return Headline("Memory purity", "not known", f"how many of the {size} labels kept are right: the true labels "
                        "of these data are not known.")  # fmt: skip
    if (known := summary.get("memory_known", size)) < size:
        size = f"{known} labels kept whose truth is known (of {size})"
    else:
        size = f"{size} labels kept"
    meaning = f"of the {size} are right; the stream brought {percent(1 - noise)}."
    return Headline("Memory purity", percent(purity), meaning)


def _figures(runs: Sequence[Run], names: Sequence[str], prefix: str) -> tuple[list[PageFigure], list[str]]:
    figures, not_drawn = [], []
    for name in names:
        try:
            picture = FIGURES[name](runs)
        except DataError as error:
            not_drawn.append(str(error))
            continue
        figures.append(_page_figure(picture, f"{prefix}-{name}"))
    return figures, not_drawn


def _page_figure(picture: style.Picture, name: str) -> PageFigure:
    svgs = [style.inline_svg(panel, f"{name}-{i}", picture.meaning) for i, panel in enumerate(picture.panels)]
    last = len(svgs) - 2 if picture.name == "mixtures" else 0  # of the mixtures the last task, the others folded away
    return PageFigure(name, picture, svgs[last:], svgs[:last])


# Several runs ------------------------------------------------------------------------------------------------------

COMPARISON = (
    "method", "last accuracy %", "purity %", "average %", "anytime %", "forgetting %", "diversity", "training s",
    "seeds",
)  # fmt: skip


def _comparison_row(group: Group) -> list[str]:
    def cell(value: Callable[[Run], Any], digits: int = 1) -> str:
        if any(value(run) is None for run in group.runs):
            return "-"
        return spread_text(*group.spread(value), len(group.runs), digits)

    names = ("last_accuracy", "memory_purity", "average_accuracy", "anytime_area", "forgetting")
    return [
        group.label,
        *(spread([run.summary.get(name) for run in group.runs]) for name in names),
        cell(lambda run: run.summary.get("memory_diversity"), 2),
        cell(lambda run: run.training_seconds),
        ", ".join(str(run.seed) for run in group.runs),
    ]
