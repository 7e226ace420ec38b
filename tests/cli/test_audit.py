"""`puridiver audit` from the command line, on a small .npz file."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from puridiver import plugins
from puridiver.auditing.evidence import Evidence
from puridiver.auditing.report import judge
from puridiver.auditing.settings import AuditSettings
from puridiver.auditing.words import truth_words
from puridiver.cli import main
from puridiver.cli.audit import add_parser, found_of_truth, settings_for
from puridiver.cli.audit_options import recall
from puridiver.data import FileOptions, from_arrays, load
from puridiver.nets import NETWORKS
from tests.auditing.samples import CLASSES, planted

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_methods.py"

QUICK = [
    "--memory", "24", "--parts", "1", "--epochs", "4", "--network", "small", "--device", "cpu", "--set", "flip=false",
    "--set", "online_lr=0.02",
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    images, given, true = planted()
    path = tmp_path_factory.mktemp("data") / "mine.npz"
    np.savez(path, train_images=images, train_labels=given, test_images=images[:90], test_labels=true[:90],
             class_names=np.array(CLASSES))  # fmt: skip
    return str(path)


@pytest.fixture(scope="module")
def audited(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "mine"
    assert main(["audit", data, *QUICK, "--out", str(folder), "--quiet"]) == 0
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_everything_is_in_the_folder(audited):
    rows = rows_of(audited / "suspects.csv")
    summary = json.loads((audited / "summary.json").read_text())
    assert summary["suspects"] == len(rows) > 15
    assert summary["data"] == "mine.npz"
    low, high = summary["noise_interval"]
    assert low < summary["noise_rate"] < high
    assert set(summary["noise_by_class"]) == set(CLASSES)
    assert summary["caution"] is None
    page = (audited / "audit.html").read_text()
    assert "Estimated wrong labels" in page
    assert rows[0]["why"].startswith(f"looks like {rows[0]['suggested_label']}")


def test_planted_noise_is_judged_and_told(data, capsys):
    command = ["audit", data, *QUICK, "--split", "test", "--plant", "sym-20", "--passes", "1"]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["planted"]["true_noise_rate"] == 0.2
    assert summary["planted"]["auc"] > 0.9
    assert main([*command, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "planted: 20.0% wrong" in " ".join(shown.split())
    assert "looks like" in shown


def test_programs_are_told_where_the_noise_rate_is_not_to_be_relied_on(data, tmp_path, capsys):
    poor = [*QUICK, "--passes", "1", "--plant", "sym-60"]  # of three classes: next to nothing can be learnt
    assert main(["audit", data, *poor, "--out", str(tmp_path / "a"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["caution"]
    assert "Do not rely on the noise rate" in told
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["caution"] == told


@pytest.fixture(scope="module")
def partly_known(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As `data`, with the true labels of the first hundred."""
    images, given, true = planted()
    path = tmp_path_factory.mktemp("data") / "known.npz"
    known = np.where(np.arange(len(true)) < 100, true, -1)
    np.savez(path, train_images=images, train_labels=given, train_true_labels=known, class_names=np.array(CLASSES))
    return str(path)


def test_where_true_labels_are_known_the_audit_is_judged_by_them(partly_known, capsys):
    _, given, true = planted()
    command = ["audit", partly_known, *QUICK, "--passes", "1"]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert "planted" not in summary
    assert summary["known"]["samples"] == 100
    assert summary["known"]["true_noise_rate"] == pytest.approx((given != true)[:100].mean())
    assert summary["known"]["auc"] > 0.8
    assert main([*command, "--quiet"]) == 0
    assert "by the true labels that the data have of 100: " in " ".join(capsys.readouterr().out.split())


def test_noise_is_planted_in_true_labels_where_they_are_known(partly_known, tmp_path):
    _, given, true = planted()
    command = ["audit", partly_known, *QUICK, "--passes", "1", "--plant", "sym-20", "--out", str(tmp_path / "a")]
    assert main([*command, "--quiet"]) == 0
    rows = sorted(rows_of(tmp_path / "a" / "labels.csv"), key=lambda row: int(row["row"]))
    best = np.where(np.arange(len(true)) < 100, true, given)
    assert sum(row["label"] != CLASSES[label] for row, label in zip(rows, best, strict=True)) == 30


