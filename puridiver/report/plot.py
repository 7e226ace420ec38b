"""Accuracy and memory purity over the stream, for one or more run folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.runs import MANIFEST, METRICS, SUMMARY

COLOURS = ("#0b6fa4", "#d1495b", "#3c8d5a", "#8a5fb0", "#c7851d", "#5a5a5a")


def read_run(folder: Path) -> dict[str, Any]:
    """Summary, events and stream of a finished run."""
    try:
        return {
            "summary": json.loads((folder / SUMMARY).read_text()),
            "events": [json.loads(line) for line in (folder / METRICS).read_text().splitlines()],
            "manifest": json.loads((folder / MANIFEST).read_text()),
        }
    except FileNotFoundError as error:
        raise DataError(f"{folder} holds no finished run: {Path(error.filename).name} is missing") from error


def group_by_method(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Runs of one method together: their mean is drawn, each of them faintly behind it."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        s = run["summary"]
        groups.setdefault(f"{s['sampler']} + {s['trainer']}", []).append(run)
    return groups


def curve(run: dict[str, Any], figure: str) -> tuple[list[int], list[float]]:
    """(samples seen, percent) at the anytime points and the ends of tasks."""
    points = [(e["seen"], 100 * e[figure]) for e in run["events"] if e["event"] in ("anytime", "task")]
    return [seen for seen, _ in points], [value for _, value in points]


def plot_runs(folders: Sequence[Path], out: Path) -> Path:
    """Write a picture (PNG, SVG or PDF by its name) of accuracy and purity over the stream."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    runs = [read_run(folder) for folder in folders]
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), constrained_layout=True)
    for axis, name, title in zip(
        axes, ("accuracy", "memory_purity"), ("Test accuracy, %", "Memory purity, %"), strict=True
    ):
        for colour, (method, group) in zip(COLOURS, group_by_method(runs).items(), strict=False):
            _draw_group(axis, group, name, method, colour)
        _shade_tasks(axis, runs[0]["manifest"]["task_ends"])
        axis.set(xlabel="samples of the stream seen", title=title, ylim=(0, 101), xlim=(0, None))
        axis.spines[["top", "right"]].set_visible(False)
    right = 100 * (1 - runs[0]["summary"]["stream_noise"])
    axes[1].axhline(right, color="#555555", linestyle=":", linewidth=1.2, label="labels of the stream that are right")
    for axis in axes:
        axis.legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(out, dpi=150)
    plt.close(figure)
    return out


def _draw_group(axis: Any, group: list[dict[str, Any]], name: str, method: str, colour: str) -> None:
    curves = [curve(run, name) for run in group]
    for seen, values in curves:
        axis.plot(seen, values, color=colour, alpha=0.2, linewidth=0.8)
    # Streams of other seeds end their tasks at slightly other counts: the mean is taken point by point.
    n = min(len(values) for _, values in curves)
    mean = [sum(values[i] for _, values in curves) / len(curves) for i in range(n)]
    where = [sum(seen[i] for seen, _ in curves) / len(curves) for i in range(n)]
    seeds = f", mean of {len(group)} seeds" if len(group) > 1 else ""
    axis.plot(where, mean, color=colour, linewidth=2, label=method + seeds)


def _shade_tasks(axis: Any, task_ends: Sequence[int]) -> None:
    starts = [0, *task_ends[:-1]]
    for number, (start, end) in enumerate(zip(starts, task_ends, strict=True)):
        if number % 2:
            axis.axvspan(start, end, color="#000000", alpha=0.05, linewidth=0)
