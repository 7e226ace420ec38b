"""Pictures of one run's memory and errors: sets, class balance, confusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from puridiver.errors import DataError
from puridiver.report.curves import judged_on
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, PANEL, Panel, Picture, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SET_TITLES = ("clean (C)", "re-label (R)", "unlabelled (U)")
NAMED_CLASSES = 20  # with more classes, axes show numbers and matrices are drawn as one image


# Sets --------------------------------------------------------------------------------------------------------------


def sets_picture(runs: Sequence[Run]) -> Picture:
    chosen = {label: run for label, run in representatives(runs).items() if run.of_kind("split")}
    if not chosen:
        raise DataError("no run kept how it divided its memory: they are of an older version; run them again")
    panels = []
    for label, run in chosen.items():
        whose = f", {label}" if len(chosen) > 1 else ""
        panels.append(Panel(f"Samples in each set{whose}", partial(_paint_sizes, run)))
        if run.knows_truth:
            panels.append(Panel(f"How right each set is, %{whose}", partial(_paint_precision, run)))
    return Picture(
        "sets",
        "Clean, re-labelled, unlabelled",
        f"{_whose_split(list(chosen.values()))} C (its labels are trusted), R (given the predicted label instead) and "
        f"U (label not used). {_what_right_means(list(chosen.values()))} It is the look of the trained network after "
        "the task; the sizes that “puridiver run” prints are of the last training epoch.",
        panels,
        ("run", "task", *(f"{title} {what}" for title in SET_TITLES for what in ("samples", "right %"))),
        [
            [label, str(event["task"] + 1), *(cell for code in range(3) for cell in
             (str(set_size(event, code)), _percent(set_precision(event, code))))]
            for label, run in chosen.items() for event in run.of_kind("split")
        ],
    )  # fmt: skip


def _whose_split(runs: Sequence[Run]) -> str:
    """Who divides the memory: only PuriDivER's trainer learns by the sets, for others they are an audit."""
    if all(run.summary["trainer"] == "puridiver" for run in runs):
        return "After each task PuriDivER's rule divides the memory into"
    return (
        "An audit, not what every trainer here learns by: PuriDivER's rule would divide the memory after each task into"
    )


def _what_right_means(runs: Sequence[Run]) -> str:
    if any(run.knows_truth for run in runs):
        where = "" if all(run.knows_all_truth for run in runs) else ", of the samples whose true label is known"
        return f"Right means{where}: label right in C, prediction right in R, label wrong in U."
    return "How right each set is, is not known: the data have no true labels."


def set_size(event: dict[str, Any], code: int) -> int:
    return event["sets"].count(code)


def set_precision(event: dict[str, Any], code: int) -> float | None:
    """How right a set is, in percent: by the prediction in R, by the label in C, against the label in U."""
    name, wanted = (("right", 1), ("guess_right", 1), ("right", 0))[code]
    known = [r for r, c in zip(event[name], event["sets"], strict=True) if c == code and r is not None]
    return 100 * known.count(wanted) / len(known) if known else None


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _paint_sizes(run: Run, axes: Axes) -> None:
    events = run.of_kind("split")
    x, bottom = [event["task"] + 1 for event in events], np.zeros(len(events))
    for code, title in enumerate(SET_TITLES):
        sizes = [set_size(event, code) for event in events]
        axes.bar(x, sizes, bottom=bottom, color=colour(code), label=title, width=0.7, hatch=("", "///", "...")[code])
        bottom += sizes
    axes.set(xlabel="after task", ylabel="samples", xticks=x)


def _paint_precision(run: Run, axes: Axes) -> None:
    events = run.of_kind("split")
    for code, title in enumerate(SET_TITLES):
        points = [(event["task"] + 1, set_precision(event, code)) for event in events]
        known = [(task, value) for task, value in points if value is not None]
        if not known:  # of a set that was always empty: a line without points upsets the layout
            continue
        axes.plot([t for t, _ in known], [v for _, v in known], color=colour(code), marker="os^"[code],
                  linestyle=("-", "--", ":")[code], label=title, clip_on=False)  # fmt: skip
    axes.set(xlabel="after task", ylim=(0, 101), xticks=[event["task"] + 1 for event in events])


# Class balance -----------------------------------------------------------------------------------------------------


def balance_picture(runs: Sequence[Run]) -> Picture:
    chosen = {label: run for label, run in representatives(runs).items() if "stream_per_class" in run.tasks[-1]}
    if not chosen:
        raise DataError("no run kept the classes of its stream: they are of an older version; run them again")
    panels = []
    for label, run in chosen.items():
        whose = f", {label}" if len(chosen) > 1 else ""
        panels += [
            Panel(f"Classes of the stream{whose}", partial(_paint_balance, run, "stream"), _bars_height(run)),
            Panel(f"Classes of the final memory{whose}", partial(_paint_balance, run, "memory"), _bars_height(run)),
        ]
    return Picture(
        "balance",
        "Class balance",
        f"How many samples each class has, by the labels given{_marks_text(list(chosen.values()))}; a good memory has "
        "about as many of each class, however uneven the stream is.",
        panels,
        ("run", "class", "stream, given", "stream, true", "memory, given", "memory, true"),
        [
            [label, name, *(_count(run.tasks[-1][f"{where}_per_{which}class"], c)
             for where in ("stream", "memory") for which in ("", "true_"))]
            for label, run in chosen.items() for c, name in enumerate(run.class_names)
        ],
    )  # fmt: skip


