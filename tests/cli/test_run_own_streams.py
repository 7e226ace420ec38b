"""Runs and grids on streams of one's own making: label noise by a transition matrix, long-tailed classes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from puridiver.cli import main
from puridiver.report.reading import grouped, read_run
from puridiver.runs.folder import read_ledger

TINY = (
    "--tasks", "2", "--memory", "20", "--device", "cpu", "--epochs", "1", "--stream-limit", "32", "--test-limit", "50",
    "--no-diversity", "--quiet", "--json",
)  # fmt: skip
GRID = """[grid]
noises = ["matrix:a/T.npy", "matrix:b/T.npy"]
methods = ["rsv+plain"]
tasks = 2
memory = 20
epochs = 1
diversity = false
anytime_points = 1
device = "cpu"
"""


def save(folder: Path, share: float) -> Path:
    folder.mkdir()
    np.save(folder / "T.npy", np.eye(10) * (1 - share) + share / 10)
    return folder / "T.npy"


def test_a_row_of_the_ledger_has_the_matrix_and_the_command(tmp_path: Path) -> None:
    file, ledger = save(tmp_path / "a", 0.4), tmp_path / "ledger.jsonl"
    assert main(["run", *TINY, "--noise", f"matrix:{file}", "--ledger", str(ledger)]) == 0
    (row,) = read_ledger(ledger)
    assert np.array_equal(row["noise_matrix"], np.load(file))
    assert "--noise matrix:T.npy" in row["command"]
    assert row["noise"].startswith("matrix:")
    assert row["stream_noise"] == pytest.approx(0.36, abs=0.01)


def test_a_run_is_resumed_from_any_folder_and_not_with_another_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "a", 0.4)
    other = save(tmp_path / "b", 0.6)
    monkeypatch.chdir(tmp_path / "a")
    out = str(tmp_path / "run")
    assert main(["run", *TINY, "--noise", "matrix:T.npy", "--out", out]) == 0
    first = json.loads(capsys.readouterr().out)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--out", out, "--resume", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert main(["run", "--out", out, "--resume", "--noise", f"matrix:{other}"]) == 2
    assert "another stream" in capsys.readouterr().err


def test_two_matrices_of_one_name_are_two_columns_of_a_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, share in (("a", 0.2), ("b", 0.6)):
        save(tmp_path / folder, share)
    (tmp_path / "mine.toml").write_text(GRID)
    assert main(["grid", "mine.toml", "--out", "runs", "--engine", "lanes", "--lanes", "1", "--quiet"]) == 0
    rows = read_ledger(tmp_path / "runs" / "ledger.jsonl")
    assert len({row["cell"] for row in rows}) == len({row["settings_hash"] for row in rows}) == 2
    capsys.readouterr()
    assert main(["table", "mine.toml", "runs", "--format", "csv"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rsv")]
    for line, row in zip(lines, sorted(rows, key=lambda row: row["stream_noise"]), strict=True):
        assert f",{100 * row['last_accuracy']:.3f}," in line


def test_a_long_tailed_run_tells_so_and_its_row_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # so that no cell of the summary is broken into lines
    ledger = tmp_path / "ledger.jsonl"
    words = [word for word in TINY if word != "--json"]
    for more in ([], ["--imbalance", "0.2"]):
        assert main(["run", *words, *more, "--ledger", str(ledger), "--out", str(tmp_path / f"run{len(more)}")]) == 0
    assert "blurry-10, imbalance 0.2" in capsys.readouterr().out
    balanced, tailed = read_ledger(ledger)
    assert "imbalance" not in balanced
    assert tailed["imbalance"] == 0.2
    assert "--imbalance 0.2" in tailed["command"]
    assert main(["table", str(ledger), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["imbalance 1" in lines[1], "imbalance 0.2" in lines[2]] == [True, True]
    runs = [read_run(tmp_path / f"run{number}") for number in (0, 2)]
    assert [group.label.count("imbalance 0.2") for group in grouped(runs)] == [0, 1]
