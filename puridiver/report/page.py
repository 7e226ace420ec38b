"""HTML pages that need nothing but themselves: the report of runs, and what the audit's page shares with it."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image

from puridiver.discovery import import_extra
from puridiver.errors import DataError, counted
from puridiver.metrics import METRICS
from puridiver.report import style
from puridiver.report.figures import draw, figures
from puridiver.report.reading import Run, grouped, representatives
from puridiver.trainers import SET_NAMES

# Shown in this order, then all other metrics; the best epoch is a note, since it is not a fair figure.
FIRST = ("last_accuracy", "memory_purity", "average_accuracy", "anytime_area", "forgetting")
BEST_EPOCH = "best_epoch_accuracy"
DETAILED = 6  # runs that a page shows one by one; a grid has too many
THUMBNAIL = 64  # px: the largest side
LOSSLESS_BYTES = 4_000_000  # larger galleries are stored lossily: 10,000 images of 32 px are 30 MB


class Headline(NamedTuple):
    """A figure that matters, with a sentence on its meaning."""

    label: str
    value: str
    meaning: str


# Parts of any page --------------------------------------------------------------------------------------------------


def fill(name: str, **values: Any) -> str:
    """Fill a template of the folder."""
    jinja2 = import_extra("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("puridiver.report"), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )  # fmt: skip
    return str(environment.get_template(name).render(mark=style.MARK, percent=percent, **values))


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:z.1f} %"


def table_html(frame: pd.DataFrame) -> str:
    """A table for the page; columns that say the same in every row are left out."""
    same = [name for name in ("figure", "line", "run") if name in frame and frame[name].nunique() == 1]
    html = frame.drop(columns=same).to_html(index=False, border=0, na_rep="-", float_format=lambda v: f"{v:.4g}")
    return html.replace(' class="dataframe"', "").replace("<th>", '<th scope="col">')


def thumbnails(images: np.ndarray) -> list[str]:
    """uint8 (N, H, W, C) as small pictures in data URIs."""
    found, lossless = [], images.nbytes <= LOSSLESS_BYTES
    for image in images:
        picture, content = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image), io.BytesIO()
        picture.thumbnail((THUMBNAIL, THUMBNAIL))
        picture.save(content, "webp", lossless=lossless, quality=80)
        found.append(style.data_uri("webp", content.getvalue()))
    return found


# The report ---------------------------------------------------------------------------------------------------------


def write_page(
    runs: Sequence[Run], notes: Sequence[str], out: Path, force: bool = False, against: Sequence[Run] = ()
) -> Path:
    """Write the report of these runs; `force` replaces a file that puridiver did not write.

    `against` are baselines that the page draws beside each run of the same data and noise.
    """
    return style.write_output(out, lambda: render(runs, notes, against).encode(), force)


def render(runs: Sequence[Run], notes: Sequence[str], against: Sequence[Run] = ()) -> str:
    """The page as HTML. Of many runs it shows the lowest seed of some groups in detail."""
    for library in ("jinja2", "matplotlib"):  # before the work; a figure that cannot be drawn would be a mere note
        import_extra(library, "report")
    several, columns, stories = len(runs) > 1, {run.column for run in runs}, {run.story for run in runs}
    title = f"{len(runs)} runs" if several else runs[0].method
    on = stories if len(stories) == 1 else columns if len(columns) == 1 else {f"{len(columns)} streams"}
    beside = list({run.folder: run for run in [*runs, *against]}.values())
    labels = {run.folder: group.label for group in grouped(beside) for run in group.runs}
    detailed = runs if len(runs) <= DETAILED else list(representatives(runs).values())[:DETAILED]
    baselines = [
        [other for other in against if other.column == run.column and labels[other.folder] != labels[run.folder]]
        for run in detailed
    ]
    if against and not any(baselines):
        told = f"{against[0].folder} is {labels[against[0].folder]} on {against[0].column}"
        raise DataError(f"--against should name another method on {' or '.join(sorted(columns))}, but {told}")
    drawn, not_drawn = _figures(beside, [name for name, f in figures().items() if f.of_several and several])
    return fill(
        "page.html", title=f"{title} on {min(on)}", notes=notes,
        several=several, comparison=table_html(comparison(beside)) if several else "", figures=drawn,
        not_drawn=not_drawn, n_runs=len(runs), shortened=any(run.summary["shortened"] for run in runs),
        parts=[
            _run_part(run, f"run{number}", labels[run.folder], baselines[number - 1])
            for number, run in enumerate(detailed, start=1)
        ],
    )  # fmt: skip


def _run_part(run: Run, name: str, label: str, against: Sequence[Run]) -> dict[str, Any]:
    """Everything that the page shows of one run, beside its baselines."""
    drawn, not_drawn = _figures([run], [key for key, figure in figures().items() if figure.of_run], against)
    shown, reason = None, "the run did not keep its memory"
    try:
        shown = memory_gallery(run)
    except DataError as error:
        reason = str(error)
    return {
        "name": name, "run": run, "title": f"{label}, {run.column}, seed {run.seed}",
        "headlines": headlines(run, against),
        "best_epoch": run.summary[BEST_EPOCH], "figures": drawn, "not_drawn": not_drawn, "gallery": shown,
        "no_gallery": reason,
    }  # fmt: skip


def _figures(
    runs: Sequence[Run], names: list[str], against: Sequence[Run] = ()
) -> tuple[list[dict[str, Any]], list[str]]:
    """The figures that these runs allow, as the template shows them, and why the others are missing.

    Figures that can show several runs show those of `against`, too.
    """
    found, missing = [], []
    for name in names:
        try:
            drawing = draw(name, [*runs, *(against if figures()[name].of_several else ())])
            pictures = [style.picture([panel], "svg", transparent=True) for panel in drawing.panels]
        except DataError as error:
            missing.append(str(error))
            continue
        found.append({
            "title": figures()[name].title, "internal": figures()[name].internal, "caption": drawing.caption,
            "sources": [style.data_uri("svg+xml", picture) for picture in pictures],
            "table": table_html(drawing.numbers),
        })  # fmt: skip
    return found, missing


def memory_gallery(run: Run) -> dict[str, Any] | None:
    """The data of the gallery of a run's memory, or None where the run did not keep it."""
    memory = run.memory
    if memory is None or not len(memory):
        return None
    # As `Learner.audit` sorts them: first the samples with another suggested label, each by trust.
    order = np.lexsort((memory.arrivals, memory.p_correct, memory.given == memory.suggested))
    rows = pd.DataFrame({
        "arrival": memory.arrivals, "given": memory.given, "suggested": memory.suggested, "set": memory.sets,
        "p": memory.p_correct.astype(float).round(4), "truth": memory.true, "name": memory.names,
    })  # fmt: skip
    return {
        "classes": run.class_names, "sets": SET_NAMES, "rows": rows.iloc[order].to_dict("records"),
        "images": thumbnails(memory.images[order]), "file": f"suspects-{run.folder.resolve().name}.csv",
    }  # fmt: skip