def _marks_text(runs: Sequence[Run]) -> str:
    return " (bars) and by the true ones (marks)" if any(run.knows_all_truth for run in runs) else ""


def _count(counts: list[int] | None, label: int) -> str:
    return "-" if counts is None else str(counts[label])


def _bars_height(run: Run) -> float:
    n = len(run.class_names)
    return max(PANEL[1], 0.9 + 0.2 * n) if n <= NAMED_CLASSES else PANEL[1]


def _paint_balance(run: Run, where: str, axes: Axes) -> None:
    event, n = run.tasks[-1], len(run.class_names)
    given, true, at = event[f"{where}_per_class"], event[f"{where}_per_true_class"], list(range(n))
    if n > NAMED_CLASSES:
        axes.bar(at, given, color=colour(0), alpha=0.75, label="by given label")
        if true is not None:
            axes.plot(at, true, color=INK, marker=".", markersize=3, linestyle="", label="by true label")
        axes.set(xlabel="class number", ylabel="samples")
    else:
        axes.barh(at, given, color=colour(0), alpha=0.75, label="by given label")
        if true is not None:
            axes.plot(true, at, color=INK, marker="|", markersize=11, markeredgewidth=2, linestyle="",
                      label="by true label")  # fmt: skip
        axes.set_yticks(at, [shortened(name) for name in run.class_names])
        axes.set(xlabel="samples", xlim=(0, None))
        axes.invert_yaxis()


def shortened(name: str, longest: int = 16) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


# Confusion ---------------------------------------------------------------------------------------------------------


def confusion_picture(runs: Sequence[Run]) -> Picture:
    chosen = representatives(runs)
    kind = _row_kind(chosen.values())
    by_label = "" if kind == "true class" else ", by the labels that they came with where no truer one is known"
    return Picture(
        "confusion",
        "What is taken for what",
        f"Each row is a {kind} of the {judged_on(runs)} images{by_label}, each column what the learner calls it, "
        "in percent of the row: all on the diagonal would be perfect.",
        [
            Panel(
                f"{judged_on([run]).capitalize()} images, % of each {_row_kind([run])}"
                + (f", {label}" if len(chosen) > 1 else ""),
                partial(_paint_confusion, run),
                PANEL[0] * 0.95,
            )
            for label, run in chosen.items()
        ],
        ("run", kind, "taken for", "images", "% of the class"),
        [[label, *row] for label, run in chosen.items() for row in _confusion_rows(run)],
    )


def _row_kind(runs: Iterable[Run]) -> str:
    """What the classes of the judged images are: of data without true labels they may be wrong themselves."""
    known = all(run.knows_truth and "verified" not in run.summary for run in runs)
    return "true class" if known else "labelled class"


def _shares(run: Run) -> np.ndarray:
    counts = np.asarray(run.tasks[-1]["confusion"], dtype=float)
    return 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _paint_confusion(run: Run, axes: Axes) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    shares, n = _shares(run), len(run.class_names)
    blue = to_rgb(colour(0))
    # From nothing to a blue that lets the ink on it be read, in light and in dark.
    scale = LinearSegmentedColormap.from_list("share", [(*blue, 0.0), (*blue, 0.6)])
    axes.imshow(shares, cmap=scale, vmin=0, vmax=100, interpolation="nearest")
    axes.set(xlabel="taken for", ylabel=_row_kind([run]))
    for spine in axes.spines.values():
        spine.set_visible(True)
    if n > NAMED_CLASSES:
        return
    names = [shortened(name, 11) for name in run.class_names]
    axes.set_yticks(range(n), names)
    turned: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names)) > 2 else {}
    )
    axes.set_xticks(range(n), names, **turned)
    for (row, column), share in np.ndenumerate(shares):
        if share >= 0.5:
            axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=8 if n <= 12 else 6)


def _confusion_rows(run: Run) -> list[list[str]]:
    """The twenty most frequent mistakes."""
    counts = np.asarray(run.tasks[-1]["confusion"])
    wrong = [(int(k), t, p) for (t, p), k in np.ndenumerate(counts) if t != p and k]
    rows = sorted(wrong, key=lambda row: (-row[0], row[1], row[2]))[:20]
    names = run.class_names
    return [[names[t], names[p], str(k), f"{100 * k / counts[t].sum():.1f}"] for k, t, p in rows]
