"""Methods of a grid against one of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

from puridiver.cli import main
from puridiver.grid.against import CSV_HEADINGS
from puridiver.grid.against import against as compared_against
from puridiver.grid.define import read_grid
from puridiver.grid.measures import METRICS
from tests.grid.samples import row

GRID = """
[grid]
methods = ["rsv+plain", "puridiver+puridiver"]
data = ["digits"]
streams = ["blurry-10"]
noises = ["sym-20", "sym-40"]
seeds = [0, 1, 2]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(GRID)
    return path


def against(*words: Any) -> tuple[list[tuple[str, ...]], list[str]]:
    """As people read it."""
    lines, notes = compared_against(*words)
    return [line.text() for line in lines], notes


def runs_of(sampler: str, figures: dict[int, float], **changes: Any) -> list[dict[str, Any]]:
    trainer = "plain" if sampler == "rsv" else "puridiver"
    told = {"data": "digits", "stream": "blurry-10", "sampler": sampler, "trainer": trainer, "memory": 100}
    return [row(seed, figure, **{**told, **changes}) for seed, figure in figures.items()]


def test_a_difference_is_of_the_seeds_that_both_have(grid: Path) -> None:
    rows = runs_of("rsv", {0: 0.60, 1: 0.62, 2: 0.61}) + runs_of("puridiver", {0: 0.90, 1: 0.95, 5: 0.1})
    lines, notes = against(read_grid(grid), rows, "RSV+plain")
    found = {line[2]: line[4:] for line in lines}
    assert [line[3] for line in lines] == ["puridiver + puridiver"] * 2
    test = scipy.stats.ttest_rel([90, 95], [60, 62])
    low, high = test.confidence_interval()
    assert found["sym-40"] == (
        "2", "92.50", "61.00", "+31.50 ± 1.50", f"{low:+.2f} to {high:+.2f}",
        f"{test.pvalue:.3f}", f"{test.pvalue:.3f}",
    )  # fmt: skip
    assert found["sym-20"] == ("0", "-", "-", "-", "-", "-", "-")
    assert notes[1].startswith("last accuracy %: each method against rsv + plain")


def test_runs_that_diverged_are_counted_of_the_seeds_that_both_have(grid: Path) -> None:
    lost = runs_of("puridiver", {0: 0.1, 1: 0.2, 5: 0.1}, diverged=True)
    lines, notes = against(read_grid(grid), runs_of("rsv", {0: 0.60, 1: 0.62}) + lost, "rsv + plain")
    assert lines[1][5:7] == ("15.00 (2 diverged)", "61.00")
    assert any(note.startswith("diverged: runs whose network predicts nan") for note in notes)


def test_all_columns_together_have_one_spread_of_seeds(grid: Path) -> None:
    """Each column counts alike, however many seeds it has; two that agree by chance do not count as certain."""
    rows = [
        *runs_of("rsv", {0: 0.60, 1: 0.60, 2: 0.60}),
        *runs_of("puridiver", {0: 0.61, 1: 0.65, 2: 0.69}),
        *runs_of("rsv", {0: 0.70, 1: 0.72}, noise_rate=0.2),
        *runs_of("puridiver", {0: 0.72, 1: 0.74}, noise_rate=0.2),
    ]
    *_, line = against(read_grid(grid), rows, "rsv + plain")[0]
    error = ((16 + 16) / 3 * (1 / 3 + 1 / 2)) ** 0.5 / 2
    reach = error * scipy.stats.t.ppf(0.975, 3)
    p = 2 * scipy.stats.t.sf(3.5 / error, 3)
    assert line[2:4] == ("all 2", "puridiver + puridiver")
    assert line[4:8] == ("5", "69.00", "65.50", f"+3.50 ± {error:.2f}")
    assert line[8:] == (f"{3.5 - reach:+.2f} to {3.5 + reach:+.2f}", f"{p:.3f}", f"{p:.3f}")


def test_p_is_corrected_for_the_number_of_lines_of_single_noises(grid: Path) -> None:
    rows = [
        *runs_of("rsv", {0: 0.60, 1: 0.60, 2: 0.60}),
        *runs_of("puridiver", {0: 0.61, 1: 0.65, 2: 0.69}),
        *runs_of("rsv", {0: 0.70, 1: 0.72, 2: 0.71}, noise_rate=0.2),
        *runs_of("puridiver", {0: 0.72, 1: 0.75, 2: 0.72}, noise_rate=0.2),
    ]
    lines, notes = compared_against(read_grid(grid), rows, "rsv + plain")
    first, second, both = (dict(zip(CSV_HEADINGS, line.numbers(), strict=True)) for line in lines)
    smaller, larger = sorted((first, second), key=lambda line: float(line["p"]))
    assert float(smaller["p_corrected"]) == pytest.approx(2 * float(smaller["p"]), rel=1e-4)
    assert float(larger["p_corrected"]) == pytest.approx(
        max(float(larger["p"]), float(smaller["p_corrected"])), rel=1e-4
    )
    assert both["p_corrected"] == both["p"]  # the only line of its kind
    (told,) = (note for note in notes if "(Holm)" in note)
    assert told.endswith("all lines of single noises together, of every noise, stream and data (Holm)")
    assert "that of the lines all N: for the number of these lines alone" in notes


