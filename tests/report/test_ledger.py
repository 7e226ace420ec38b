"""Mistakes in a ledger are told in words, by whatever command reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from puridiver.cli import main
from puridiver.report.ledger import read_rows
from tests.grid.samples import row

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "ledger",
    sorted(set((ROOT / "results").glob("*.jsonl")) - {ROOT / "results" / "audit.jsonl"}),
    ids=lambda path: path.name,
)
def test_the_committed_ledgers_are_good(ledger: Path) -> None:
    assert len(read_rows(ledger)) == len(ledger.read_text().splitlines())


@pytest.mark.parametrize("words", [["table"], ["table", "table1"], ["table", "table1", "--long"]])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({name: value for name, value in row().items() if name != "shortened"}, "it lacks shortened"),
        ({}, "it lacks data, stream"),
        (row(1, last_accuracy=None), "last_accuracy should be int or float, but is None"),
        (row(1, options_changed=[]), "options_changed should be dict"),
        (row(1, last_accuracy=float("nan")), "last_accuracy should have finite numbers, but has nan"),
        (row(1, task_accuracy=[0.5, "0.6"]), "task_accuracy should have finite numbers, but has '0.6'"),
        (row(1, versions="2.13"), "versions should be dict, but is '2.13'"),
        (row(1, memory_diversity="3"), "memory_diversity should be int or float or null, but is '3'"),
        (row(1, noise_rate=40), "noise_rate should be from 0 to 1, but is 40"),
    ],
)
def test_a_line_that_is_no_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], line: Any, message: str
) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(f"{json.dumps(row())}\n\n{json.dumps(line)}\n")
    command, *rest = words
    assert main([command, *rest[:1], str(ledger), *rest[1:]]) == 2
    error = capsys.readouterr().err
    assert f"{ledger}, line 3, is not the row of a finished run: {message}" in error


@pytest.mark.parametrize("line", ["null", "3", "[]"])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(f"{json.dumps(row())}\n\n{line}\n")
    assert main(["table", str(ledger)]) == 2
    assert f"{ledger}, line 3, should be a JSON object" in capsys.readouterr().err


def test_a_grid_and_a_report_tell_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cells" / "one").mkdir(parents=True)
    (tmp_path / "ledger.jsonl").write_text("{}\n")
    for words in (["grid", "table3", "--data", "digits", "--dry-run", "--out"], ["report"], ["plot"]):
        assert main([*words, str(tmp_path)]) == 2
        assert "ledger.jsonl, line 1, is not the row of a finished run" in capsys.readouterr().err
