"""`puridiver grid`, `table PRESET` and `figure` from the command line."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.grid.cells import Method
from puridiver.grid.define import read_grid
from puridiver.grid.folder import GridFolder
from puridiver.grid.presets import PRESETS
from puridiver.report.reading import find_runs, grouped
from puridiver.report.titles import Title, read_titles
from puridiver.runs.folder import read_ledger
from tests.grid.samples import TINY, planned_cells, row, small_grid

FILE = """
[grid]
methods = ["rsv+plain", "gbs+plain"]
seeds = [1, 2]
"""
SETTINGS = "".join(f"{name} = {json.dumps(value)}\n" for name, value in TINY.items())


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    """The small grid of the tests as a file: four runs, a second of work."""
    path = tmp_path / "small.toml"
    path.write_text(FILE + SETTINGS)
    return path


def grid(path: Path, out: Path, *more: str) -> int:
    return main(["grid", str(path), "--out", str(out), "--engine", "lanes", "--lanes", "1", *more])


def test_several_grids_run_as_one_and_a_run_of_both_once(
    grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, out = tmp_path / "other.toml", tmp_path / "out"
    whole = "\n".join(line for line in SETTINGS.splitlines() if "limit" not in line)  # for shortened runs have no table
    grid_file.write_text(FILE + whole)
    other.write_text(FILE.replace("gbs+plain", "gbs+selfie") + whole)
    more = ["--out", str(out), "--engine", "lanes", "--lanes", "1", "--seeds", "1"]
    assert main(["grid", str(grid_file), str(other), *more]) == 0
    found = capsys.readouterr()
    assert "0 cells are done, 3 to run" in found.err
    small, second = found.out.split("other\n")
    assert small.startswith("small\n")
    assert [line.partition("  ")[0] for line in small.splitlines() if " + " in line] == ["rsv + plain", "gbs + plain"]
    assert [line.partition("  ")[0] for line in second.splitlines() if " + " in line] == ["rsv + plain", "gbs + selfie"]
    assert len(read_ledger(out / "ledger.jsonl")) == 3


def test_each_table_has_the_seeds_of_its_own_grid(
    grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    whole = "\n".join(line for line in SETTINGS.splitlines() if "limit" not in line)
    grid_file.write_text(FILE.replace(', "gbs+plain"', "") + whole)
    other.write_text(FILE.replace(', "gbs+plain"', "").replace("[1, 2]", "[1]") + whole)
    more = ["--out", str(tmp_path / "out"), "--engine", "lanes", "--lanes", "1"]
    assert main(["grid", str(grid_file), str(other), *more]) == 0
    two, one = (line for line in capsys.readouterr().out.splitlines() if line.startswith("rsv + plain"))
    assert "(2)" in two
    assert "(1)" in one


def test_some_rows_of_a_grid(grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for title in ("gbs + plain", "GBS+plain"):
        assert grid(grid_file, tmp_path / "out", "--methods", title, "--dry-run") == 0
        assert capsys.readouterr().out.count("to run  ") == 2
    assert grid(grid_file, tmp_path / "out", "--methods", "gbs + plane") == 2
    assert "there is no method 'gbs + plane' in the grid; its methods are 'rsv + plain', 'gbs + plain'" in (
        capsys.readouterr().err
    )


def test_from_nothing_to_rows_and_the_second_time_nothing_is_left(
    grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert grid(grid_file, out, "--limit", "3") == 0
    errors = capsys.readouterr().err
    assert "0 cells are done, 3 to run" in errors
    assert "[3/3] digits-blurry-10-sym-40-" in errors
    assert grid(grid_file, out, "--dry-run") == 0
    plan = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in plan[:4]] == ["done", "done", "done", "to"]
    assert plan[4].startswith("4 cells: 3 done, 0 failed, 1 to run, 1 at a time, about ")
    assert grid(grid_file, out) == 0
    assert "3 cells are done, 1 to run, about" in capsys.readouterr().err
    before = (out / "ledger.jsonl").read_bytes()
    assert grid(grid_file, out) == 0
    assert "4 cells are done, 0 to run" in capsys.readouterr().err
    assert (out / "ledger.jsonl").read_bytes() == before
    assert sorted(found["cell"] for found in read_ledger(out / "ledger.jsonl")) == sorted(
        p.key for p in planned_cells(small_grid())
    )


def test_the_report_calls_methods_as_the_grid_does(tmp_path: Path) -> None:
    held = '{sampler = "puridiver", trainer = "puridiver", title = "Balance, held", options = {alpha = 0.3}}'
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(f'[grid]\nmethods = ["rsv+plain", {held}]\nseeds = [1]\n{SETTINGS}')
    assert grid(path, out) == 0
    assert sorted(group.label for group in grouped(find_runs([out])[0])) == ["Balance, held", "rsv + plain"]
    # Another title of the same run takes the place of the first, and runs nothing again.
    path.write_text(path.read_text().replace("Balance, held", "alpha 0.3"))
    assert grid(path, out) == 0
    assert sorted(group.label for group in grouped(find_runs([out])[0])) == ["alpha 0.3", "rsv + plain"]
    assert len(read_ledger(out / "ledger.jsonl")) == 2


def test_a_title_stands_for_the_methods_own_recipe(tmp_path: Path) -> None:
    as_printed = '{sampler = "rsv", trainer = "plain", title = "RSV as printed", recipe = "paper", tell_noise = true}'
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(f'[grid]\nmethods = ["rsv+plain", {as_printed}]\nseeds = [1]\n{SETTINGS}')
    assert grid(path, out) == 0
    assert {row["recipe"] for row in read_ledger(out / "ledger.jsonl")} == {"puridiver", "paper"}
    assert sorted(group.label for group in grouped(find_runs([out])[0])) == ["RSV as printed", "rsv + plain"]


def test_what_does_not_reach_a_method_is_told_and_titles_stay(tmp_path: Path, capsys) -> None:
    released = '{sampler = "rsv", trainer = "plain", title = "released", recipe = "official", options = {lr = 0.1}}'
    usual = '{sampler = "rsv", trainer = "plain", title = "usual", options = {lr = 0.1}}'
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(f"[grid]\nmethods = [{usual}, {released}]\nseeds = [1]\n{SETTINGS}")
    assert grid(path, out) == 0
    capsys.readouterr()
    words = ["grid", str(path), "--out", str(out), "--engine", "lanes", "--recipe", "official", "--set", "lr=0.2"]
    assert main(words) == 0
    told = capsys.readouterr().err
    assert "--recipe does not reach released: what is a method's own goes first" in told
    assert "--set lr does not reach usual, released" in told
    assert "usual and released are the same runs" in told
    assert "shortened runs enter no table of a grid" in told
    assert sorted(title.text for title in read_titles(out).values()) == ["released", "usual"]


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_titles_of_one_run_the_one_that_says_more_stays_in_whatever_order(turned: bool, tmp_path: Path) -> None:
    methods = [Method("usual", "rsv", "plain"), Method("released", "rsv", "plain", settings={"recipe": "official"})]
    usual, released = (planned_cells(small_grid([method], (1,), recipe="official")) for method in methods)
    both = [*released, *usual] if turned else [*usual, *released]
    one = {p.key: {"cell": "the run"} for p in both}
    folder = GridFolder(tmp_path)
    folder.keep_titles(both, one, {"usual", "released"})
    assert [title.text for title in read_titles(tmp_path).values()] == ["released"]
    folder.keep_titles(usual, one, {"usual", "released"})
    assert [title.text for title in read_titles(tmp_path).values()] == ["released"]
    folder.keep_titles(usual, one, {"usual"})  # the other is no method of the grid any more
    assert [title.text for title in read_titles(tmp_path).values()] == ["usual"]


def test_titles_of_runs_of_other_code_are_kept_too(tmp_path: Path) -> None:
    folder, (first, *_) = GridFolder(tmp_path), planned_cells(small_grid())
    folder.keep_titles([first], {first.key: {"cell": "of other code"}})
    assert read_titles(tmp_path) == {"of other code": Title("RSV")}


def test_a_dry_run_of_nothing_writes_nothing(
    grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grid(grid_file, tmp_path / "out", "--dry-run") == 0
    assert "4 cells: 0 done, 0 failed, 4 to run, 1 at a time, time unknown" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_folder_in_use_names_the_process(grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with GridFolder(tmp_path / "out").locked():
        assert grid(grid_file, tmp_path / "out") == 2
    assert f"in use by another grid, process {os.getpid()}" in capsys.readouterr().err


def test_failures_are_listed_and_the_exit_code_is_1(
    grid_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    # A file where the first cell's run folder should be, so that this cell alone fails.
    blocked = GridFolder(out).cell_folder(planned_cells(read_grid(grid_file))[0])
    blocked.parent.mkdir(parents=True)
    blocked.write_text("")
    assert grid(grid_file, out) == 1
    errors = capsys.readouterr().err
    assert "is a file" in errors
    assert f"tracebacks: {out}/failures.jsonl" in errors
    assert len(read_ledger(out / "failures.jsonl")) == 1
    assert len(read_ledger(out / "ledger.jsonl")) == 3
    assert grid(grid_file, out) == 1
    assert "3 cells are done, 0 to run" in capsys.readouterr().err
    blocked.unlink()
    assert grid(grid_file, out, "--retry-failed") == 0
    assert len(read_ledger(out / "ledger.jsonl")) == 4


def stop_after_the_first_cell(words: Sequence[str], how: signal.Signals) -> tuple[int, str]:
    """Run a command and send it a signal; how it ended, and what it said after its first cell."""
    command = [sys.executable, "-m", "puridiver", *words]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of one that ignores it ignores it, too
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("[1/4]"):
                process.send_signal(how)
                break
        rest = process.stderr.read()
    return process.returncode, rest


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_grid_that_was_stopped_goes_on_where_it_was(grid_file: Path, tmp_path: Path, how: signal.Signals) -> None:
    # Three cells of 12 epochs take a second: on a busy machine they may be done before the signal comes. Then the
    # grid was not stopped at all, and one with more work is tried.
    for epochs in (12, 60, 300):
        out = tmp_path / f"out-{epochs}"
        words = ["grid", str(grid_file), "--out", str(out), "--epochs", str(epochs), "--processes", "1"]
        code, rest = stop_after_the_first_cell(words, how)
        finished = len(read_ledger(out / "ledger.jsonl"))
        if finished < 4:
            break
    assert 1 <= finished < 4
    assert code == (130 if how == signal.SIGINT else -signal.SIGKILL)
    if how == signal.SIGINT:
        assert "To go on:" in rest
        assert shlex.join(["puridiver", *words]) in rest
    assert grid(grid_file, out, "--epochs", str(epochs)) == 0
    assert {found["cell"] for found in read_ledger(out / "ledger.jsonl")} == {
        p.key for p in planned_cells(small_grid(epochs=epochs))
    }
    assert len(read_ledger(out / "ledger.jsonl")) == 4


def test_the_list_has_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grid", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in PRESETS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--list"),
        (["table9"], "table1, table2"),
        (["table2"], "webvision is not in"),
        (["table3", "--data", "digits", "--limit", "0"], "limit should be at least 1"),
        (["table3", "--data", "digits", "--set", "zeta=1"], "there is no option 'zeta'"),
        (["none.toml"], "none.toml"),
    ],
)
def test_what_cannot_be_run_is_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["grid", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


# Tables and figures ------------------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A grid's folder with hand-made rows and the run folders they came from."""
    folder = GridFolder(tmp_path / "results")
    folder.path.mkdir()
    for seed, accuracy in ((1, 0.5), (2, 0.6)):
        found = row(seed, accuracy, data="digits", noise_rate=0.2)
        folder.record(found)
        run = folder.path / "cells" / f"run-{seed}"
        run.mkdir(parents=True)
        (run / "summary.json").write_text(json.dumps(found))
    other = folder.path / "cells" / "of-another-grid"
    other.mkdir()
    (other / "summary.json").write_text(json.dumps(row(9, 0.9, cell="another")))
    return folder.path


