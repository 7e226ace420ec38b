"""Tables of ledgers, against figures by hand, the paper's figures and SciPy's own tests."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from puridiver.grid.spec import find_grid, only
from puridiver.grid.table import build, paired
from puridiver.grid.table import latex as latex_of
from tests.grid.samples import row

GRID = find_grid("table1", ["cifar10"])


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def rows_of(method: str, *accuracies: float, **changes: Any) -> list[dict[str, Any]]:
    return [row(seed, accuracy, method=method, **changes) for seed, accuracy in enumerate(accuracies, start=1)]


def test_a_cell_is_mean_and_deviation_over_seeds_beside_the_papers_figure() -> None:
    table = build(rows_of("PuriDivER", 0.50, 0.52, 0.57), GRID)
    (line,) = lines_of(table.to_csv())
    assert float(line["mean"]) == pytest.approx(53.0)
    assert float(line["deviation"]) == pytest.approx(np.std([50, 52, 57], ddof=1), rel=1e-5)
    assert (line["seeds"], line["paper"], line["paper_deviation"]) == ("3", "59.2", "0.3")
    assert "53.0 ± 3.6 (3) [59.2 ± 0.3]" in table.to_text()
    assert "recipe official, memory 500, network resnet18, epochs 255" in table.to_text()


def test_rows_and_columns_are_in_the_order_of_the_grid() -> None:
    rows = [*rows_of("PuriDivER", 0.5), *rows_of("RSV", 0.4), *rows_of("RSV", 0.3, column="cifar10 sym-20")]
    (shown,) = build(rows, GRID).shown.values()
    assert list(shown.columns) == ["method", "sym-20", "sym-40"]
    assert shown["method"].tolist() == ["RSV", "PuriDivER"]
    assert shown.iloc[1, 1] == "-"


def test_other_grids_and_methods_are_left_out_and_changed_grids_shown_apart() -> None:
    rows = [
        *rows_of("RSV", 0.4), *rows_of("RSV", 0.9, grid="table10"), *rows_of("mine", 0.1),
        *rows_of("RSV", 0.2, grid="table1 recipe=paper"),
    ]  # fmt: skip
    table = build(rows, only([GRID], ["RSV"])[0])
    assert [(line["grid"], line["mean"]) for line in lines_of(table.to_csv())] == [
        ("table1", "40"),
        ("table1 recipe=paper", "20"),
    ]
    assert len(table.shown) == 2
    everything = lines_of(build(rows).to_csv())
    assert len(everything) == 4
    assert "rsv + plain  45.0 ± 7.1 (2)" in build(rows_of("rsv + plain", 0.4, 0.5, grid=None)).to_text()
    assert {line["paper"] for line in everything if line["grid"] == "table10"} == {""}


def test_of_two_rows_of_a_cell_and_seed_the_last_counts() -> None:
    (line,) = lines_of(build([row(1, 0.1), row(2, 0.3), row(1, 0.5)], GRID).to_csv())
    assert (line["mean"], line["seeds"]) == ("40", "2")


def test_a_cell_that_mixes_settings_is_told() -> None:
    assert "mix runs of different epochs" in build([row(1), row(2, epochs=63)], GRID).to_text()
    assert "mix" not in build([row(1), row(2)], GRID).to_text()


def test_other_figures_and_runs_that_diverged() -> None:
    rows = [row(1, 0.5, memory_diversity=None), row(2, 0.1, diverged=True, memory_purity=0.7, memory_diversity=2.0)]
    assert "65.0 ± 7.1 (2; 1 diverged)" in build(rows, GRID, "memory_purity").to_text()
    assert "[" not in build(rows, GRID, "memory_purity").to_text()  # the paper's figures are last accuracies
    assert "2.0 (1; 1 diverged)" in build(rows, GRID, "memory_diversity").to_text()
    with pytest.raises(ValueError, match="but got 'speed'"):
        build(rows, GRID, "speed")


def test_markdown_and_latex_have_the_same_cells() -> None:
    table = build([*rows_of("RSV", 0.4, 0.5), *rows_of("RSV + SELFIE", 0.5, 0.6)], GRID)
    assert "| RSV | 45.0 ± 7.1 (2) [39.2 ± 0.9] |" in table.to_markdown()
    latex = table.to_latex()
    assert [line for line in latex.splitlines() if "&" in line] == [
        r"method       & sym-40                                       \\",
        r"RSV          & 45.0 $\pm$ 7.1 (2) [39.2 $\pm$ 0.9]          \\",
        r"RSV + SELFIE & \textbf{55.0 $\pm$ 7.1} (2) [39.2 $\pm$ 1.1] \\",  # the column's best
    ]
    assert r"\begin{tabular}{lr}" in latex
    assert r"\caption{Last accuracy, twelve" in latex  # and not "Table 1: Table 1: ..."
    assert r"last accuracy \%" in latex
    assert r"a\_b \& \textbackslash{}" in latex_of(pd.DataFrame({"method": ["a_b & \\"]}), None, "x")


def test_the_best_is_the_lowest_where_lower_is_better_and_nothing_is_the_best_of_one() -> None:
    rows = [*rows_of("RSV", 0.4, forgetting=0.2), *rows_of("GBS", 0.5, forgetting=0.1)]
    assert r"GBS    & \textbf{10.0} (1)" in build(rows, GRID, "forgetting").to_latex()
    assert "textbf" not in build(rows[:1], GRID).to_latex()


def test_only_what_was_run_is_shown_unless_all_is_wanted() -> None:
    (shown,) = build(rows_of("RSV", 0.4), GRID).shown.values()
    assert shown.shape == (1, 2)
    (shown,) = build(rows_of("RSV", 0.4), GRID, whole=True).shown.values()
    assert shown.shape == (13, 6)
    assert (shown == "-").sum(axis=None) == 13 * 5 - 1


def test_methods_have_the_titles_of_their_classes_unless_a_grid_names_them() -> None:
    names = {"grid": None, "sampler": "rsv", "trainer": "er"}
    rows = [*rows_of("rsv + er", 0.4, 0.5, title="RSV + experience replay", **names)]
    rows += rows_of("rsv + er, epochs=0", 0.3, 0.4, title="RSV + experience replay", **names)
    rows += rows_of("mine", 0.5, 0.6, title="RSV + experience replay", **names)
    (shown,) = build(rows).shown.values()
    assert shown["method"].tolist() == ["RSV + experience replay", "RSV + experience replay, epochs=0", "mine"]
    for against in ("rsv + er", "RSV + experience replay"):
        (compared,) = build(rows, against=against).shown.values()
        assert compared["method"].tolist() == ["RSV + experience replay, epochs=0", "mine"]


def test_a_comparison_is_paired_by_seed_and_corrected_for_all_lines() -> None:
    rng = np.random.default_rng(0)
    base, better, same = (rng.normal(mean, 0.02, 5) for mean in (0.4, 0.5, 0.4))
    rows = [*rows_of("RSV", *base), *rows_of("GBS", *better), *rows_of("RM", *same), *rows_of("PuriDivER", *better[:2])]
    table = build(rows, GRID, against="RSV")
    found = {line["method"]: line for line in lines_of(table.to_csv())}
    expected = [stats.ttest_rel(ours, base[: len(ours)]).pvalue for ours in (better, same, better[:2])]
    corrected = multipletests(expected, method="holm")[1]
    for method, p, holm in zip(("GBS", "RM", "PuriDivER"), expected, corrected, strict=True):
        assert float(found[method]["p"]) == pytest.approx(p, rel=1e-4)
        assert float(found[method]["p_corrected"]) == pytest.approx(holm, rel=1e-4)
    low, high = stats.ttest_rel(better, base).confidence_interval()
    assert [float(found["GBS"][name]) for name in ("low_95", "high_95")] == pytest.approx([100 * low, 100 * high], 1e-4)
    assert found["PuriDivER"]["pairs"] == "2"
    assert "RSV" not in found
    assert "against RSV" in table.to_text()
    with pytest.raises(ValueError, match=r"'RSV', 'GBS'.*but got 'RSVP'"):
        build(rows, GRID, against="RSVP")
    with pytest.raises(ValueError, match="nothing to compare"):
        build(rows_of("RSV", 0.4), GRID, against="RSV")


def test_a_comparison_with_the_paper_is_welchs() -> None:
    ours = [0.57, 0.60, 0.62, 0.61]
    (line,) = lines_of(build(rows_of("PuriDivER", *ours), GRID, against="paper").to_csv())
    percent = 100 * np.array(ours)
    test = stats.ttest_ind_from_stats(percent.mean(), percent.std(ddof=1), 4, 59.2, 0.3, 3, equal_var=False)
    assert float(line["p"]) == pytest.approx(test.pvalue, rel=1e-4)
    assert float(line["difference"]) == pytest.approx(0.8)
    assert float(line["low_95"]) < 0.8 < float(line["high_95"])


@pytest.mark.parametrize(
    ("ours", "p"), [([1.0], np.nan), ([2.0, 3.0], np.nan), ([1.0, 2.0], 1.0)], ids=["one", "alike", "equal"]
)
def test_without_a_spread_p_is_not_known(ours: list[float], p: float) -> None:
    found = paired(pd.DataFrame({"column": "a", "value": ours, "theirs": [1.0, 2.0][: len(ours)]}))
    assert found["p"] == pytest.approx(p, nan_ok=True)
