"""`puridiver audit` from the command line, on a small .npz file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from puridiver.cli import main
from tests.auditing.samples import CLASSES, planted

QUICK = (
    "--memory", "24", "--parts", "1", "--epochs", "4", "--network", "small", "--device", "cpu", "--passes", "1",
    "--set", "flip=false", "--set", "online_lr=0.02",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A set with some wrong labels; the truth of the first hundred is known."""
    images, given, true = planted()
    path = tmp_path_factory.mktemp("data") / "mine.npz"
    known = np.where(np.arange(len(true)) < 100, true, -1)
    np.savez(path, train_images=images, train_labels=given, train_true_labels=known, test_images=images[:90],
             test_labels=true[:90], class_names=np.array(CLASSES))  # fmt: skip
    return str(path)


@pytest.fixture(scope="module")
def audited(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished audit. Tests must not change it."""
    folder = tmp_path_factory.mktemp("audit") / "mine"
    assert main(["audit", data, *QUICK, "--out", str(folder), "--quiet"]) == 0
    return folder


def test_everything_is_in_the_folder(audited):
    summary = json.loads((audited / "summary.json").read_text())
    assert summary["suspects"] == len(pd.read_csv(audited / "suspects.csv")) > 15
    assert summary["data"] == "mine.npz"
    low, high = summary["noise_interval"]
    assert low < summary["noise_rate"] < high
    assert set(summary["noise_by_class"]) == set(CLASSES)
    assert summary["known"]["samples"] == 100
    assert summary["known"]["auc"] > 0.8
    assert "Estimated wrong labels" in (audited / "audit.html").read_text()


def test_planted_noise_is_judged_and_told(data, capsys):
    command = ["audit", data, *QUICK, "--split", "test", "--plant", "sym-20"]
    assert main([*command, "--json"]) == 0
    shown = capsys.readouterr()
    summary = json.loads(shown.out)
    assert shown.err == ""
    assert summary["planted"]["true_noise_rate"] == 0.2
    assert summary["planted"]["auc"] > 0.9
    assert main([*command, "--limit", "60", "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "of 60 labels are probably wrong" in shown
    assert "planted, 60 labels: wrong 20.0%, found " in shown
    assert "test " in shown  # rows by their place in the part


def test_corrections_are_learnt(data, audited, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "a[/b]"  # which is no markup
    shutil.copytree(audited, folder)
    monkeypatch.chdir(tmp_path)
    rows = pd.read_csv(folder / "suspects.csv")
    rows.assign(corrected_label=rows["suggested_label"]).to_csv("corrected.csv", index=False)
    before = json.loads((folder / "summary.json").read_text())
    again = ["audit", data, *QUICK, "--out", str(folder), "--corrections"]
    assert main([*again[:-1], "--split", "test"]) == 2
    assert "holds an audit of other data or labels" in capsys.readouterr().err
    assert main([*again, "corrected.csv"]) == 0
    shown = capsys.readouterr()
    assert f"labels that nobody has checked ({len(rows)} are)" in shown.out
    assert f"audit folder: {folder};" in shown.err
    after = json.loads((folder / "summary.json").read_text())
    assert (after["checked"], after["settings"]) == (len(rows), before["settings"])
    assert after["suspects"] < before["suspects"] / 2
    Path("empty.csv").write_text("row,corrected_label\n1,\n")
    assert main([*again, "empty.csv"]) == 2
    assert "corrects nothing" in capsys.readouterr().err


def test_a_folder_of_images_is_audited_whole(tmp_path, capsys):
    for number in range(24):
        folder = tmp_path / "pictures" / ("light[/b]" if number % 2 else "dark\x1b[1m")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 200 if number % 2 else 30).save(folder / f"{number}.png")
    (tmp_path / "pictures" / "light[/b]" / "bad.jpg").write_text("no image")
    command = ["audit", str(tmp_path / "pictures"), "--image-size", "8", "--epochs", "1", "--passes", "1"]
    command += ["--data-root", str(tmp_path / "cache"), "--bad-files", "skip", "--plant", "sym-20"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 24
    assert main(command) == 0
    assert "\x1b" not in capsys.readouterr().out