def test_a_preset_before_a_folder_or_a_ledger_asks_for_its_table(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (results, results / "ledger.jsonl"):
        assert main(["table", "table1", str(place)]) == 0
        text = capsys.readouterr().out
        assert "55.0 ± 7.1 (2)" in text
        assert "digits, blurry-10" in text
    assert main(["table", str(results)]) == 0
    assert "55.0 ± 7.1" in capsys.readouterr().out
    (results.parent / "runs").mkdir()
    results.rename(results.parent / "runs" / "table1")
    monkeypatch.chdir(results.parent)
    assert main(["table", "table1"]) == 0
    assert "55.0 ± 7.1 (2)" in capsys.readouterr().out


def test_a_presets_table_goes_into_a_page(results: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- here:begin -->\n<!-- here:end -->\n")
    words = ["table", "table1", str(results), "--format", "markdown", "--into", str(page), "--marker", "here"]
    assert main(words) == 0
    assert "| PuriDivER | 55.0 ± 7.1 (2) | - |" in page.read_text()


def test_results_that_are_not_there_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "table1", str(tmp_path)]) == 2
    assert "ledger.jsonl is not there" in capsys.readouterr().err


def test_a_figure_is_drawn_of_the_presets_runs(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = []

    def draw(name: str, folders: Sequence[Path], out: Path, tell: Callable[[str], None]) -> Path:
        drawn.append((name, [folder.name for folder in folders]))
        return out

    monkeypatch.setitem(sys.modules, "puridiver.report.figures", types.SimpleNamespace(draw=draw))
    out = tmp_path / "picture.svg"
    assert main(["figure", "figure-tasks", str(results), "--out", str(out)]) == 0
    assert drawn == [("tasks", ["run-1", "run-2"])]
    captured = capsys.readouterr()
    assert captured.out == f"{out}\n"
    assert "not drawn" not in captured.err
    told = (
        "note: figure-tasks is not whole: no finished run of RSV + DivideMix, GBS + DivideMix, RM + DivideMix, sym-40, "
    )
    assert captured.err.startswith(told)
    assert f"`puridiver grid figure-tasks --data digits --out {results}` runs what is left" in captured.err
    GridFolder(results).record(row(1, 0.9, cell="rsv", data="digits", noise_rate=0.2, sampler="rsv", trainer="plain"))
    assert main(["figure", "figure-tasks", str(results), "--out", str(out)]) == 0
    assert "note: 1 finished run is not drawn: of methods, noises, settings or code that" in capsys.readouterr().err
    assert main(["figure", "figure-time", str(results), "--out", str(out)]) == 2
    assert "holds no finished runs of figure-time" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["table1"], "figure-tasks, figure-mixtures"), (["figure-tasks", "--out", "a.gif"], ".png, .svg, .pdf")],
)
def test_a_figure_that_cannot_be_drawn_is_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["figure", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_place_without_results_is_told_by_what_it_is(tmp_path, capsys):
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "config.json").write_text("{}")
    assert main(["table", str(begun)]) == 2
    assert f"{begun} is a run that has not finished: `puridiver run --out {begun} --resume`" in capsys.readouterr().err
    assert main(["table", "tabel1", str(tmp_path)]) == 2
    assert "tabel1 is not there; did you mean the preset table1?" in capsys.readouterr().err
    assert main(["figure", "figure-alpha", str(tmp_path / "figure-alpha")]) == 2
    assert "is not there: run `puridiver grid figure-alpha` first" in capsys.readouterr().err


def test_what_a_run_would_be_warned_of_a_grid_tells_once(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text('[grid]\nmethods = ["rsv+selfie", "gbs+selfie"]\ndata = ["digits"]\nseeds = [0, 1]\nepochs = 7\n')
    assert main(["grid", str(path), "--out", str(tmp_path / "out"), "--dry-run"]) == 0
    told = capsys.readouterr().err
    assert told.count("7 memory epochs are all warm-up (baseline_warmup=10): selfie is plain training") == 1
    assert main(["grid", str(path), "--out", str(tmp_path / "out"), "--dry-run", "--quiet"]) == 0
    assert "warm-up" not in capsys.readouterr().err


def test_a_method_that_is_told_what_its_trainer_does_not_look_at_is_noted(tmp_path: Path, capsys) -> None:
    path = tmp_path / "told.toml"
    path.write_text(FILE.replace('"gbs+plain"', '{ sampler = "rsv", trainer = "plain", tell_noise = true }') + SETTINGS)
    assert grid(path, tmp_path / "out", "--dry-run") == 0
    assert "note: tell_noise changes nothing with the trainer plain" in capsys.readouterr().err
