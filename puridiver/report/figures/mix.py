"""Which labels come when in a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from puridiver.report.figures._matrix import shortened
from puridiver.report.figures.base import Drawing, Figure
from puridiver.report.reading import Run, representatives
from puridiver.report.style import INK, PANEL, Axes, Panel
from puridiver.streams import StreamManifest

WINDOWS = 100  # parts of the stream that are counted apart
MOST_NAMES = 30  # class names that a panel has room for


def mix_over_time(manifest: StreamManifest, windows: int = WINDOWS) -> np.ndarray:
    """The share of each given label in equal parts of the stream, (classes, windows)."""
    parts = np.array_split(manifest.labels, min(windows, len(manifest)))
    return np.stack([np.bincount(part, minlength=manifest.n_classes) / len(part) for part in parts], axis=1)


def by_first_task(manifest: StreamManifest) -> list[int]:
    """Class ids in the order in which they are first major, so that a drifting stream reads as a staircase."""
    return list(dict.fromkeys([*(c for group in manifest.major_classes for c in group), *range(manifest.n_classes)]))


def draw_mix(streams: Mapping[str, StreamManifest]) -> Drawing:
    """One panel a stream, by title, all on one scale."""
    if not all(len(manifest) for manifest in streams.values()):
        raise ValueError("a stream without samples cannot be drawn")
    most = max(0.5, *(float(mix_over_time(manifest).max()) for manifest in streams.values()))
    panels, tables = [], []
    for title, manifest in streams.items():
        n = manifest.n_classes
        panels.append(Panel(title, partial(_paint, manifest, most), max(PANEL[1], 0.2 * n * (n <= MOST_NAMES))))
        tasks = [f"task {task + 1}" for task in range(manifest.n_tasks)]
        table = pd.DataFrame(manifest.counts(), columns=tasks).assign(stream=title, label=manifest.class_names)
        tables.append(table.iloc[by_first_task(manifest)])
    numbers = pd.concat(tables)
    caption = "The darker, the more samples have the label at that time. Vertical lines are the borders of tasks."
    first = ["stream", "label"]
    return Drawing(caption, panels, numbers[[*first, *numbers.columns.drop(first)]])


def _paint(manifest: StreamManifest, most: float, axes: Axes) -> None:
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

    order = by_first_task(manifest)
    image = axes.imshow(
        mix_over_time(manifest)[order], aspect="auto", interpolation="nearest", cmap="Blues",
        norm=PowerNorm(0.5, 0, most),  # a percent of minor samples has to show, too
        extent=(0, len(manifest), len(order), 0),
    )  # fmt: skip
    bar = axes.figure.colorbar(image, ax=axes, format=PercentFormatter(1, decimals=0), pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("share of a given label")
    for end in manifest.task_ends[:-1]:
        axes.axvline(end, color=INK, linewidth=0.8)
    axes.set_xlabel("samples seen")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.tick_params(axis="y", length=0)
    if len(order) <= MOST_NAMES:
        names = [shortened(manifest.class_names[c], 24) for c in order]
        axes.set_yticks([row + 0.5 for row in range(len(order))], names)
    else:
        axes.set(ylabel="classes, in order of their tasks", yticks=[])


class Mix(Figure):
    name, title = "mix", "Which labels come when"
    order = 110

    def draw(self, runs: Sequence[Run]) -> Drawing:
        streams = {run.summary["stream_hash"]: run for run in representatives(runs).values()}
        titled = {f"{run.column}, {run.summary['stream']}, seed {run.seed}": run for run in streams.values()}
        return draw_mix({title: run.manifest for title, run in titled.items()})
