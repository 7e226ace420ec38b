"""`puridiver predict`: the learner that a run leaves names the classes of new images."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from PIL import Image

from puridiver import Learner
from puridiver.cli import main
from tests.cli.conftest import small_learner
from tests.learner_samples import patterns
from tests.wild import write_classes


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_it_is_what_the_learner_itself_says(picture_run, tmp_path, capsys):
    new = write_classes(tmp_path / "new", 3, first_seed=900)
    assert main(["predict", str(picture_run), str(new), "--probabilities", "--device", "cpu"]) == 0
    rows = read(capsys.readouterr().out)
    assert sorted(row["image"] for row in rows) == sorted(str(path) for path in new.glob("*/*"))
    for row in rows:
        p = {name: float(row[name]) for name in ("blue", "green", "red")}
        assert sum(p.values()) == pytest.approx(1, abs=1e-3)
        assert float(row["probability"]) == max(p.values()) == p[row["label"]]
    images = np.random.default_rng(0).integers(0, 255, (1_001, 8, 8, 3), dtype=np.uint8)  # more than one batch
    np.savez(tmp_path / "mine.npz", images=images)
    words = ["predict", str(picture_run), str(tmp_path / "mine.npz"), "--out", str(tmp_path / "new" / "p.csv")]
    assert main(words) == 0
    assert main([*words, "--force"]) == 0
    rows = read((tmp_path / "new" / "p.csv").read_text())
    assert [row["label"] for row in rows] == Learner.load(picture_run, device="cpu").predict(images).tolist()
    assert rows[3]["image"] == f"{tmp_path}/mine.npz:3"


def test_a_saved_learner_of_grey_images_takes_files_and_arrays(tmp_path, capsys):
    learner = small_learner()
    images, labels = patterns(16)
    learner.observe(images, labels)
    learner.save(tmp_path / "saved")
    Image.fromarray(np.repeat(images[0], 3, axis=2)).save(tmp_path / "colour.png")
    np.savez(tmp_path / "flat.npz", images=images[:2, ..., 0])
    words = [str(tmp_path / "colour.png"), str(tmp_path / "flat.npz")]
    assert main(["predict", str(tmp_path / "saved"), *words, "--device", "cpu"]) == 0
    expected = [str(label) for label in learner.predict(images[[0, 0, 1]])]
    assert [row["label"] for row in read(capsys.readouterr().out)] == expected


def test_formulas_in_names_are_guarded_and_control_codes_stay_out_of_a_terminal(tmp_path, monkeypatch, capsys):
    learner = small_learner(classes=["=1+1", "\x1b[2J", "@c"])
    images, labels = patterns(12)
    learner.observe(images, [learner.classes[label] for label in labels])
    learner.save(tmp_path / "saved")
    monkeypatch.chdir(tmp_path)
    Image.fromarray(images[0, ..., 0]).save("=cmd.png")
    assert main(["predict", "saved", "=cmd.png", "--probabilities", "--out", "p.csv", "--device", "cpu"]) == 0
    heading, row = (line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines())
    assert heading[3:] == ["'=1+1", "\x1b[2J", "'@c"]
    assert row[0] == "'=cmd.png"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    capsys.readouterr()
    assert main(["predict", "saved", "=cmd.png", "--probabilities", "--device", "cpu"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_learner_that_has_diverged_names_no_class(tmp_path, capsys):
    learner = small_learner(online_lr=1e9)
    images, labels = patterns(40)
    learner.observe(images, labels)
    learner.save(tmp_path / "learner")
    np.savez(tmp_path / "new.npz", images=images[:2])
    assert main(["predict", str(tmp_path / "learner"), str(tmp_path / "new.npz")]) == 2
    shown = capsys.readouterr()
    assert "diverged" in shown.err
    assert not shown.out


def test_bad_files_are_named_or_left_out(picture_run, tmp_path, capsys):
    new = write_classes(tmp_path / "new", 1)
    (new / "broken.png").write_bytes(b"no picture")
    (new / "another.png").write_bytes(b"nor this")
    assert main(["predict", str(picture_run), str(new)]) == 2
    told = capsys.readouterr().err
    assert "broken.png" in told
    assert "another.png" in told
    assert main(["predict", str(picture_run), str(new), "--bad-files", "skip"]) == 0
    told = capsys.readouterr()
    assert len(read(told.out)) == 3
    assert "left out" in told.err
