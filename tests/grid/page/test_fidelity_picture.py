"""The picture of the fidelity ablation: which comparisons it shows, and that their signs stand where they should."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure

from puridiver.errors import DataError
from puridiver.grid.page.fidelity_picture import GREY
from puridiver.grid.page.page import fidelity_drawing
from puridiver.report.style import INK
from tests.grid.page.samples import full_run

EVICTION = {"options_changed": {"evict_from": "memory"}}
LISTED = "official:sym40:{}:listed"


def test_a_panel_for_each_start_and_noise_that_was_compared() -> None:
    paper = {"recipe": "paper", "epochs": 256}
    rows = [
        full_run(1, 0.5), full_run(2, 0.6), full_run(1, 0.45, **EVICTION), full_run(2, 0.5, **EVICTION),
        full_run(1, 0.5, "asym-40"),  # nothing to compare with
        full_run(1, 0.1, "asym-40", **paper),
        full_run(1, 0.3, "asym-40", **{**paper, "options_changed": {"evict_from": "largest_class"}}),
    ]  # fmt: skip
    picture = fidelity_drawing(rows)
    assert [panel.title for panel in picture.panels] == ["From official, sym-40", "From paper, asym-40"]
    assert picture.rows == [
        ("From official, sym-40", "row 1: eviction", "-5.00 -10.00", "-7.50 ± 2.50 (p 0.205)", "shuffled"),
        ("From paper, asym-40", "row 1: eviction", "+20.00", "+20.00 ± -", "shuffled"),
    ]


def signs(rows: list[dict[str, Any]]) -> Any:
    """The means' signs of the first panel, from the top, with the axes."""
    axes = Figure().add_subplot()
    fidelity_drawing(rows).panels[0].paint(axes)
    return axes, [container.lines[0] for container in axes.containers]


@pytest.mark.parametrize(
    ("changed", "inside"),
    [((0.40, 0.5, 0.3), None), ((0.47, 0.53, 0.395), GREY), ((0.47, 0.63, 0.39), "white")],
    ids=["surely worse", "perhaps", "not told apart"],
)
def test_signs_are_filled_by_how_sure_they_are(changed: tuple[float, ...], inside: str | None) -> None:
    accuracies = (0.5, 0.6, 0.41)
    rows = [full_run(seed, accuracy) for seed, accuracy in enumerate(accuracies)]
    rows += [full_run(seed, accuracy, **EVICTION) for seed, accuracy in enumerate(changed)]
    axes, (mean,) = signs(rows)
    found = 100 * sum(one - other for one, other in zip(changed, accuracies, strict=True)) / 3
    assert (mean.get_xdata()[0], mean.get_ydata()[0]) == (pytest.approx(found), 0)
    assert same_color(mean.get_markerfacecolor(), inside or mean.get_color())
    assert [label.get_text() for label in axes.get_yticklabels()] == ["row 1: eviction"]


def test_a_single_pair_is_a_diamond_without_a_verdict() -> None:
    axes, means = signs([full_run(1, 0.5), full_run(1, 0.2, **EVICTION)])
    assert means == []
    diamonds = [line for line in axes.get_lines() if line.get_marker() == "D" and len(line.get_xdata())]
    assert [round(float(x), 6) for line in diamonds for x in line.get_xdata()] == [-30]
    assert "one pair of runs each" in axes.get_xlabel()


def test_single_pairs_among_others_are_told_in_the_legend() -> None:
    rows = [full_run(1, 0.5), full_run(2, 0.6), full_run(1, 0.45, **EVICTION), full_run(2, 0.5, **EVICTION)]
    axes, means = signs([*rows, full_run(1, 0.55, options_changed={"standardise_scores": False})])
    assert len(means) == 1
    assert axes.get_xlabel() == "points of last accuracy"
    assert axes.get_legend_handles_labels()[1] == ["not told apart", "one pair"]


def test_a_difference_of_nothing_takes_no_side() -> None:
    axes, _ = signs([full_run(1, 0.5), full_run(1, 0.5, **EVICTION)])
    (diamond,) = (line for line in axes.get_lines() if line.get_marker() == "D" and len(line.get_xdata()))
    assert diamond.get_color() == INK


def test_streams_in_the_order_of_their_files_have_a_sign_of_their_own() -> None:
    rows = [full_run(seed, 0.5, stream=LISTED.format(seed)) for seed in (1, 2)]
    rows += [full_run(seed, 0.4 - seed / 100, stream=LISTED.format(seed), **EVICTION) for seed in (1, 2)]
    axes, (mean,) = signs(rows)
    assert mean.get_marker() == "s"
    assert "files' order" in axes.get_legend_handles_labels()[1]


def test_a_ledger_without_comparisons_is_told() -> None:
    with pytest.raises(DataError, match="no runs of the fidelity ablation"):
        fidelity_drawing([full_run(1, 0.5)])
