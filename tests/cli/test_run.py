"""`puridiver run` from the outside: exit codes, JSON, tables, folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from puridiver.cli import main
from puridiver.cli.run import ProgressBar, _percent
from puridiver.cli.run_settings import flag_specs, parse_assignments
from puridiver.recipes import OFFICIAL, RECIPES, replaced
from puridiver.runs import folder as runs
from tests.learner_samples import patterns
from tests.resume_samples import traces

TINY = (
    "--tasks", "2", "--memory", "20", "--network", "small", "--device", "cpu", "--epochs", "1",
    "--stream-limit", "32", "--test-limit", "50", "--no-diversity",
)  # fmt: skip


def make_pictures(folder):
    """Two classes of ten small images each."""
    for label in ("dark", "light"):
        (folder / label).mkdir(parents=True)
        for number in range(10):
            shade = 10 * number + (100 if label == "light" else 0)
            Image.new("L", (8, 8), shade).save(folder / label / f"{number}.png")


def test_json_is_all_there_is_on_stdout():
    """A real process, as a script would start it, at the recipe's defaults but for the size."""
    command = [sys.executable, "-m", "puridiver", "run", "--json", "--epochs", "1", "--stream-limit", "32"]
    command += ["--test-limit", "50", "--no-diversity", "--set", "warmup_epochs=0"]
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
        "config.json", "learner", "manifest.json", "memory.safetensors", "metrics.jsonl", "summary.json",
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