def _metric_names() -> list[str]:
    """All metrics but the best epoch, the most important first."""
    return [name for name in dict.fromkeys([*FIRST, *METRICS]) if name != BEST_EPOCH]


def headlines(run: Run, against: Sequence[Run] = ()) -> list[Headline]:
    """Every metric that the run has, the last accuracy first, then what is better than baselines; and the time."""
    s, found = run.summary, dict[str, Headline]()
    more = {"last_accuracy": f" After all tasks, on the {s['evaluated_on']} images, {label_note(s)}."}
    if s["stream_noise"] is not None:
        more["memory_purity"] = f" In the stream it is {percent(1 - s['stream_noise'])}."
    for name in _metric_names():
        metric, value = METRICS[name], s.get(name)
        if value is None:
            continue
        shown = percent(value) if metric.unit == "%" else f"{value:.2f} {metric.unit}".strip()
        meaning = metric.meaning + more.get(name, "") + " Lower is better." * (metric.better == "lower")
        of_all = found.get(name.replace("_seen", ""))
        if of_all is None or of_all.value != shown:  # on classes seen so far: only where it differs
            found[name] = Headline(metric.title[:1].upper() + metric.title[1:], shown, meaning.strip())
    time = Headline("Training time", f"{run.training_seconds:.1f} s", f"On {s['device']}, without evaluation.")
    first, *others = found.values()
    return [first, *differences(run, against), *others, time]


def differences(run: Run, against: Sequence[Run]) -> list[Headline]:
    """The last accuracy of a run less that of each baseline."""
    found = []
    for group in grouped([run, *against])[1:]:
        mean = float(np.mean([other.summary["last_accuracy"] for other in group.runs]))
        same = {other.summary["stream_hash"] for other in group.runs} == {run.summary["stream_hash"]}
        told = f"{counted(len(group.runs), 'run')} on {'the same stream' if same else 'other streams'}"
        points = f"{100 * (run.summary['last_accuracy'] - mean):+z.1f} points"
        found.append(Headline(f"Against {group.label}", points, f"Its last accuracy is {percent(mean)}, of {told}."))
    return found


def label_note(summary: Mapping[str, Any]) -> str:
    """By which labels the evaluation images count as right."""
    if summary["stream_noise"] is None or summary.get("verified") == 0:
        return "by the labels that they came with, which may be wrong"
    known = f"where it is known ({summary.get('verified')} of {summary.get('evaluated')} images)"
    return f"by the true label {known}" if "verified" in summary else "by their true labels"


def comparison(runs: Sequence[Run]) -> pd.DataFrame:
    """One row a group: mean ± standard deviation over its seeds of every metric that differs from the others."""
    groups = grouped(runs)
    columns = {"method": [group.label for group in groups]}
    for metric in (METRICS[name] for name in _metric_names()):
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
