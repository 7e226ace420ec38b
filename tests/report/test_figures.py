from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from puridiver.errors import DataError
from puridiver.report import figures, style
from puridiver.report.figures.sets import component_counts
from puridiver.report.reading import Run, find_runs, load_run


def painted(panel: style.Panel) -> Any:
    axes = Figure().add_subplot()
    panel.paint(axes)
    return axes


@pytest.fixture
def runs(grid: Path) -> list[Run]:
    return find_runs([grid])[0]


@pytest.fixture
def one(grid: Path) -> Run:
    return load_run(grid / "cells" / "puridiver-0")


def blind(run: Run) -> Run:
    """The run as it would be on data without true labels."""
    unknown = {"memory_purity": None, "memory_per_true_class": None}
    events = [{**event, **{name: None for name in unknown if name in event}} for event in run.events]
    for event in events:
        if event["event"] == "split":
            event |= {name: [None] * len(event[name]) for name in ("right", "guess_right")}
    return dataclasses.replace(run, events=events, summary={**run.summary, "memory_purity": None, "stream_noise": None})


def test_every_figure_of_the_runs_is_drawn_with_a_caption_and_numbers(runs) -> None:
    for name in figures.figures():
        drawing = figures.draw(name, runs)
        assert drawing.panels
        for panel in drawing.panels:
            painted(panel)
        assert drawing.caption.endswith(".")
        assert len(drawing.numbers)


def test_a_figure_says_what_it_needs(grid: Path) -> None:
    plain = [load_run(grid / "cells" / "plain-0")]
    for name in ("alpha", "diversity"):
        with pytest.raises(DataError, match=rf"^{name} needs a run with"):
            figures.draw(name, plain)
    with pytest.raises(DataError, match="memory needs data with true labels"):
        figures.draw("memory", [blind(plain[0])])


def test_a_damaged_event_is_told_and_no_traceback(one: Run) -> None:
    events = [{name: value for name, value in event.items() if name != "confusion"} for event in one.events]
    damaged = dataclasses.replace(one, events=events)
    with pytest.raises(DataError, match=r"metrics.jsonl of .*puridiver-0 is damaged: KeyError: 'confusion'"):
        figures.draw("confusion", [damaged])
    for event in damaged.of_kind("split"):
        event["loss_mixture"] = {name: value for name, value in event["loss_mixture"].items() if name != "span"}
    with pytest.raises(DataError, match="'Loss, task 1' shows is damaged: KeyError: 'span'"):
        style.picture(figures.draw("mixtures", [damaged]).panels, "svg")


def test_every_figure_of_a_run_without_true_labels_is_drawn_and_claims_no_truth(one: Run) -> None:
    for figure in figures.figures().values():
        drawing = figure.draw([blind(one)])
        for panel in drawing.panels:
            painted(panel)
        for words in ("Right means", "show the truth", "true class", "classifies correctly"):
            assert words not in drawing.caption
    assert len(figures.draw("tasks", [blind(one)]).panels) == 1
    assert painted(figures.draw("confusion", [blind(one)]).panels[0]).get_ylabel() == "labelled class"


def test_lines_are_the_mean_and_numbers_the_deviation_over_seeds(grid: Path) -> None:
    runs = [load_run(grid / "cells" / f"puridiver-{seed}") for seed in range(2)]
    numbers = figures.draw("tasks", runs).numbers
    first = numbers[numbers["figure"] == "Accuracy, %"].iloc[0]
    values = [100 * run.summary["task_accuracy"][0] for run in runs]
    assert first["mean"] == pytest.approx(np.mean(values))
    assert first["standard deviation"] == pytest.approx(np.std(values, ddof=1))


def test_fixed_alphas_lie_at_their_alpha_and_the_adaptive_one_is_a_level(one: Run, runs: list[Run]) -> None:
    static, *_, adaptive, _ = painted(figures.draw("alpha", runs).panels[0]).lines
    by_name = {run.folder.name: 100 * run.summary["last_accuracy"] for run in runs}
    assert static.get_xydata().tolist() == [[0.3, pytest.approx(by_name["alpha"])]]
    assert adaptive.get_ydata()[0] == pytest.approx((by_name["puridiver-0"] + by_name["puridiver-1"]) / 2)
    assert len(figures.draw("alpha", [one]).panels) == 1  # there is nothing to compare


def test_classes_stand_where_they_become_frequent(one: Run, runs: list[Run]) -> None:
    def told(some: list[Run]) -> list[tuple[str, float]]:
        axes = painted(figures.draw("accuracy", some).panels[0])
        return [(text.get_text(), text.xy[0]) for text in axes.texts]

    starts = [0, one.tasks[0]["seen"]]
    major = [", ".join(one.class_names[c] for c in sorted(group)) for group in one.manifest.major_classes]
    assert told([one]) == list(zip(major, starts, strict=True))
    assert told(runs) == []  # seeds have other streams
    long = dataclasses.replace(one.manifest, class_names=tuple("a name as long as this " + c for c in "0123456789"))
    assert told([dataclasses.replace(one, manifest=long)]) == [("5 new", start) for start in starts]


def test_the_mixture_is_drawn_on_the_histograms_scale() -> None:
    """However the fit was scaled, the area under each Gaussian is its share of the samples times the bin width."""
    mixture = {"weights": [0.7, 0.3], "means": [0.2, 0.7], "variances": [0.002, 0.003], "offset": 1.0, "span": 8.0}
    x, width = np.linspace(0, 10, 2000), 1 / 3
    found = component_counts(mixture, x, 500, width)
    np.testing.assert_allclose([np.trapezoid(y, x) / width for y in found], [350, 150], rtol=1e-3)
    np.testing.assert_allclose([x[y.argmax()] for y in found], [1 + 8 * 0.2, 1 + 8 * 0.7], atol=0.1)


# Files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_a_picture_of_ours_is_replaced_and_the_same_runs_give_the_same_file(runs, tmp_path, ending) -> None:
    out = tmp_path / f"time.{ending}"
    one, two = (figures.save(figures.draw("time", runs), out, dpi=40).read_bytes() for _ in range(2))
    assert len(one) > 3_000
    assert one == two


def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "precious", tmp_path / "link.html", tmp_path / "pipe.html"
    target.write_text("precious")
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path in (link, pipe):
        with pytest.raises(DataError, match="not written by puridiver"):
            style.write_output(path, bytes)
    style.write_output(link, lambda: b"page", force=True)
    assert link.read_text() == "page"
    assert not link.is_symlink()
    assert target.read_text() == "precious"