def test_programs_get_numbers(grid: Path) -> None:
    rows = runs_of("rsv", {0: 0.60, 1: 0.62}) + runs_of("puridiver", {0: 0.90, 1: 0.95})
    lines, _ = compared_against(read_grid(grid), rows, "rsv + plain")
    found = {line.where[2]: dict(zip(CSV_HEADINGS, line.numbers(), strict=True)) for line in lines}
    test = scipy.stats.ttest_rel([90, 95], [60, 62])
    low, high = test.confidence_interval()
    expected = {"mean": 92.5, "against": 61, "difference": 31.5, "standard_error": 1.5, "low_95": low, "high_95": high}
    for name, value in {**expected, "p": test.pvalue}.items():
        assert float(found["sym-40"][name]) == pytest.approx(value, rel=1e-4), name
    where = {"digits", "blurry-10", "sym-20", "puridiver + puridiver"}
    assert set(found["sym-20"].values()) == {*where, "last accuracy %", "0", ""}


@pytest.mark.parametrize("name", METRICS)
def test_programs_are_told_which_figure_was_compared(grid: Path, name: str) -> None:
    rows = [row for sampler in ("rsv", "puridiver") for row in runs_of(sampler, {0: 0.6}, **{METRICS[name].field: 0.5})]
    lines, _ = compared_against(read_grid(grid), rows, "rsv + plain", name)
    told = [dict(zip(CSV_HEADINGS, line.numbers(), strict=True))["metric"] for line in lines]
    assert told == [METRICS[name].heading] * 2  # of what was not run, too


def test_single_seeds_under_several_noises_have_a_mean_and_no_error(grid: Path) -> None:
    rows = [
        *runs_of("rsv", {0: 0.60}), *runs_of("puridiver", {0: 0.61}),
        *runs_of("rsv", {0: 0.70}, noise_rate=0.2), *runs_of("puridiver", {0: 0.72}, noise_rate=0.2),
    ]  # fmt: skip
    *_, line = against(read_grid(grid), rows, "rsv + plain")[0]
    assert line[4:] == ("2", "66.50", "65.00", "+1.50 ± -", "-", "-", "-")


def test_other_figures_can_be_compared(grid: Path) -> None:
    for name, metric in METRICS.items():
        rows = runs_of("rsv", {0: 0.6}, **{metric.field: 0.5}) + runs_of("puridiver", {0: 0.9}, **{metric.field: 0.75})
        (_, line), _ = against(read_grid(grid), rows, "rsv + plain", name)
        assert line[7] == f"{metric.scale / 4:+.2f} ± -"


def test_the_command_prints_it_and_says_what_it_needs(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    rows = runs_of("rsv", {0: 0.60, 1: 0.62}) + runs_of("puridiver", {0: 0.90, 1: 0.95})
    ledger.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    words = ["table", str(grid), str(ledger), "--against", "rsv + plain"]
    assert main([*words, "--noises", "sym40", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert ",2,92.5,61,31.5,1.5," in lines[1]
    assert main([*words, "--noises", "sym40"]) == 0
    assert "+31.50 ± 1.50" in capsys.readouterr().out
    assert main([*words[:-1], "nobody"]) == 2
    assert "there is no method 'nobody' in the grid; its methods are 'rsv + plain'" in capsys.readouterr().err
    assert main([*words, "--long"]) == 2
    assert main(["table", str(ledger), "--against", "rsv + plain"]) == 2
    assert "--against needs a preset's name or a grid file" in capsys.readouterr().err
    assert main(["table", str(grid), str(ledger), "--noises", "sym-30"]) == 2
    assert "its noises are sym-20, sym-40" in capsys.readouterr().err
    assert main(["table", str(grid), str(ledger), "--methods", "rsv+plain"]) == 0
    assert "puridiver + puridiver" not in capsys.readouterr().out


def test_a_grid_can_be_cut_to_some_noises(grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", str(grid), "--noises", "sym-40", "--dry-run", "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "6 cells" in told
    assert "sym-20" not in told


def test_the_sign_for_nothing_to_show_does_not_read_as_a_list(grid: Path) -> None:
    _, notes = against(read_grid(grid), [], "rsv + plain")
    assert not any(note.startswith("- ") or ", and - " in note for note in notes)
