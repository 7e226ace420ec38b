"""Table 4 as a picture: that it shows the runs and the paper's figures, and says when there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.grid.page.page import alpha_drawing
from tests.grid.page.samples import full_run, write_ledger


def static(alpha: float, seed: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    return full_run(seed, accuracy, options_changed={"alpha": alpha}, **changes)


def numbers(rows: list[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    picture = alpha_drawing(rows)
    assert picture.headings == ("noise", "figure", "0.1", "0.3", "0.5", "0.6", "1", "adaptive")
    return {(noise, figure): list(values) for noise, figure, *values in picture.rows}


def test_runs_stand_beside_the_papers_figures_and_the_adaptive_alpha_of_the_same_seeds() -> None:
    rows = [static(0.3, 1, 0.55), static(0.3, 2, 0.57), static(0.6, 1, 0.25, memory_purity=0.4)]
    found = numbers([*rows, full_run(1, 0.60), full_run(2, 0.62), full_run(3, 0.99)])
    assert found["sym-40", "last accuracy %"] == ["-", "55.00 57.00", "-", "25.00", "-", "60.00 62.00"]
    assert found["sym-40", "memory purity %"][3] == "40.00"
    assert found["sym-40", "the paper's accuracy %"] == ["55.1", "55.3", "57.0", "30.3", "19.4", "59.2"]
    assert found["sym-60", "last accuracy %"] == ["-"] * 6


def test_runs_in_the_order_of_the_files_are_no_part_of_it() -> None:
    listed = static(0.1, 1, 0.2, stream="official:sym40:1:listed")
    assert numbers([static(0.3, 1, 0.55), listed])["sym-40", "last accuracy %"][0] == "-"


def test_a_panel_for_each_noise_and_one_of_purity() -> None:
    rows = [static(0.3, seed, 0.5 + seed / 100) for seed in (1, 2)] + [static(0.5, 1, 0.4), full_run(1, 0.6)]
    panels = alpha_drawing(rows).panels
    noises = [panel.title.partition(":")[0] for panel in panels[:-1]]
    assert noises == ["sym-20", "sym-40", "sym-60", "asym-20", "asym-40"]
    axes = Figure().add_subplot()
    panels[1].paint(axes)
    lines = {line.get_label(): line for line in axes.lines}
    assert list(zip(*lines["ours"].get_data(), strict=True)) == [(0.3, pytest.approx(51.5)), (0.5, 40.0)]
    assert lines["ours, adaptive"].get_ydata()[0] == 60.0
    assert lines["the paper's"].get_ydata()[1] == 55.3
    panels[-1].paint(axes)


def test_without_a_static_alpha_there_is_nothing_to_draw() -> None:
    with pytest.raises(DataError, match="no runs of Table 4"):
        alpha_drawing([full_run(1, 0.5)])


def test_the_command_draws_it_and_checks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = write_ledger(tmp_path / "runs.jsonl", [static(0.3, 1, 0.5)])
    command = ["results", str(ledger), "--alpha-picture", str(tmp_path / "alpha.png")]
    assert main(command) == 0
    assert main([*command, "--check"]) == 0
    write_ledger(ledger, [static(0.3, 1, 0.4)])
    assert main([*command, "--check"]) == 1
    assert "alpha.png does not show" in capsys.readouterr().err
