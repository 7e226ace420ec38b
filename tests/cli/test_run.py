"""`puridiver run`: what it prints and keeps, how it is resumed, and the errors it gives before the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from puridiver import Experiment
from puridiver.cli import main
from puridiver.cli.output import Progress, percent
from puridiver.cli.run import run_notes
from puridiver.metrics import METRICS
from puridiver.runs.config import RunConfig
from puridiver.runs.ledger import read_lines
from tests.cli.conftest import PICTURES, TINY
from tests.learner_samples import patterns
from tests.wild import write_bad_kinds, write_classes, write_good_kinds, write_oddly_named

SHOWN = ("last_accuracy", "memory_purity", "forgetting", "anytime_area")


def summary_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def test_the_table_has_the_figures(capsys):
    assert main(["run", *TINY, "--set", "eta=0.5"]) == 0
    shown = capsys.readouterr()
    for words in ("recipe puridiver", "eta=0.5", "shortened run", "seed 0", *(METRICS[name].title for name in SHOWN)):
        assert words in shown.out
    assert f"puridiver run {' '.join(TINY)} --set eta=0.5 --out runs/mine" in shown.err  # how to keep it
    assert "after task 2: accuracy" in shown.err


def test_json_is_the_summary_quiet_says_nothing_and_tensorboard_follows(tmp_path, capsys):
    out, ledger, followed = tmp_path / "run", tmp_path / "ledger.jsonl", tmp_path / "tensorboard"
    words = ["--out", str(out), "--ledger", str(ledger), "--tensorboard", str(followed)]
    assert main(["run", *TINY, "--json", "--quiet", *words]) == 0
    assert list(followed.iterdir())
    shown = capsys.readouterr()
    assert shown.err == ""
    assert json.loads(shown.out) == summary_of(out) == read_lines(ledger)[0]
    assert {path.name for path in out.iterdir()} >= {"config.json", "manifest.json", "metrics.jsonl", "learner"}


def test_after_the_first_seconds_it_says_how_many_minutes_are_left(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr("puridiver.cli.output.time.monotonic", lambda: now)
    progress = Progress()
    progress.start(1_000, done=400)  # before the process began: it tells nothing of the rate
    for seconds, amount, told in ((1, 1, ""), (5, 9, "41% done, about 5 minutes left"), (900, 90, ""), (901, 400, "")):
        now = 100.0 + seconds
        progress.advance(amount, "stream")
        assert capsys.readouterr().err.strip() == told
    event = {"task": 0, "accuracy": 0.5, "memory_purity": None}
    progress.event(event)
    assert "after task 1: accuracy 50.0%, memory purity -; about 3 minutes left" in capsys.readouterr().err
    progress.advance(99, "stream")
    assert progress.time_left() == "less than a minute left"
    progress.advance(1, "stream")
    progress.event(event)
    assert "left" not in capsys.readouterr().err


# Resuming ----------------------------------------------------------------------------------------------------------


def interrupted(folder: Path, *words: str) -> None:
    """A run that gets Ctrl-C when its first task ends."""

    def press(*anything: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "event", press)
        assert main(["run", *TINY, *words, "--out", str(folder)]) == 130


def test_an_interrupted_run_is_resumed_to_the_same_figures(tmp_path, capsys):
    said = ["--seed", "3", "--noise", "asym-20", "--set", "eta=0.5"]
    assert main(["run", *TINY, *said, "--out", str(tmp_path / "whole")]) == 0
    interrupted(tmp_path / "my run", *said, "--ledger", str(tmp_path / "l.jsonl"))
    told = capsys.readouterr().err
    assert f"--ledger {tmp_path}/l.jsonl --out '{tmp_path}/my run' --resume" in told
    again = ["run", "--out", str(tmp_path / "my run"), "--resume"]
    for other, message in (("--noise=sym-20", "asym-20"), ("--set=eta=0.25", "eta"), ("--epochs=9", "epochs")):
        assert main([*again, other]) == 2
        assert message in capsys.readouterr().err
    assert main([*again, "--quiet", "--seed", "3"]) == 0
    parts, whole = summary_of(tmp_path / "my run"), summary_of(tmp_path / "whole")
    for name in ("task_accuracy", "memory_purity", "stream_hash", "anytime_area"):
        assert parts[name] == whole[name]
    capsys.readouterr()
    assert main([*again, "--json"]) == 0  # a finished run gives its figures again
    assert json.loads(capsys.readouterr().out) == parts


def test_a_run_is_resumed_from_any_folder(tmp_path, monkeypatch):
    images, labels = patterns(60)
    (tmp_path / "here").mkdir()
    np.savez(tmp_path / "here" / "own.npz", train_images=images, train_labels=labels)
    monkeypatch.chdir(tmp_path / "here")
    words = ["--data", "own.npz", "--test-share", "0.2", "--memory", "20", "--epochs", "1", "--tasks", "2", "--quiet"]
    assert main(["run", *words, "--network", "small", "--out", "run"]) == 0
    (tmp_path / "here" / "run" / "summary.json").unlink()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--out", "here/run", "--resume", "--quiet"]) == 0


# Own data ----------------------------------------------------------------------------------------------------------


def run_on(root: Path, *words: object, out: str = "run") -> dict[str, Any]:
    command = ["run", "--data-root", str(root), "--out", str(root / out), *PICTURES, *map(str, words)]
    assert main(command) == 0
    return summary_of(root / out)


def test_a_folder_of_wild_files_without_true_labels(tmp_path, capsys):
    folder = tmp_path / "pictures"
    write_classes(folder / "train", 12)
    write_classes(folder / "test", 4, first_seed=500)
    write_good_kinds(folder / "train" / "kinds")
    write_oddly_named(folder / "train" / "kinds")
    write_bad_kinds(folder / "train" / "red")
    summary = run_on(tmp_path, "--data", folder, "--bad-files", "skip")
    assert {summary[name] for name in ("memory_purity", "stream_noise", "clean_precision")} == {None}
    assert "true labels not known" in capsys.readouterr().out
    assert str(tmp_path) not in summary["command"]


def test_a_table_with_true_labels_in_the_order_of_time(tmp_path):
    files = sorted(write_classes(tmp_path / "p", 10).rglob("*.*"))
    labels, times = [path.parent.name for path in files], [int(path.stem) for path in files]
    splits = ["test" if when % 5 == 4 else "train" for when in times]
    columns = {"path": files, "label": labels, "true_label": labels, "timestamp": times, "split": splits}
    pd.DataFrame(columns).to_csv(tmp_path / "list.csv", index=False)
    summary = run_on(tmp_path, "--data", tmp_path / "list.csv", "--stream", "time", "--tasks", 4)
    assert (summary["stream_noise"], summary["memory_purity"], len(summary["task_accuracy"])) == (0, 1, 4)


# Notes and figures -------------------------------------------------------------------------------------------------


def notes_of(**settings: Any) -> list[str]:
    method = {"sampler": "puridiver", "trainer": "puridiver", "network": "small"}
    return list(run_notes(Experiment(RunConfig(device="cpu", **method, **settings))))


@pytest.mark.parametrize(
    ("settings", "part", "other"),
    [
        ({"memory": 5000}, "holds the whole stream", {"memory": 500}),
        ({"epochs": 10}, "warm-up", {"epochs": 11}),
    ],
)
def test_notes_tell_what_a_user_would_not_expect(settings, part, other):
    assert [note for note in notes_of(**settings) if part in note]
    assert not [note for note in notes_of(**other) if part in note]


def test_shares_are_written_for_people() -> None:
    assert [percent(value) for value in (-0.0002, -0.0, 0.0, -0.021, None)] == ["0.0%", "0.0%", "0.0%", "-2.1%", "-"]
