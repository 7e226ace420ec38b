"""`puridiver run` from the outside: exit codes, JSON, tables, folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from puridiver import runs
from puridiver.cli import main
from puridiver.cli.run import flag_specs, parse_assignments

TINY = (
    "--tasks", "2", "--memory", "20", "--network", "small", "--device", "cpu", "--epochs", "1",
    "--stream-limit", "32", "--test-limit", "50", "--no-diversity",
)  # fmt: skip


def test_json_is_all_there_is_on_stdout():
    """A real process, as a script would start it, at the recipe's defaults but for the size."""
    command = [sys.executable, "-m", "puridiver", "run", "--json", "--epochs", "1", "--stream-limit", "32"]
    command += ["--test-limit", "50", "--no-diversity"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert {"last_accuracy", "average_accuracy", "memory_purity", "seconds"} <= set(summary)
    assert summary["shortened"]
    assert done.stderr == ""


def test_the_json_is_the_summary_of_the_folder(capsys, tmp_path):
    assert main(["run", *TINY, "--json", "--out", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.json", "manifest.json", "memory.safetensors", "metrics.jsonl", "summary.json",
    }  # fmt: skip


def test_the_table_sets_accuracy_and_purity_against_the_noise(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "150")
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for part in ("60.0% of labels right", "last accuracy", "memory purity", "against the stream", "shortened run"):
        assert part in captured.out
    assert f"{summary['last_accuracy']:.1%}" in captured.out
    assert f"{summary['memory_purity']:.1%}" in captured.out
    assert "after task 2" in captured.err
    assert str(tmp_path / "run") in captured.err.replace("\n", "")


def test_the_table_fits_a_terminal_of_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["run", *TINY, "--quiet"]) == 0
    assert "…" not in capsys.readouterr().out


def test_quiet_shows_the_table_alone(capsys):
    assert main(["run", *TINY, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert "last accuracy" in captured.out
    assert captured.err == ""


def test_a_single_task_has_a_table_too(capsys):
    one = ["--tasks", "1", "--stream", "disjoint", "--noise", "none", "--sampler", "rsv", "--trainer", "plain"]
    assert main(["run", *TINY, *one, "--quiet"]) == 0
    assert "100.0% of labels right" in capsys.readouterr().out


def test_every_flag_reaches_the_run(tmp_path, capsys):
    flags = [
        "--seed", "3", "--noise", "asym-20", "--stream", "blurry-20", "--sampler", "rm", "--trainer", "dividemix",
        "--recipe", "paper", "--tell-noise", "--holdout", "20", "--evaluate-on", "validation", "--anytime-points", "1",
        "--evaluate-epochs", "--set", "eta=0.5", "--set", "flip=no", "--set", "baseline-warmup=0",
    ]  # fmt: skip
    assert main(["run", *TINY, *flags, "--json", "--out", str(tmp_path / "run")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["seed"], summary["noise"], summary["noise_rate"]) == (3, "asym", 0.2)
    assert (summary["sampler"], summary["trainer"], summary["recipe"]) == ("rm", "dividemix", "paper")
    assert (summary["told_noise"], summary["evaluated_on"], summary["memory"]) == (True, "validation", 20)
    assert "best_epoch_accuracy" in summary
    resolved = json.loads((tmp_path / "run" / "config.json").read_text())["resolved"]["options"]
    assert (resolved["eta"], resolved["flip"], resolved["baseline_warmup"]) == (0.5, False, 0)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["minor_share"] == pytest.approx(0.2)


def test_the_ledger_gets_a_row_for_each_finished_run(tmp_path, capsys):
    ledger = tmp_path / "ledger.jsonl"
    for seed in ("1", "2"):
        assert main(["run", *TINY, "--seed", seed, "--ledger", str(ledger), "--json"]) == 0
    assert [row["seed"] for row in runs.read_ledger(ledger)] == [1, 2]


def test_an_old_run_is_replaced_only_with_force(tmp_path, capsys):
    out = ["--out", str(tmp_path), "--json"]
    assert main(["run", *TINY, *out]) == 0
    capsys.readouterr()
    assert main(["run", *TINY, *out]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--force" in captured.err
    assert main(["run", *TINY, *out, "--force"]) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sampler", "best"], "sampler should be one of"),
        (["--trainer", "best"], "trainer should be one of"),
        (["--recipe", "best"], "recipe should be one of"),
        (["--network", "vit"], "network should be one of"),
        (["--device", "abacus"], "device should be"),
        (["--data", "marsrocks"], "marsrocks"),
        (["--data", "nowhere.npz"], "nowhere.npz"),
        (["--stream", "wild"], "a stream should be"),
        (["--stream", "nowhere.json"], "nowhere.json"),
        (["--stream", "official:sym40:1"], "sym40"),
        (["--noise", "loud"], "loud"),
        (["--set", "speed=3"], "there is no option 'speed'"),
        (["--set", "eta"], "--set needs OPTION=VALUE, but got 'eta'"),
        (["--set", "eta=much"], "option eta should be float, but got 'much'"),
        (["--set", "flip=maybe"], "option flip should be true or false"),
        (["--set", "replay=often"], "option replay should be one of"),
        (["--epochs", "0"], "epochs should be at least 1"),
        (["--evaluate-on", "validation"], "holdout"),
    ],
)
def test_bad_input_exits_with_2_says_why_and_leaves_nothing(flags, message, tmp_path, capsys):
    assert main(["run", *TINY, "--data-root", str(tmp_path), "--out", str(tmp_path / "run"), *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("puridiver: error: ")
    assert message in captured.err
    assert not (tmp_path / "run").exists()


def test_missing_data_exits_with_2_and_says_how_to_get_it(tmp_path, capsys):
    assert main(["run", "--data", "cifar10", "--data-root", str(tmp_path)]) == 2
    assert "puridiver data fetch cifar10" in capsys.readouterr().err


def test_an_interrupted_run_exits_with_130_and_has_no_summary(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("puridiver.metrics.Recorder.task_ended", interrupt)
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 130
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "run" / "summary.json").exists()
    assert (tmp_path / "run" / "metrics.jsonl").exists()


def test_assignments_take_the_options_type():
    found = parse_assignments(["eta=2", "epochs = 3", "flip=off", "alpha=adaptive", "set-batches=clean_full"])
    assert found == {"eta": 2.0, "epochs": 3, "flip": False, "alpha": -1.0, "set_batches": "clean_full"}
    assert type(found["eta"]) is float


def test_every_setting_of_a_run_has_a_flag():
    assert {"--data", "--data-root", "--stream", "--seed", "--sampler", "--trainer", "--recipe"} <= set(flag_specs())
    assert all(spec["help"] for spec in flag_specs().values())
