"""`puridiver grid` and `puridiver table`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.runs.ledger import append_row, read_lines
from tests.cli.conftest import TINY
from tests.grid.samples import row

FILE = """[grid]
methods = ["rsv+plain", {title = "PuriDivER [/b]", sampler = "puridiver", trainer = "puridiver"}]
noises = ["sym-20", "sym-40"]
seeds = [0, 1]
tasks = 2
memory = 12
epochs = 1
diversity = false
anytime_points = 1
stream_limit = 8
test_limit = 20
device = "cpu"
"""
LANES = ("--engine", "lanes", "--workers", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a grid file, mine.toml, and its finished runs of one seed, out."""
    folder = tmp_path_factory.mktemp("grid")
    (folder / "mine.toml").write_text(FILE)
    words = ["--out", str(folder / "out"), *LANES, "--seeds", "0", "--quiet"]
    assert main(["grid", str(folder / "mine.toml"), *words]) == 0
    return folder


@pytest.mark.parametrize("command", ["grid", "figure"])
def test_the_presets_are_listed(command, capsys):
    assert main([command, "--list"]) == 0
    assert "figure-tasks" in capsys.readouterr().out


def test_a_grid_goes_on_where_it_was(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(FILE)
    words = ["grid", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "out"), *LANES, "--noises", "sym-40"]
    assert main([*words, "--dry-run"]) == 0
    assert "4 runs: 0 done, 4 to run" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
    assert main([*words, "--limit", "1"]) == 0
    assert "[1/1] digits-sym-40-rsv-plain-s0" in capsys.readouterr().err
    assert main([*words, "--seeds", "0,1", "--methods", "rsv + plain"]) == 0
    shown = capsys.readouterr()
    assert "2 runs: 1 done, 1 to run" in shown.err
    assert "(2)" in shown.out
    assert len(read_lines(tmp_path / "out" / "ledger.jsonl")) == 2


def test_failures_and_interrupts_have_their_exit_codes(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text(FILE)
    words = ["grid", str(tmp_path / "mine.toml"), "--seeds", "0", "--noises", "sym-40", *LANES]

    def fail(*anything: object) -> None:
        raise ValueError("odd")

    def stop(*anything: object) -> None:
        raise KeyboardInterrupt

    for place, act, code, message in (
        ("puridiver.learner.learner.Learner.observe", fail, 1, "failures.jsonl has the tracebacks"),
        ("puridiver.grid.engines.LaneEngine.run", stop, 130, "To go on:\n  puridiver grid"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, act)
            assert main([*words, "--out", str(tmp_path / "out")]) == code
        assert message in capsys.readouterr().err


# Tables ------------------------------------------------------------------------------------------------------------


def test_a_table_of_a_grid_and_of_its_folder_alone(made, capsys):
    for words in (["--format", "markdown"], ["--format", "latex"], ["--metric", "memory_purity"]):
        shown = []
        for places in ([str(made / "mine.toml"), str(made / "out")], [str(made / "out")]):
            assert main(["table", *places, *words]) == 0
            shown.append(capsys.readouterr().out)
        assert all("PuriDivER [/b]" in text for text in shown)


def test_a_table_against_a_method_and_a_part_of_it(made, capsys):
    words = ["table", str(made / "mine.toml"), str(made / "out"), "--noises", "sym-40"]
    assert main([*words, "--against", "rsv + plain"]) == 0
    shown = capsys.readouterr().out
    assert "sym-40" in shown
    assert "sym-20" not in shown


def test_runs_of_a_ledger_and_of_a_folder_without_a_grid(finished_run, tmp_path, capsys):
    ledger = str(tmp_path / "l.jsonl")
    assert main(["run", *TINY, "--quiet", "--seed", "1", "--ledger", ledger]) == 0
    capsys.readouterr()
    assert main(["table", ledger, str(finished_run), "--format", "csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (line["method"], line["seeds"]) == ("puridiver + puridiver", "2")


def test_a_table_needs_no_plugin_of_its_grid(tmp_path, capsys, forgotten_plugins):
    (tmp_path / "mine.toml").write_text(
        FILE.replace('"rsv+plain"', '"rsv+plain", {sampler="mine", trainer="plain", options={own=1}}')
    )
    rows = [row(1, 0.4, grid="mine", method="mine + plain, own=1", column="digits sym-40", data="digits")]
    append_row(tmp_path / "ledger.jsonl", rows[0])
    assert main(["table", str(tmp_path / "mine.toml"), str(tmp_path / "ledger.jsonl")]) == 0
    assert "mine + plain, own=1  40.0 (1)" in capsys.readouterr().out
    assert main(["table", str(tmp_path / "mine.toml"), str(tmp_path / "ledger.jsonl"), "--all"]) == 0
    assert "sym-20" in capsys.readouterr().out
    assert main(["grid", str(tmp_path / "mine.toml"), "--dry-run"]) == 2
    assert "but got 'mine'" in capsys.readouterr().err
