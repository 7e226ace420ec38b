"""A picture of streams: which given labels come when."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from puridiver.report.style import INK, PANEL, Panel, Picture
from puridiver.streams import StreamManifest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOWS = 100  # parts of the stream that are counted apart
MOST_NAMES = 30  # class names that a panel has room for
LONGEST_NAME = 24  # characters


def mix_over_time(manifest: StreamManifest, windows: int = WINDOWS) -> NDArray[np.float64]:
    """The share of each given label in equal parts of the stream, (classes, windows)."""
    windows = min(windows, len(manifest))
    ends = np.arange(1, windows + 1) * len(manifest) // windows
    parts = np.split(manifest.labels, ends[:-1])
    counts = [np.bincount(part, minlength=len(manifest.class_names)) for part in parts]
    return np.stack([count / len(part) for count, part in zip(counts, parts, strict=True)], axis=1)


def by_first_task(manifest: StreamManifest) -> list[int]:
    """Class ids in the order in which they are first major, so that a drifting stream reads as a staircase."""
    order = dict.fromkeys(c for group in manifest.major_classes for c in group)
    return [*order, *(c for c in range(len(manifest.class_names)) if c not in order)]


def mix_picture(streams: Sequence[tuple[str, StreamManifest]]) -> Picture:
    """One panel a stream with its title, all in one scale."""
    if not all(len(manifest) for _, manifest in streams):
        raise ValueError("a stream without samples cannot be drawn")
    most = max(0.5, *(float(mix_over_time(manifest).max()) for _, manifest in streams))
    panels = [
        Panel(title, partial(_paint, manifest=manifest, most=most), height=max(PANEL[1], 0.2 * _n_names(manifest)))
        for title, manifest in streams
    ]
    n_tasks = max(manifest.n_tasks for _, manifest in streams)
    return Picture(
        "stream-mix",
        "Which labels come when",
        "The darker, the more of the samples that come then have that label; lines are the borders of tasks.",
        panels,
        ("stream", "class", *(f"task {task}" for task in range(1, n_tasks + 1))),
        [row for title, manifest in streams for row in _rows(title, manifest, n_tasks)],
    )


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _n_names(manifest: StreamManifest) -> int:
    n = len(manifest.class_names)
    return n if n <= MOST_NAMES else 0


def _rows(title: str, manifest: StreamManifest, n_tasks: int) -> list[Sequence[str]]:
    """How many samples of each class a task has; empty for tasks that only another stream has."""
    counts, missing = manifest.counts().tolist(), [""] * (n_tasks - manifest.n_tasks)
    return [(title, manifest.class_names[c], *(f"{n:,}" for n in counts[c]), *missing) for c in by_first_task(manifest)]


def _paint(axes: Axes, manifest: StreamManifest, most: float) -> None:
    from matplotlib.colors import PowerNorm
    from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

    shares = mix_over_time(manifest)
    order = by_first_task(manifest)
    image = axes.imshow(
        shares[order],
        aspect="auto",
        interpolation="nearest",
        cmap="Blues",
        norm=PowerNorm(0.5, 0, most),  # a percent of minor samples has to show, too
        extent=(0, len(manifest), len(order), 0),
    )
    bar = axes.figure.colorbar(image, ax=axes, format=PercentFormatter(1, decimals=0), pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("share of a given label")
    for end in manifest.task_ends[:-1]:
        axes.axvline(end, color=INK, linewidth=0.8)
    axes.set_xlabel("samples seen")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if _n_names(manifest):
        axes.set_yticks([row + 0.5 for row in range(len(order))], [shortened(manifest.class_names[c]) for c in order])
    else:
        axes.set_ylabel("classes, in order of their tasks")
        axes.set_yticks([])
    axes.tick_params(axis="y", length=0)
