"""The long table: every cell with every figure, worked out by hand from a small ledger."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from puridiver.cli import main
from puridiver.grid.cells import Column, Method
from puridiver.grid.define import find_grid
from puridiver.grid.detail import HEADINGS, cell_line, detail
from tests.grid.samples import row


def cell(lines: list[tuple[str, ...]], method: str, noise: str) -> dict[str, str]:
    (found,) = (line for line in lines if line[2:4] == (method, noise))
    return dict(zip(HEADINGS, found, strict=True))


def ledger_rows() -> list[dict[str, Any]]:
    figures = {"memory_diversity": 3.0, "device": "a GPU", "lanes": 8, "seconds": 100.0}
    return [
        row(1, 0.50, **figures, best_epoch_accuracy=0.52),
        row(2, 0.60, **{**figures, "memory_diversity": 4.0, "seconds": 300.0}, best_epoch_accuracy=0.60),
    ]


def test_a_cell_has_all_its_figures() -> None:
    lines, notes = detail(find_grid("table1", ["cifar10"]), ledger_rows())
    assert cell(lines, "PuriDivER", "sym-40") == {
        "data": "CIFAR-10", "stream": "blurry-10", "method": "PuriDivER", "noise": "sym-40",
        "last accuracy %": "55.0 ± 7.1", "seeds": "2", "best epoch %": "56.0 ± 5.7", "paper %": "59.2 ± 0.3",
        "rerun, last epoch %": "57.1 ± 1.9 (3)", "average %": "50.0 ± 0.0", "anytime %": "-", "forgetting": "-",
        "purity %": "60.0 ± 0.0", "diversity": "3.50", "seconds": "200.0 (of 8)", "device": "a GPU",
    }  # fmt: skip
    assert notes[0].startswith(
        "shown: CIFAR-10, blurry-10, 5 tasks, memory 500, resnet18, 255 epochs, recipe puridiver"
    )
    assert any("best epoch" in note and "not a fair figure" in note for note in notes)


def test_a_cell_that_was_not_run_is_shown_as_such() -> None:
    lines, _ = detail(find_grid("table1", ["cifar10"]), ledger_rows())
    found = cell(lines, "RM + DivideMix", "sym-60")
    assert (found["last accuracy %"], found["seeds"], found["paper %"], found["device"]) == (
        "-",
        "0",
        "34.9 ± 3.1",
        "-",
    )
    assert len(lines) == 13 * 5


def test_what_was_not_measured_is_left_open() -> None:
    lines, _ = detail(find_grid("table1", ["cifar10"]), [row(1, 0.5), row(2, 0.5, lanes=4)])
    found = cell(lines, "PuriDivER", "sym-40")
    assert (found["best epoch %"], found["diversity"]) == ("-", "-")
    assert found["seconds"] == "-"  # one run had the device to itself and the other had not


@pytest.mark.parametrize("form", ["text", "markdown", "csv", "latex"])
def test_every_format_has_every_cell(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("".join(json.dumps(entry) + "\n" for entry in ledger_rows()))
    assert main(["table", "table1", str(ledger), "--data", "cifar10", "--long", "--format", form]) == 0
    text = capsys.readouterr().out
    assert text.count("CIFAR-10") == 65 + (form != "csv")  # and what is shown
    assert "55.0" in text


def test_programs_get_numbers_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*ledger_rows(), row(1, 0.4, sampler="rsv", trainer="plain", device="a GPU", diverged=True)]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in rows))
    words = ["--data", "cifar10", "--long", "--format", "csv"]
    assert main(["table", "table1", str(tmp_path / "ledger.jsonl"), *words]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    found = {line["method"]: line for line in lines if line["noise"] == "sym-40"}
    mine = found["PuriDivER"]
    assert (mine["last accuracy %"], mine["last accuracy standard deviation"]) == ("55.000", "7.071")
    assert (mine["best epoch %"], mine["best epoch seeds"], mine["diversity"]) == ("56.000", "2", "3.500")
    assert [mine[name] for name in ("paper %", "paper standard deviation", "rerun, last epoch %", "rerun seeds")] == [
        "59.2", "0.3", "57.1", "3",
    ]  # fmt: skip
    assert (mine["seeds"], mine["seconds"], mine["lanes"], mine["diverged"]) == ("2", "200.0", "8", "0")
    assert (found["RSV"]["diverged"], found["RSV"]["last accuracy standard deviation"]) == ("1", "")
    assert (found["RM"]["seeds"], found["RM"]["last accuracy %"], found["RM"]["seconds"]) == ("0", "", "")
    assert not any("±" in cell or cell == "-" for line in lines for cell in line.values())


def test_a_ledger_alone_has_no_long_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(json.dumps(row()) + "\n")
    assert main(["table", str(ledger), "--long"]) == 2
    assert "--long needs a preset's name" in capsys.readouterr().err


def test_a_best_epoch_of_some_seeds_stands_beside_the_last_of_the_same() -> None:
    method, column = Method("PuriDivER", "puridiver", "puridiver"), Column("digits", "blurry-10", "sym-40", (1, 2))
    rows = [row(1, 0.50, best_epoch_accuracy=0.52), row(2, 0.60)]
    found = dict(zip(HEADINGS, cell_line("", method, column, rows), strict=True))
    assert found["best epoch %"] == "52.0 (1; last 50.0)"


def test_runs_that_diverged_are_counted() -> None:
    lines, notes = detail(find_grid("table1", ["cifar10"]), [row(1, 0.5), row(2, 0.1, diverged=True)])
    assert cell(lines, "PuriDivER", "sym-40")["last accuracy %"] == "30.0 ± 28.3 (1 diverged)"
    assert any(note.startswith("diverged: runs whose network predicts nan") for note in notes)
    _, notes = detail(find_grid("table1", ["cifar10"]), [row(1, 0.5)])
    assert not any("diverged" in note for note in notes)
