from __future__ import annotations

import json
import statistics
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from puridiver.cli.report import FIGURE_NAMES
from puridiver.errors import DataError
from puridiver.report import alpha, curves, distributions, mixtures, style
from puridiver.report.figures import DETAILED, FIGURES, detailed, draw, draw_all
from puridiver.report.reading import FEW, Run, find_runs, read_run


def painted(panel: style.Panel) -> Any:
    axes = Figure().add_subplot()
    panel.paint(axes)
    return axes


def test_the_command_line_offers_every_figure() -> None:
    assert set(FIGURE_NAMES) == set(FIGURES)


def test_every_figure_of_a_grid_is_a_picture_with_words_and_numbers(grid, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(style, "DPI", 40)
    runs, _ = find_runs([grid])
    written, left_out = draw_all(runs, tmp_path)
    assert left_out == []
    assert {path.name for path in written} == {f"{name}.{end}" for name in FIGURES for end in ("png", "svg")}
    for name in FIGURES:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(tmp_path / f"{name}.svg")
        picture = FIGURES[name](runs)
        assert picture.meaning.endswith(".")
        assert picture.rows
        assert all(len(row) == len(picture.headings) for row in picture.rows)


def test_a_figure_that_the_runs_do_not_allow_is_left_out_with_the_reason(grid, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(style, "DPI", 40)
    written, left_out = draw_all([read_run(grid / "cells" / "plain-0")], tmp_path)
    assert {path.stem for path in written} == set(FIGURES) - {"alpha", "diversity"}
    assert [reason.partition(":")[0] for reason in left_out] == ["alpha", "diversity"]


def test_words_do_not_speak_of_a_truth_that_nobody_knows(grid: Path, blind: Path) -> None:
    known, unknown = read_run(grid / "cells" / "puridiver-0"), read_run(blind)
    about_truth = {
        "tasks": "how clean the memory was",
        "sets": "Right means",
        "mixtures": "right ones point up",
        "balance": "true ones (marks)",
        "confusion": "true class",
    }
    for name, words in about_truth.items():
        assert words in FIGURES[name]([known]).meaning
        assert words in FIGURES[name]([known, unknown]).meaning or name == "confusion"
        assert words not in FIGURES[name]([unknown]).meaning
    tasks = FIGURES["tasks"]([unknown])
    assert tasks.title == "Accuracy after each task"
    assert tasks.headings == ("method", "task", "accuracy %")
    assert len(tasks.panels) == 1
    assert FIGURES["tasks"]([known]).title == "Accuracy and purity after each task"
    confusion = FIGURES["confusion"]([unknown])
    assert "by the labels that they came with" in confusion.meaning
    assert painted(confusion.panels[0]).get_ylabel() == "labelled class"
    assert confusion.panels[0].title == "Test images, % of each labelled class"
    assert painted(FIGURES["confusion"]([known]).panels[0]).get_ylabel() == "true class"


def test_wrong_names_are_refused_before_anything_is_drawn(grid: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one of accuracy, .*but got 'pie'"):
        draw("pie", [grid], tmp_path / "pie.png")
    with pytest.raises(ValueError, match=r"a \.png, \.svg or \.pdf file, but got 'tasks.doc'"):
        draw("tasks", [grid], tmp_path / "tasks.doc")
    with pytest.raises(DataError, match="no run has an alpha"):
        draw("alpha", [grid / "cells" / "plain-0"], tmp_path / "alpha.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_runs_give_the_same_file(grid: Path, tmp_path: Path, ending: str) -> None:
    one, two = (draw("time", [grid], tmp_path / f"{i}.{ending}").read_bytes() for i in range(2))
    assert len(one) > 3_000
    assert one == two


def test_the_users_own_style_is_neither_used_nor_changed(grid: Path, tmp_path: Path) -> None:
    with matplotlib.rc_context({"lines.linewidth": 40, "text.usetex": True}):
        draw("tasks", [grid], tmp_path / "tasks.png")
        assert matplotlib.rcParams["lines.linewidth"] == 40


def test_the_curves_are_those_of_the_metrics(grid: Path) -> None:
    folder = grid / "cells" / "puridiver-0"
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    points = [(e["seen"], 100 * e["accuracy"]) for e in events if e["event"] in ("anytime", "task")]
    (line,) = painted(curves.accuracy_picture([read_run(folder)]).panels[0]).lines
    np.testing.assert_allclose(np.array(line.get_xydata()), points)


def test_tasks_show_the_mean_and_the_deviation_over_seeds(grid: Path) -> None:
    runs = [read_run(grid / "cells" / f"puridiver-{seed}") for seed in range(2)]
    rows = curves.tasks_picture(runs).rows
    for task, row in enumerate(rows):
        values = [100 * run.summary["task_accuracy"][task] for run in runs]
        assert row[2] == f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def test_static_alphas_lie_at_their_alpha_and_the_adaptive_one_is_a_level(grid: Path) -> None:
    runs, _ = find_runs([grid])
    picture = alpha.alpha_picture(runs)
    static, adaptive = painted(picture.panels[0]).lines
    by_name = {run.folder.name: 100 * run.summary["last_accuracy"] for run in runs}
    assert static.get_xydata().tolist() == [[0.3, pytest.approx(by_name["alpha"])]]
    assert adaptive.get_ydata()[0] == pytest.approx((by_name["puridiver-0"] + by_name["puridiver-1"]) / 2)
    assert all(0 <= float(row[3]) <= 0.5 for row in picture.rows)


@pytest.mark.parametrize(
    ("names", "told"),
    [(("puridiver-0", "puridiver-1"), "all runs have the adaptive alpha"), (("alpha",), "alpha=0.3;")],
)
def test_that_one_alpha_gives_but_half_of_its_figure_is_told(grid, tmp_path, names, told) -> None:
    heard: list[str] = []
    draw("alpha", [grid / "cells" / name for name in names], tmp_path / "alpha.png", dpi=40, tell=heard.append)
    assert told in heard[0]
    assert heard[0].startswith("accuracy by alpha is not drawn")
    heard.clear()
    draw("alpha", [grid], tmp_path / "alpha.png", dpi=40, tell=heard.append)
    assert heard == []


def test_alpha_over_the_stream_leaves_the_means_of_tasks_to_the_table(grid: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    points = [event for event in run.of_kind("anytime") if event["alpha"] is not None]
    assert alpha.alpha_curve(run) == ([event["seen"] for event in points], [event["alpha"] for event in points])
    assert alpha.alpha_of_tasks(run) == [event["alpha"] for event in run.tasks]
    ends = Run(run.folder, run.summary, run.config, run.tasks, run.manifest)  # without points
    assert alpha.alpha_curve(ends)[1] == alpha.alpha_of_tasks(run)
    older = [{**event, "alpha": None} if event["event"] == "task" else event for event in run.events]
    first = [event["alpha"] for event in points if event["task"] == 0]
    found = alpha.alpha_of_tasks(Run(run.folder, run.summary, run.config, older, run.manifest))
    assert found[0] == pytest.approx(sum(first) / len(first))


@pytest.mark.parametrize("n_streams", [4, 1])
def test_many_kinds_of_alpha_are_spread_over_panels_of_one_scale(grid: Path, n_streams: int) -> None:
    """Twelve kinds, of several streams or of one: no panel has more series than can be told apart, none is left out."""
    base, static = (read_run(grid / "cells" / name) for name in ("puridiver-0", "alpha"))
    kinds = [
        Run(
            run.folder,
            {
                **run.summary, "noise_rate": (kind % n_streams) / 10, "settings_hash": f"{kind} {run.folder.name}",
                "options_changed": {**run.summary["options_changed"], "batch_size": 1 + kind // n_streams},
            },
            run.config, run.events, run.manifest,
        )
        for run in (base, static) for kind in range(12)
    ]  # fmt: skip
    panels = [(panel.title, painted(panel)) for panel in alpha.alpha_picture(kinds).panels]
    assert len({title for title, _ in panels}) == len(panels) == 2 * max(n_streams, 2)
    for start in ("Last accuracy by alpha", "Alpha over the stream"):
        chosen = [axes for title, axes in panels if title.startswith(start)]
        shown = [set(axes.get_legend_handles_labels()[1]) - {"with adaptive alpha"} for axes in chosen]
        assert max(map(len, shown)) <= FEW
        assert sum(map(len, shown)) == 12
        assert len({axes.get_ylim() for axes in chosen}) == 1


def test_the_mixture_is_drawn_on_the_histograms_scale() -> None:
    """However the fit was scaled, the area under both Gaussians is that of the bars: samples times bin width."""
    edges = np.linspace(0, 10, 31)
    mixture = {"weights": [0.7, 0.3], "means": [0.2, 0.7], "variances": [0.002, 0.003], "offset": 1.0, "span": 8.0}
    found = mixtures._component_curves(mixture, edges, 500)
    areas = [np.trapezoid(y, x) / (edges[1] - edges[0]) for x, y in found]
    np.testing.assert_allclose(areas, [350, 150], rtol=1e-3)
    np.testing.assert_allclose([x[y.argmax()] for x, y in found], [1 + 8 * 0.2, 1 + 8 * 0.7], atol=0.1)


@pytest.mark.parametrize("n_wrong", [0, 2, 40])
def test_a_few_wrong_labels_are_seen_beside_many_right_ones(grid: Path, n_wrong: int) -> None:
    """Their tallest bar is as long as that of the right ones, however few they are, and a scale tells its count."""
    run, n = read_run(grid / "cells" / "puridiver-0"), 100
    right = [0] * n_wrong + [1] * (n - n_wrong)
    losses = [3.0 + i / 1_000 if r == 0 else 0.1 for i, r in enumerate(right)]
    low_curves = {"weights": [0.5, 0.5], "means": [0, 3], "variances": [100, 100], "offset": 0, "span": 1}
    split = {**run.of_kind("split")[-1], "loss_mixture": low_curves}
    event = {**split, "losses": losses, "right": right, "sets": [0] * n}
    made = Run(run.folder, run.summary, run.config, [*run.tasks, event], run.manifest)
    axes = painted(mixtures.mixtures_picture([made]).panels[0])
    heights = [bar.get_height() for bar in axes.patches]
    assert (max(heights), min(heights)) == pytest.approx((1, -1 if n_wrong else 0))
    assert {f"label right ({n - n_wrong})", f"label wrong ({n_wrong})"} <= set(axes.get_legend_handles_labels()[1])
    told = {text.get_text(): text.get_position()[1] for text in axes.get_yticklabels() if text.get_position()[1] < 0}
    assert told  # with no wrong label at all, of the curve
    if n_wrong:
        assert all(position == pytest.approx(-int(count) / n_wrong) for count, position in told.items())


def test_how_right_a_set_is_by_hand() -> None:
    event = {
        "sets": [0, 0, 0, 0, 1, 1, 2, 2, 2],
        "right": [1, 1, 1, 0, 1, 0, 0, 1, 0],
        "guess_right": [0, 0, 0, 0, 1, 0, 1, 1, 1],
    }
    found = [(distributions.set_size(event, code), distributions.set_precision(event, code)) for code in range(3)]
    assert found == [(4, 75.0), (2, 50.0), (3, pytest.approx(200 / 3))]
    unknown = {**event, "right": [None] * 9}
    assert distributions.set_precision(unknown, 0) is None


def test_the_memory_without_true_labels_is_still_drawn(grid: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    event = {**run.of_kind("split")[-1]}
    event |= {"right": [None] * len(event["sets"]), "guess_right": [None] * len(event["sets"])}
    blind = Run(run.folder, run.summary, run.config, [*run.tasks, event], run.manifest)
    for panel in (*mixtures.mixtures_picture([blind]).panels, *distributions.sets_picture([blind]).panels):
        assert "<svg" in style.inline_svg(panel, "x", "")
    axes = painted(mixtures.mixtures_picture([blind]).panels[0])
    assert axes.get_legend_handles_labels()[1][0] != "label right"


def test_a_set_that_was_always_empty_leaves_the_others_drawn(grid: Path, tmp_path: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    events = [{**event, "sets": [2 * (code > 0) for code in event["sets"]]} for event in run.of_kind("split")]
    picture = distributions.sets_picture(
        [Run(run.folder, run.summary, run.config, [*run.tasks, *events], run.manifest)]
    )
    style.save(picture, tmp_path / "sets.png")  # a layout that fails would warn
    labels = painted(picture.panels[1]).get_legend_handles_labels()[1]
    assert labels == [distributions.SET_TITLES[0], distributions.SET_TITLES[2]]


def test_few_runs_are_all_shown_and_of_many_every_method(grid: Path) -> None:
    runs, _ = find_runs([grid])
    assert detailed(runs) == runs
    one = read_run(grid / "cells" / "puridiver-0")
    many = [
        Run(one.folder, {**one.summary, "noise_rate": rate / 10}, one.config, one.events, one.manifest)
        for rate in range(2 * DETAILED)
    ]
    chosen = detailed([*many, read_run(grid / "cells" / "plain-0")])
    assert len(chosen) == DETAILED
    assert "rsv + plain" in [run.method for run in chosen]


def test_runs_of_an_older_version_are_told_apart_from_damaged_ones(grid: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    old = [{k: v for k, v in e.items() if "stream_per" not in k} for e in run.events if e["event"] != "split"]
    for make in (mixtures.mixtures_picture, distributions.sets_picture, distributions.balance_picture):
        with pytest.raises(DataError, match="older version"):
            make([Run(run.folder, run.summary, run.config, old, run.manifest)])


def test_many_classes_are_drawn_without_their_names(grid: Path) -> None:
    run = read_run(grid / "cells" / "plain-0")
    n = 100
    counts = {f"{where}_per_{which}class": [3] * n for where in ("stream", "memory") for which in ("", "true_")}
    last = {**run.tasks[-1], **counts, "confusion": np.eye(n, dtype=int).tolist()}
    big = Run(run.folder, run.summary, run.config, [last], {"class_names": [f"name{i}" for i in range(n)]})
    for picture in (distributions.balance_picture([big]), distributions.confusion_picture([big])):
        for panel in picture.panels:
            svg = style.inline_svg(panel, "x", "")
            assert "name42" not in svg
            assert len(svg) < 200_000


def test_on_the_page_ink_and_series_follow_the_page(grid: Path) -> None:
    panel = FIGURES["sets"]([read_run(grid / "cells" / "puridiver-0")]).panels[1]
    svg = style.inline_svg(panel, "some-name", "what <it> means")
    assert "currentColor" in svg
    assert "var(--series-1)" in svg
    for fixed in (style.INK, *style.SERIES):
        assert fixed not in svg
    assert '<desc id="some-name-desc">what &lt;it&gt; means</desc>' in svg
    assert "<style" not in svg


def test_only_tags_are_changed_never_words() -> None:
    words = f'{style.INK} id="x" 1.23456'
    panel = style.Panel(words, lambda axes: None)
    assert f"{style.INK} id=" in style.inline_svg(panel, "x", "").partition("</desc>")[2]


def test_pictures_of_several_runs_say_whose_they_are(grid: Path) -> None:
    runs, _ = find_runs([grid])
    for name in ("sets", "mixtures", "balance", "confusion"):
        picture = FIGURES[name](runs)
        titles = [panel.title for panel in picture.panels]
        assert len(set(titles)) == len(titles)
        assert any("puridiver + puridiver, alpha=0.3" in title for title in titles)
        assert {row[0] for row in picture.rows} == {
            "puridiver + puridiver, seed 0", "puridiver + puridiver, alpha=0.3", "rsv + plain",
        }  # fmt: skip


@pytest.mark.parametrize(("letter", "columns"), [("w", 1), ("e", 2), ("i", 3)])
def test_a_legend_leaves_the_axes_their_width(letter: str, columns: int) -> None:
    """As many columns as fit, with wide letters fewer: a wider legend would squeeze the axes."""

    def paint(axes: Any) -> None:
        for number in range(4):
            axes.plot([0, 1], label=f"{letter * 18} {number}")

    with style.look():
        figure = style._figure([style.Panel("title", paint)], 1)
        figure.draw_without_rendering()
        (axes,) = figure.axes
        legend = axes.get_legend()
        assert legend is not None
        assert axes.get_window_extent().width > 0.85 * figure.bbox.width
        assert legend.get_window_extent().x1 <= figure.bbox.x1
        assert legend._ncols == columns  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["tasks", "time", "mixtures", "sets", "alpha"])
def test_titles_and_legends_stay_within_the_picture(grid: Path, name: str) -> None:
    runs, _ = find_runs([grid])
    with style.look():
        figure = style._figure(FIGURES[name](runs).panels, 2)
        figure.draw_without_rendering()
        for axes in figure.axes:
            for part in filter(None, (axes.get_legend(), axes._left_title)):  # type: ignore[attr-defined]
                box = part.get_window_extent()
                assert box.x1 <= figure.bbox.x1
                assert box.y0 >= 0


def test_numbers_of_runs_on_different_streams_say_where_each_has_its_points(grid: Path, blind: Path) -> None:
    one, other = read_run(grid / "cells" / "puridiver-0"), read_run(blind)
    picture = curves.accuracy_picture([one, other])
    assert picture.headings[0] == "point"
    seen = {name: [row[i] for row in picture.rows] for i, name in enumerate(picture.headings) if "seen" in name}
    for run, (_, column) in zip((one, other), seen.items(), strict=True):
        places = [str(event["seen"]) for event in run.events if event["event"] in ("anytime", "task")]
        assert column == places + ["-"] * (len(column) - len(places))
    alone = curves.accuracy_picture([one])
    assert alone.headings[0] == "samples seen"
    both = curves.stream_picture([one, other])
    assert len(both.headings) == len(both.rows[0]) == len(set(both.headings))


def test_accuracy_and_purity_of_one_stream_stand_side_by_side(grid: Path) -> None:
    one = read_run(grid / "cells" / "puridiver-0")
    runs = [
        Run(one.folder, {**one.summary, "noise_rate": rate, "sampler": s}, one.config, one.events, one.manifest)
        for rate in (0.2, 0.4)
        for s in ("rsv", "gbs", "rm", "ntd")
    ]
    titles = [panel.title for panel in curves.stream_picture(runs).panels]
    assert [title.split(", ")[-1] for title in titles[::2]] == [title.split(", ")[-1] for title in titles[1::2]]
    assert all(title.startswith("Purity") for title in titles[1::2])


def test_a_legend_shows_signs_without_their_error_bars() -> None:
    axes = Figure().add_subplot()
    for number in range(2):
        axes.errorbar([1], [1], yerr=[0.5], label=str(number), **style.line_style(number))
    style._legend_below(axes)
    assert [type(handle).__name__ for handle in axes.get_legend().legend_handles] == ["Line2D", "Line2D"]