def test_a_limit_takes_some_samples_and_says_which(data, capsys, tmp_path):
    assert main(["audit", data, *QUICK, "--limit", "60", "--passes", "1", "--out", str(tmp_path / "a"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 60
    names = [row["name"] for row in rows_of(tmp_path / "a" / "labels.csv")]
    assert len(set(names)) == 60
    assert all(name.startswith("train ") for name in names)


def test_corrections_go_on_from_the_folder(data, audited, tmp_path, capsys):
    rows = rows_of(audited / "suspects.csv")
    for row in rows:
        row["corrected_label"] = row["suggested_label"]
    corrected = tmp_path / "corrected.csv"
    with corrected.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    before = json.loads((audited / "summary.json").read_text())
    command = ["audit", data, *QUICK, "--out", str(audited)]
    assert main([*command, "--corrections", str(corrected)]) == 0
    after = json.loads((audited / "summary.json").read_text())
    assert after["checked"] == len(rows)
    assert after["suspects"] < before["suspects"] / 2
    assert after["noise_rate"] < before["noise_rate"] / 2
    told = capsys.readouterr()
    assert "pass 1 of 2: went on with" in told.err
    assert f"of the {150 - len(rows)} labels that nobody has checked ({len(rows)} are)" in " ".join(told.out.split())
    labels = {row["row"]: row for row in rows_of(audited / "labels.csv")}
    for row in rows:
        assert labels[row["row"]]["label"] == row["corrected_label"]
        assert labels[row["row"]]["original_label"] == row["given_label"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume"], "--resume, --corrections and --force need --out FOLDER"),
        (["--limit", "1"], "--limit should be at least 2 samples, but got 1"),
        (["--passes", "0"], "passes should be a whole number, at least 1, but got 0"),
        (["--plant", "pink-3"], 'noise should be "none"'),
        (["--plant", "sym-0"], "but sym-0 puts 0 of 150 wrong; choose another rate or more samples"),
    ],
)
def test_wrong_words_are_told_before_the_work(words, message, data, capsys):
    assert main(["audit", data, *QUICK, *words]) == 2
    assert message in capsys.readouterr().err


def test_an_audit_is_not_overwritten_unasked(data, audited, capsys, tmp_path):
    command = ["audit", data, *QUICK, "--out", str(audited)]
    assert main(command) == 2
    assert "holds an audit; say --resume" in capsys.readouterr().err
    assert main([*command, "--resume", "--quiet"]) == 0
    empty = tmp_path / "empty.csv"
    empty.write_text("row,corrected_label\n1,\n")
    assert main([*command, "--corrections", str(empty)]) == 2
    assert "corrects nothing" in capsys.readouterr().err
    assert main([*command, "--force", "--passes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == 0


def test_the_options_of_an_audit_need_not_be_said_again(data, tmp_path, capsys):
    folder, words = tmp_path / "a", ["--limit", "80", "--plant", "sym-20", "--seed", "3", "--passes", "1"]
    assert main(["audit", data, *QUICK, *words, "--out", str(folder), "--quiet"]) == 0
    before = json.loads((folder / "summary.json").read_text())
    row = rows_of(folder / "suspects.csv")[0]
    (tmp_path / "corrected.csv").write_text(f"row,corrected_label\n{row['row']},{row['suggested_label']}\n")
    again = ["audit", data, "--out", str(folder), "--corrections", str(tmp_path / "corrected.csv")]
    capsys.readouterr()
    assert main([*again, "--seed", "4"]) == 2  # what is said counts
    assert "seed is 3 there and 4 here" in capsys.readouterr().err
    assert main(again) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "as the audit was begun: --limit 80 --passes 1 --parts 1 --memory 24" in told
    assert "--seed 3 --set flip=false --set online_lr=0.02 --plant sym-20" in told
    after = json.loads((folder / "summary.json").read_text())
    assert (after["samples"], after["checked"], after["settings"]) == (80, 1, before["settings"])
    assert main(["audit", data, "--out", str(folder), "--resume", "--quiet"]) == 0  # they stay known


def test_an_audit_knows_its_data(data, tmp_path, capsys, monkeypatch):
    shutil.copy(data, tmp_path / "mine.npz")
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "mine.npz", *QUICK, "--passes", "1", "--out", "a", "--quiet"]) == 0
    labels = (tmp_path / "a" / "labels.csv").read_text()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")  # from any folder
    assert main(["audit", "--out", "../a", "--resume"]) == 0
    assert f"as the audit was begun: {tmp_path / 'mine.npz'} --passes 1" in capsys.readouterr().err
    assert (tmp_path / "a" / "labels.csv").read_text() == labels
    (tmp_path / "mine.npz").rename(tmp_path / "moved.npz")
    assert main(["audit", "--out", "../a", "--resume", "--quiet"]) == 2
    told = "if the data have moved, say where they are: `puridiver audit DATA --out ../a --resume`"
    assert told in capsys.readouterr().err
    assert main(["audit", "../moved.npz", "--out", "../a", "--resume", "--quiet"]) == 0
    assert main(["audit", "--out", "../a", "--resume", "--quiet"]) == 0  # which it remembers


def test_an_audit_of_nothing_is_told(audited, tmp_path, capsys):
    for words, message in (
        ([], "name the data to audit, as in `puridiver audit my-images.npz`"),
        (["--out", str(tmp_path), "--resume"], "to go on with: look for a slip in its name, or name the data"),
        (["--out", str(audited), "--force"], "name the data to audit"),
    ):
        assert main(["audit", *words]) == 2
        assert message in capsys.readouterr().err
    shutil.copytree(audited, tmp_path / "old")
    index = json.loads((tmp_path / "old" / "audit.json").read_text())
    del index["asked"]["data"]
    (tmp_path / "old" / "audit.json").write_text(json.dumps(index))
    assert main(["audit", "--out", str(tmp_path / "old"), "--resume"]) == 2
    assert "is of a version that did not keep where its data are" in capsys.readouterr().err


def test_an_interrupted_audit_says_how_it_goes_on(data, tmp_path, monkeypatch, capsys):
    def interrupted(*anything: object) -> None:
        raise KeyboardInterrupt

    command = ["audit", data, *QUICK, "--passes", "1", "--out", str(tmp_path / "a")]
    with monkeypatch.context() as patched:
        patched.setattr("puridiver.auditing.folder.testify", interrupted)
        patched.setattr("puridiver.auditing.passes.testify", interrupted)
        assert main([*command, "--force"]) == 130
    told = capsys.readouterr().err
    assert f"--out {tmp_path / 'a'} --resume" in told
    assert "--force" not in told
    assert main([*command, "--resume", "--quiet"]) == 0


@pytest.mark.usefixtures("forgotten_plugins")
def test_learners_may_have_a_network_of_ones_own(data, tmp_path, capsys):
    """Which must be the same for the audit to go on."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(EXAMPLE.read_text())
    command = ["audit", data, *QUICK, "--passes", "1", "--out", str(tmp_path / "a"), "--quiet", "--network", "patches"]
    assert main([*command, "--plugin", str(plugin)]) == 0
    assert json.loads((tmp_path / "a" / "audit.json").read_text())["network"] == "patches"
    assert main([*command, "--plugin", str(plugin), "--resume"]) == 0
    begun = (tmp_path / "a" / "audit.json").read_text()
    known = NETWORKS.pop("patches")
    assert main([*command, "--resume"]) == 2  # nothing is written without the plugin
    assert "one of your own needs its plugin" in capsys.readouterr().err
    assert (tmp_path / "a" / "audit.json").read_text() == begun
    NETWORKS["patches"] = known
    assert main([*command, "--resume"]) == 0
    plugins._loaded.clear()
    plugin.write_text(EXAMPLE.read_text() + "# edited")
    assert main([*command, "--plugin", str(plugin), "--resume"]) == 2
    assert "holds another audit: code of network patches is" in capsys.readouterr().err


def test_a_folder_of_images_is_audited_whole_and_bad_files_are_named_or_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    for number in range(24):
        folder = tmp_path / "pictures" / ("light" if number % 2 else "dark")
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 200 if number % 2 else 30).save(folder / f"{number}.png")
    (tmp_path / "pictures" / "dark" / "bad.jpg").write_text("no image")
    command = ["audit", str(tmp_path / "pictures"), "--image-size", "8", "--epochs", "1", "--quiet", "--json"]
    command += ["--data-root", str(tmp_path / "cache")]
    assert main(command) == 2
    assert "dark/bad.jpg" in capsys.readouterr().err
    assert main([*command, "--bad-files", "skip"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 24


def test_a_folder_of_one_class_is_refused_before_the_work(tmp_path, capsys):
    from PIL import Image

    folder = tmp_path / "pictures" / "only"
    folder.mkdir(parents=True)
    for number in range(4):
        Image.new("L", (8, 8), 40 * number).save(folder / f"{number}.png")
    assert main(["audit", str(tmp_path / "pictures"), "--image-size", "8", "--data-root", str(tmp_path / "c")]) == 2
    assert "at least 2 classes" in capsys.readouterr().err


def test_an_npz_without_a_test_part_is_enough(data, tmp_path, capsys):
    whole = np.load(data)
    path = tmp_path / "train.npz"
    np.savez(path, train_images=whole["train_images"], train_labels=whole["train_labels"])
    assert main(["audit", str(path), *QUICK, "--passes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 150
    assert main(["audit", str(path), *QUICK, "--split", "test"]) == 2
    assert "test_images, test_labels" in capsys.readouterr().err


def test_on_a_cpu_the_small_network_is_the_default_for_every_image_size():
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    images, labels = np.zeros((4, 32, 32, 3), np.uint8), np.arange(4) % 2
    source = dataclasses.replace(from_arrays(images, labels, images, labels), defaults={"network": "resnet18"})
    for words, expected in ((["--device", "cpu"], "small"), (["--network", "resnet32"], "resnet32")):
        args = parser.parse_args(["audit", "x", *words])
        recall(args, Console(stderr=True))
        assert settings_for(args, source).network == expected


def test_what_is_planted_is_counted_among_what_nobody_has_checked():
    _, given, true = planted()
    evidence = Evidence(np.zeros((1, 150, 3)), np.ones((1, 150)), np.zeros((1, 150), int), np.zeros((150, 3)))
    checked = given != true
    checked[np.flatnonzero(checked)[:5]] = False
    report = judge(evidence, np.where(checked, true, given), CLASSES, AuditSettings(), given, checked)
    assert found_of_truth(report, true)["true_noise_rate"] == 5 / (150 - checked.sum())
    clean = judge(evidence, true, CLASSES, AuditSettings(), given, given != true)
    assert truth_words(found_of_truth(clean, true), "planted") == "planted: 0.0% wrong among what nobody has checked"


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_corrected_labels_of_files_can_be_learnt_from(kind: str, tmp_path: Path, capsys) -> None:
    from PIL import Image

    rows = ["path,label"]
    for number in range(24):
        name = f"{'light' if number % 2 else 'dark'}/{number}.png"
        (tmp_path / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 200 if number % 2 else 30).save(tmp_path / "pictures" / name)
        rows.append(f"{name},{name.partition('/')[0]}")
    (tmp_path / "pictures" / "mine.csv").write_text("\n".join(rows) + "\n")
    place = tmp_path / "pictures" / ("mine.csv" if kind == "table" else "")
    words = ["audit", str(place), "--image-size", "8", "--epochs", "1", "--data-root", str(tmp_path / "c"), "--quiet"]
    (tmp_path / "right.csv").write_text("row,corrected_label\n0,light\n")
    assert main([*words, "--out", str(tmp_path / "out"), "--corrections", str(tmp_path / "right.csv")]) == 0
    again = load(str(tmp_path / "out" / "labels.csv"), tmp_path / "c", FileOptions(image_size=8, test_share=0))
    assert len(again.train) == 24
    bright = again.train.images.float().mean(dim=(1, 2, 3)) > 100
    fits = (again.train.labels == again.class_names.index("light")) == bright
    assert (~fits).nonzero().tolist() == [[0]]  # the one that was "corrected"


def test_the_table_of_labels_takes_the_place_of_the_data(tmp_path: Path) -> None:
    """Times, what is known of true labels, and the test part are in it."""
    from PIL import Image

    rows = ["path,label,true_label,timestamp,split"]
    for number in range(18):
        Image.new("L", (8, 8), 200 if number % 2 else 30).save(tmp_path / f"{number}.png")
        label, part = ("dark", "light")[number % 2], "test" if number >= 12 else "train"
        rows.append(f"{number}.png,{label},{label if number == 3 else ''},2024-05-01T12:00:{number:02},{part}")
    (tmp_path / "mine.csv").write_text("\n".join(rows) + "\n")
    words = ["--image-size", "8", "--epochs", "1", "--data-root", str(tmp_path / "c"), "--quiet"]
    before = load(str(tmp_path / "mine.csv"), tmp_path / "c", FileOptions(image_size=8))
    for split in ("train", "test"):
        folder = tmp_path / split
        assert main(["audit", str(tmp_path / "mine.csv"), *words, "--split", split, "--out", str(folder)]) == 0
        after = load(str(folder / "labels.csv"), tmp_path / "c", FileOptions(image_size=8))
        for one, other in ((before.train, after.train), (before.test, after.test)):
            assert torch.equal(one.images, other.images)
            assert torch.equal(one.labels, other.labels)
            assert torch.equal(one.times, other.times)
        assert torch.equal(before.train.true_labels, after.train.true_labels)
    assert main(["audit", str(tmp_path / "mine.csv"), *words, "--limit", "6", "--out", str(tmp_path / "some")]) == 0
    assert "split" not in (tmp_path / "some" / "labels.csv").read_text().splitlines()[0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes for a name")
def test_test_files_whose_names_cannot_be_written_are_left_out_of_the_table(tmp_path: Path, caplog) -> None:
    from PIL import Image

    for part in ("train", "test"):
        for number in range(8):
            folder = tmp_path / "pictures" / part / "ab"[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), 200 if number % 2 else 30).save(folder / f"{number}.png")
    shutil.copy(folder / "7.png", os.fsencode(folder) + b"/caf\xe9.png")
    words = ["--image-size", "8", "--epochs", "1", "--data-root", str(tmp_path / "c"), "--quiet"]
    assert main(["audit", str(tmp_path / "pictures"), *words, "--out", str(tmp_path / "out")]) == 0
    assert "left out of the table of labels, since their names are no UTF-8: 1" in caplog.text
    again = load(str(tmp_path / "out" / "labels.csv"), tmp_path / "c", FileOptions(image_size=8))
    assert (len(again.train), len(again.test)) == (8, 8)
