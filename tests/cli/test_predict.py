"""`puridiver predict`: what a finished run leaves is a learner that can be put to work."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from puridiver import Learner
from puridiver.cli import main
from puridiver.learner import storage
from puridiver.runs.folder import RunFolder
from tests.learner_samples import patterns, tiny_learner

SHORT = ["--epochs", "1", "--stream-limit", "16", "--test-limit", "40", "--no-diversity", "--quiet", "--tasks", "2"]

SHAPES = ("circle", "ring", "square")


def pictures(folder: Path, n: int = 30) -> Path:
    """A folder for each class, of grey PNGs of several sizes."""
    images, labels = patterns(n)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        where = folder / SHAPES[label] / f"{number}.png"
        where.parent.mkdir(parents=True, exist_ok=True)
        side = 8 * (1 + number % 3)
        Image.fromarray(image[..., 0]).resize((side, side), Image.Resampling.NEAREST).save(where)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predict")
    pictures(folder / "pictures", 90)
    words = ["run", "--data", str(folder / "pictures"), "--test-share", "0.2", "--image-size", "8", "--epochs", "12"]
    words += ["--network", "small", "--memory", "40", "--data-root", str(folder / "root"), "--device", "cpu", "--quiet"]
    assert main([*words, "--out", str(folder / "run")]) == 0
    return folder


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_a_run_leaves_a_learner_that_names_the_classes_of_new_files(run, tmp_path, capsys):
    new = pictures(tmp_path / "new", 24)
    assert main(["predict", str(run / "run"), str(new), "--probabilities", "--device", "cpu"]) == 0
    rows = read(capsys.readouterr().out)
    assert sorted(row["image"] for row in rows) == sorted(str(path) for path in new.glob("*/*.png"))
    assert np.mean([row["label"] == Path(row["image"]).parent.name for row in rows]) > 0.6
    for row in rows:
        p = {name: float(row[name]) for name in SHAPES}
        assert sum(p.values()) == pytest.approx(1, abs=1e-3)
        assert float(row["probability"]) == max(p.values()) == p[row["label"]]


def test_it_is_what_the_learner_itself_says(run, tmp_path):
    learner = Learner.load(run / "run" / "learner", device="cpu")
    assert tuple(learner.classes) == SHAPES
    images = np.repeat(patterns(10)[0], 3, axis=3)
    np.savez(tmp_path / "mine.npz", images=images)
    assert main(["predict", str(run / "run"), str(tmp_path / "mine.npz"), "--out", str(tmp_path / "p.csv")]) == 0
    rows = read((tmp_path / "p.csv").read_text())
    assert [row["label"] for row in rows] == learner.predict(images).tolist()
    assert rows[3]["image"] == f"{tmp_path}/mine.npz:3"


def test_a_saved_learner_of_grey_images_takes_files_too(tmp_path, capsys):
    learner = tiny_learner()
    images, labels = patterns(16)
    learner.observe(images, labels)
    learner.save(tmp_path / "saved")
    Image.fromarray(np.repeat(images[0], 3, axis=2)).save(tmp_path / "colour.png")
    assert main(["predict", str(tmp_path / "saved"), str(tmp_path / "colour.png"), "--device", "cpu"]) == 0
    (row,) = read(capsys.readouterr().out)
    assert row["label"] == str(learner.predict(images[:1])[0])


def test_a_learner_that_has_diverged_names_no_class(tmp_path, capsys):
    learner = tiny_learner(online_lr=1e30)
    learner.observe(*patterns(40))
    learner.save(tmp_path / "learner")
    pictures(tmp_path / "new", 3)
    assert main(["predict", str(tmp_path / "learner"), str(tmp_path / "new")]) == 2
    shown = capsys.readouterr()
    assert "its training has diverged" in shown.err
    assert not shown.out


def test_bad_files_are_named_or_left_out(run, tmp_path, capsys):
    new = pictures(tmp_path / "new", 3)
    (new / "broken.png").write_bytes(b"no picture")
    (new / "another.png").write_bytes(b"nor this")
    assert main(["predict", str(run / "run"), str(new)]) == 2
    told = capsys.readouterr().err
    assert "2 files cannot be read" in told
    assert "broken.png" in told
    assert "another.png" in told
    assert main(["predict", str(run / "run"), str(new), "--bad-files", "skip"]) == 0
    told = capsys.readouterr()
    assert len(read(told.out)) == 3
    assert "left out" in told.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["nowhere", "x.png"], "there is no folder nowhere"),
        (["RUN", "nowhere.png"], "there is no nowhere.png"),
        (["RUN", "EMPTY"], "holds no image"),
        (["RUN", "SCALAR"], "images should have the shape"),
        (["RUN", "SMALL"], "small.npz: images holds 2 images of 4x4x3, but the learner's are "),
        (["RUN", "TEXT"], "text.npz is not an .npz file"),
        (["RUN", "SMALL", "--out", "no-folder/p.csv"], "no-folder/p.csv cannot be written"),
        (["RUN", "KEYS"], "should hold an array called images or test_images or train_images"),
    ],
)
def test_what_is_not_there_is_told(words, named, run, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "keys.npz", x=np.zeros(3))
    np.savez(tmp_path / "scalar.npz", images=np.zeros(()))
    np.savez(tmp_path / "small.npz", images=np.zeros((2, 4, 4, 3), np.uint8))
    (tmp_path / "text.npz").write_text("no arrays")
    made = {name.upper(): str(tmp_path / f"{name}.npz") for name in ("scalar", "small", "text")}
    places = {**made, "RUN": str(run / "run"), "EMPTY": str(tmp_path / "empty"), "KEYS": str(tmp_path / "keys.npz")}
    assert main(["predict", *(places.get(word, word) for word in words)]) == 2
    assert named in capsys.readouterr().err


def test_a_run_may_keep_no_learner(tmp_path, capsys):
    assert main(["run", *SHORT, "--out", str(tmp_path / "run"), "--no-keep-learner"]) == 0
    assert main(["predict", str(tmp_path / "run"), "x.png"]) == 2
    assert "has no learner: its run did not keep one (--force runs it anew)" in capsys.readouterr().err
    assert main(["run", *SHORT, "--out", str(tmp_path / "run"), "--force"]) == 0
    assert Learner.load(tmp_path / "run" / "learner", device="cpu").classes == list(range(10))
    assert main(["run", *SHORT, "--out", str(tmp_path / "run"), "--force", "--no-keep-learner"]) == 0
    assert not (tmp_path / "run" / "learner").exists()  # that of an older run


def test_a_learner_that_was_half_saved_is_none(run, tmp_path, capsys):
    """A run that is killed while it saves its learner has not finished."""
    shutil.copytree(run / "run", tmp_path / "killed")
    (tmp_path / "killed" / "summary.json").unlink()
    assert main(["predict", str(tmp_path / "killed"), "x.png"]) == 2
    assert "has no learner: its run has not finished" in capsys.readouterr().err


def test_a_disk_too_full_for_the_learner_does_not_cost_the_figures(tmp_path, monkeypatch, caplog):
    save = storage.save

    def full(folder, *rest):
        if folder.name == "learner":
            folder.mkdir()
            raise OSError(28, "No space left on device")
        return save(folder, *rest)

    monkeypatch.setattr(storage, "save", full)
    words = ["run", *SHORT, "--out", str(tmp_path / "run")]
    assert main(words) == 1  # whoever goes on with the learner must know
    figures = (tmp_path / "run" / "summary.json").read_bytes()
    assert not (tmp_path / "run" / "learner").exists()
    assert "the learner is not kept" in caplog.text
    assert main([*words, "--resume"]) == 1  # the disk is as full as before
    shutil.copytree(tmp_path / "run", tmp_path / "damaged")
    for tensors in (tmp_path / "damaged" / "checkpoint").rglob("*.safetensors"):
        tensors.write_bytes(b"x")
    assert (
        main(["run", *SHORT, "--out", str(tmp_path / "damaged"), "--resume"]) == 1
    )  # its figures are shown all the same
    monkeypatch.setattr(storage, "save", save)
    assert main([*words, "--resume"]) == 0
    assert (tmp_path / "run" / "summary.json").read_bytes() == figures
    assert not (tmp_path / "run" / "checkpoint").exists()
    straight = tmp_path / "straight"
    assert main(["run", *SHORT, "--out", str(straight)]) == 0
    late, early = (storage.load(folder / "learner") for folder in (tmp_path / "run", straight))
    assert late[0] == early[0]
    assert all(torch.equal(late[1][name], early[1][name]) for name in early[1])


def test_a_disk_too_full_for_the_memorys_images_does_not_cost_the_figures(tmp_path, monkeypatch, caplog):
    write = RunFolder.write_bytes

    def full(self, name, content):
        if name == "memory.safetensors":
            raise OSError(28, "No space left on device")
        return write(self, name, content)

    monkeypatch.setattr(RunFolder, "write_bytes", full)
    assert main(["run", *SHORT, "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "summary.json").exists()
    assert "the memory's images are not kept" in caplog.text
    assert main(["report", str(tmp_path / "run")]) == 0  # without its gallery


def test_the_images_themselves_are_never_written_over(run, tmp_path, capsys):
    image = tmp_path / "one.png"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(image)
    before = image.read_bytes()
    assert main(["predict", str(run / "run"), str(image), "--out", str(image)]) == 2
    assert "should be another file than the images" in capsys.readouterr().err
    assert image.read_bytes() == before
    assert main(["predict", str(run / "run"), str(image), "--out", str(tmp_path)]) == 2
    assert "should be a CSV file, but" in capsys.readouterr().err


def test_only_an_older_table_of_predictions_is_written_over_unasked(run, tmp_path, capsys):
    image, out = tmp_path / "one.png", tmp_path / "table.csv"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(image)
    out.write_text("path,label\none.png,cat\n")
    command = ["predict", str(run / "run"), str(image), "--out", str(out)]
    assert main(command) == 2
    assert "is there, and is no table of predictions: say --force to replace it" in capsys.readouterr().err
    assert out.read_text() == "path,label\none.png,cat\n"
    assert main([*command, "--force"]) == 0
    assert out.read_text().startswith("image,label,probability\n")
    assert main([*command, "--probabilities"]) == 0
    assert main(command) == 0
    out.write_text("")  # as `mktemp` makes it
    assert main(command) == 0
    if Path("/dev/null").exists():
        assert main([*command[:-1], "/dev/null"]) == 0