def test_disjoint_tasks_are_also_judged_on_the_classes_that_had_come(capsys):
    stream = ["--stream", "disjoint", "--noise", "none", "--sampler", "rsv", "--trainer", "plain"]
    assert main(["run", *TINY, *stream, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["average_seen_accuracy"] > summary["average_accuracy"]
    assert summary["task_seen_accuracy"][-1] == summary["last_accuracy"]
    assert summary["anytime_seen_area"] > summary["anytime_area"]
    ((first, _), (then, _)) = summary["task_group_accuracy"]
    assert summary["backward_transfer"] == pytest.approx(then - first)
    assert main(["run", *TINY, *stream, "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("on classes that had come") == 2


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
        (["--network", "vit"], "network should be one of resnet18, resnet32, resnet34, small, but got 'vit'"),
        (["--device", "abacus"], "device should be"),
        (["--data", "marsrocks"], "marsrocks"),
        (["--data", "nowhere.npz"], "nowhere.npz"),
        (["--stream", "wild"], "a stream should be"),
        (["--stream", "nowhere.json"], "nowhere.json"),
        (["--stream", "official:sym40:1"], "sym40"),
        (["--noise", "loud"], "loud"),
        (["--set", "speed=3"], "there is no option 'speed'"),
        (["--set", "epoch=3"], "there is no option 'epoch'; did you mean epochs"),
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
    assert main(["run", *TINY, "--out", str(tmp_path / "run"), "--ledger", str(tmp_path / "l.jsonl")]) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert not (tmp_path / "run" / "summary.json").exists()
    assert (tmp_path / "run" / "metrics.jsonl").exists()
    assert f"to continue: puridiver run --out {tmp_path / 'run'} --resume --ledger {tmp_path}/l.jsonl" in captured.err


def test_without_a_folder_an_interrupted_run_has_nothing_to_continue(capsys, monkeypatch):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("puridiver.metrics.Recorder.task_ended", interrupt)
    assert main(["run", *TINY]) == 130
    assert "to continue" not in capsys.readouterr().err


# Resuming ----------------------------------------------------------------------------------------------------------


def interrupted(folder, *flags: str) -> None:
    """A run that gets Ctrl-C when its first task ends."""
    event = ProgressBar.event
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started to ignore it
    with pytest.MonkeyPatch.context() as patch:

        def press(self, found):
            signal.raise_signal(signal.SIGINT)
            event(self, found)

        patch.setattr(ProgressBar, "event", press)
        assert main(["run", *TINY, *flags, "--out", str(folder)]) == 130


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_continue(tmp_path, capsys):
    interrupted(tmp_path / "my run", "--checkpoint-every", "0")
    told = capsys.readouterr().err
    assert "stopping after this batch or memory epoch; Ctrl-C again stops at once" in told
    assert f"to continue: puridiver run --out '{tmp_path}/my run' --resume" in told
    assert any((tmp_path / "my run" / "checkpoint").iterdir())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_of_an_older_default_recipe_is_resumed_with_what_that_was(tmp_path, capsys, monkeypatch):
    folder, ledger = tmp_path / "run", tmp_path / "ledger.jsonl"
    with monkeypatch.context() as older:
        older.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 0.5}))
        assert main(["run", *TINY, "--out", str(folder), "--quiet"]) == 0
    path = folder / "config.json"
    begun = json.loads(path.read_text())
    del begun["resolved"]["options"]["online_prediction"]  # had not come yet
    path.write_text(json.dumps(begun))
    capsys.readouterr()
    assert main(["run", "--out", str(folder), "--resume", "--quiet", "--ledger", str(ledger)]) == 0
    assert main(["run", "--out", str(folder), "--resume", "--recipe", "puridiver"]) == 2  # said: the one of now
    assert "eta is 0.5 there and 1.0 here" in capsys.readouterr().err


def test_a_run_is_resumed_with_its_own_config_however_much_of_it_is_said_again(tmp_path, capsys):
    flags = ["--seed", "3", "--noise", "asym-20", "--set", "eta=0.5"]
    assert main(["run", *TINY, *flags, "--out", str(tmp_path / "whole")]) == 0
    for again in ([], flags[:2], [*TINY, *flags]):
        folder = tmp_path / f"parts{len(again)}"
        interrupted(folder, *flags)
        assert main(["run", "--out", str(folder), "--resume", "--quiet", *again]) == 0
        assert traces(folder) == traces(tmp_path / "whole")


def test_resuming_with_another_config_exits_with_2_and_names_what_differs(tmp_path, capsys):
    interrupted(tmp_path / "run", "--seed", "3")
    capsys.readouterr()
    again = ["run", "--out", str(tmp_path / "run"), "--resume"]
    assert main([*again, "--noise", "asym-20"]) == 2
    assert "another config: noise is 'sym-40' there and 'asym-20' here; `puridiver" in capsys.readouterr().err
    assert main([*again, "--set", "eta=0.5", "--seed", "3"]) == 2
    assert "another config: eta is 1.0 there and 0.5 here; `puridiver" in capsys.readouterr().err


def test_other_epochs_are_refused_however_they_are_said(tmp_path, capsys):
    interrupted(tmp_path / "run", "--seed", "3")
    capsys.readouterr()
    for said in (["--epochs", "9"], ["--set", "epochs=9"]):
        assert main(["run", "--out", str(tmp_path / "run"), "--resume", *said]) == 2
        assert "epochs is 1 there and 9 here" in capsys.readouterr().err


def test_a_run_goes_on_after_its_data_moved(tmp_path, capsys):
    make_pictures(tmp_path / "old" / "pictures")
    flags = ["--data", str(tmp_path / "old" / "pictures"), "--test-share", "0.2", "--noise", "none"]
    begun = ["run", *TINY[:-1], "--out", str(tmp_path / "run"), "--quiet", "--no-diversity", *flags]
    assert main(begun) == 0
    (tmp_path / "run" / "summary.json").unlink()
    (tmp_path / "old").rename(tmp_path / "new")
    again = ["run", "--out", str(tmp_path / "run"), "--resume", "--quiet"]
    assert main([*again, "--data", str(tmp_path / "new" / "pictures")]) == 0, capsys.readouterr().err


def test_an_option_at_its_default_is_named_as_it_is(tmp_path, capsys):
    interrupted(tmp_path / "run", "--seed", "3")
    capsys.readouterr()
    assert main(["run", "--out", str(tmp_path / "run"), "--resume", "--set", "online_prediction=network"]) == 2
    assert "online_prediction is 'consolidated' there and 'network' here" in capsys.readouterr().err


def test_epochs_said_in_two_ways_must_agree(capsys):
    assert main(["run", "--epochs", "5", "--set", "epochs=3"]) == 2
    assert "--epochs 5 and --set epochs=3 differ: say one of them" in capsys.readouterr().err


def test_the_summary_names_the_options_that_were_changed(capsys):
    assert main(["run", *TINY, "--quiet", "--set", "eta=0.5"]) == 0
    assert "recipe puridiver, eta=0.5" in " ".join(capsys.readouterr().out.split())


def test_resuming_where_there_is_no_run_starts_it(tmp_path, capsys):
    assert main(["run", *TINY, "--out", str(tmp_path / "run"), "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "run" / "summary.json").read_text())


def test_resuming_a_finished_run_prints_its_summary_and_adds_no_second_row(tmp_path, capsys, monkeypatch):
    out = ["--out", str(tmp_path / "run"), "--ledger", str(tmp_path / "ledger.jsonl"), "--json"]
    assert main(["run", *TINY, *out]) == 0
    first = capsys.readouterr().out
    monkeypatch.setattr("puridiver.learner.learner.Learner.observe", lambda *a: pytest.fail("learnt again"))
    assert main(["run", *out, "--resume"]) == 0
    assert capsys.readouterr().out == first
    assert len(runs.read_ledger(tmp_path / "ledger.jsonl")) == 1
    assert main(["run", "--out", str(tmp_path / "run"), "--resume"]) == 0
    assert "the run was finished already. run folder: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--resume"], "--resume needs --out FOLDER"),
        (["--resume", "--force", "--out", "RUN"], "say one of them"),
        (["--checkpoint-every", "-1", "--out", "RUN"], "seconds between checkpoints should be at least 0"),
    ],
)
def test_wrong_ways_to_resume_exit_with_2(flags, message, tmp_path, capsys):
    assert main(["run", *TINY, *(str(tmp_path / "run") if flag == "RUN" else flag for flag in flags)]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_config_of_another_version_is_named(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"config": {"colour": "red"}}')
    assert main(["run", "--out", str(tmp_path), "--resume"]) == 2
    assert "config.json is not of this version" in capsys.readouterr().err


def test_assignments_take_the_options_type():
    found = parse_assignments(["eta=2", "epochs = 3", "flip=off", "alpha=adaptive", "set-batches=clean_full"])
    assert found == {"eta": 2.0, "epochs": 3, "flip": False, "alpha": -1.0, "set_batches": "clean_full"}
    assert type(found["eta"]) is float


def test_a_run_without_a_folder_says_how_to_keep_it(tmp_path, capsys):
    assert main(["run", *TINY]) == 0
    told = capsys.readouterr().err
    assert f"not kept; to keep them: puridiver run {' '.join(TINY)} --out runs/mine" in told
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 0
    assert "not kept" not in capsys.readouterr().err


def test_every_setting_of_a_run_has_a_flag():
    assert {"--data", "--data-root", "--stream", "--seed", "--sampler", "--trainer", "--recipe"} <= set(flag_specs())
    assert all(spec["help"] for spec in flag_specs().values())


def test_there_must_be_something_to_resume_or_to_begin(tmp_path, capsys):
    assert main(["run", "--out", str(tmp_path / "typo"), "--resume"]) == 2
    assert f"there is no run in {tmp_path / 'typo'} to resume" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    assert main(["run", *TINY, "--out", str(tmp_path / "new"), "--resume"]) == 0


def test_a_run_and_a_grid_do_not_share_a_folder(tmp_path, capsys):
    file = tmp_path / "small.toml"
    file.write_text('[grid]\nmethods = ["rsv+plain"]\nepochs = 1\nstream_limit = 8\ntest_limit = 20\ntasks = 2\n')
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 0
    assert main(["grid", str(file), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert "holds a run of `puridiver run`; name another --out" in capsys.readouterr().err
    assert main(["grid", str(file), "--out", str(tmp_path / "grid"), "--engine", "lanes", "--quiet"]) == 0
    for more in ([], ["--force"]):
        assert main(["run", *TINY, "--out", str(tmp_path / "grid"), *more]) == 2
        assert "is the folder of a grid; name another one" in capsys.readouterr().err


def test_a_run_on_data_of_ones_own_is_resumed_from_any_folder(tmp_path, monkeypatch, capsys):
    images, labels = patterns(60)
    (tmp_path / "here").mkdir()
    np.savez(tmp_path / "here" / "own.npz", train_images=images, train_labels=labels)
    monkeypatch.chdir(tmp_path / "here")
    words = ["--data", "own.npz", "--test-share", "0.2", "--memory", "100", "--epochs", "2", "--tasks", "2"]
    event = ProgressBar.event
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ProgressBar, "event", lambda self, found: (signal.raise_signal(signal.SIGINT), event(self, found))
        )
        assert main(["run", *words, "--network", "small", "--out", "run"]) == 130
    assert "a memory of 100 holds the whole stream (48 samples)" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--out", "here/run", "--resume", "--json"]) == 0
    assert '"command": "puridiver run --data own.npz' in capsys.readouterr().out


def test_no_forgetting_has_no_minus() -> None:
    assert [_percent(value) for value in (-0.0002, -0.0, 0.0, -0.021, None)] == ["0.0%", "0.0%", "0.0%", "-2.1%", "-"]
