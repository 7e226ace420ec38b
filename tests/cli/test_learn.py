"""`puridiver learn`: a saved learner goes on with new images."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from puridiver import Learner
from puridiver.cli import learn as learning
from puridiver.cli import main
from tests.cli.conftest import small_learner
from tests.learner_samples import differing, patterns, tensors_of
from tests.wild import speckled, write_classes


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """New pictures, of a class more."""
    folder = write_classes(tmp_path / "more", 8, first_seed=700)
    (folder / "grey").mkdir()
    for i in range(6):
        speckled((120, 120, 120), 50 + i).save(folder / "grey" / f"{i}.png")
    return folder


def learn(learner: Path, data: Path, out: Path, *words: str) -> int:
    command = ["learn", str(learner), str(data), "--out", str(out), "--device", "cpu", "--epochs", "1", "--quiet"]
    return main([*command, "--data-root", str(out.parent), *words])


def test_it_goes_on_with_new_images_and_new_classes(picture_run, more, tmp_path, capsys):
    before = Learner.load(picture_run, device="cpu")
    words = ["--new-classes", "--memory", "30", "--json", "--every", "10"]
    assert learn(picture_run, more, tmp_path / "now", *words) == 0
    told = json.loads(capsys.readouterr().out)
    now = Learner.load(tmp_path / "now", device="cpu")
    assert (told["learnt"], told["seen"], told["new_classes"]) == (30, before.seen + 30, ["grey"])
    assert (now.seen, now.classes, now.capacity) == (told["seen"], [*before.classes, "grey"], 30)
    assert now.consolidations == before.consolidations + 2
    assert differing(tensors_of(before), tensors_of(Learner.load(picture_run, device="cpu"))) == []
    names = [name for arrival, name in now.held_ids().items() if arrival >= before.seen]
    assert names
    assert all((more / name).is_file() for name in names)


def test_the_data_s_test_part_is_not_learnt(picture_run, tmp_path, capsys):
    write_classes(tmp_path / "more" / "train", 8, first_seed=700)
    write_classes(tmp_path / "more" / "test", 4, first_seed=900)
    assert learn(picture_run, tmp_path / "more", tmp_path / "now") == 0
    told = capsys.readouterr().out
    assert "learnt from 24 images, " in told
    assert f"saved in {tmp_path / 'now'}" in told


def test_a_learner_may_be_replaced_by_itself_and_else_only_by_force(picture_run, more, tmp_path, capsys):
    shutil.rmtree(more / "grey")
    place = tmp_path / "now"
    assert learn(picture_run, more, place, "--epochs", "0") == 0
    seen = Learner.load(place, device="cpu").seen
    assert learn(place, more, place, "--epochs", "0") == 0
    assert Learner.load(place, device="cpu").seen == seen + 24
    assert learn(picture_run, more, place) == 2
    assert "holds another learner: add --force" in capsys.readouterr().err
    assert learn(picture_run, more, place, "--force", "--epochs", "0") == 0
    assert Learner.load(place, device="cpu").seen == seen


def test_images_come_in_the_order_of_time_and_else_as_listed(picture_run, more, tmp_path):
    shutil.rmtree(more / "grey")
    files, seen = sorted(more.rglob("*.*")), Learner.load(picture_run, device="cpu").seen
    times = np.random.default_rng(0).permutation(len(files))
    table = pd.DataFrame({"path": files, "label": [path.parent.name for path in files], "timestamp": times})
    for columns, order in ((list(table), np.argsort(times)), (["path", "label"], range(len(files)))):
        table[columns].to_csv(tmp_path / "table.csv", index=False)
        out, words = tmp_path / "now", ["--force", "--epochs", "0", "--memory", "60"]
        assert learn(picture_run, tmp_path / "table.csv", out, *words) == 0
        names = {arrival: name for arrival, name in Learner.load(out).held_ids().items() if arrival >= seen}
        assert [names[arrival] for arrival in sorted(names)] == [str(files[row]) for row in order]


def test_a_learner_of_numbers_and_grey_images_takes_arrays_and_files(tmp_path, capsys):
    images, labels = patterns(3, 8, seed=1)
    small = small_learner()
    small.observe(images, labels)
    small.save(tmp_path / "small")
    np.savez(tmp_path / "more.npz", train_images=images, train_labels=labels)
    assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "now") == 0
    for name in ("0", "1", "7"):
        (tmp_path / "digits" / name).mkdir(parents=True)
        speckled((80, 90, 20), 1).save(tmp_path / "digits" / name / "x.png")
    assert learn(tmp_path / "now", tmp_path / "digits", tmp_path / "now", "--new-classes") == 0
    now = Learner.load(tmp_path / "now", device="cpu")
    assert (now.seen, now.classes) == (2 * len(images) + 3, [0, 1, 2, 7])
    (tmp_path / "digits" / "1").rename(tmp_path / "digits" / "seven")
    assert learn(tmp_path / "now", tmp_path / "digits", tmp_path / "now", "--new-classes") == 2
    assert "labels should be all integers or all strings" in capsys.readouterr().err


@pytest.mark.parametrize("moves", [2, 4])  # amid a training, and in the stream after it
def test_it_saves_on_the_way_and_goes_on_to_the_same_bits(tmp_path, monkeypatch, capsys, moves):
    images, labels = patterns(24, seed=1)
    small_learner().save(tmp_path / "small")
    np.savez(tmp_path / "more.npz", train_images=images, train_labels=labels)
    words = ["--every", "16", "--epochs", "2", "--checkpoint-every", "0"]
    assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "whole", *words) == 0

    def leave(bar, amount, text, told=[]):  # noqa: B006
        told.append(text)
        if len(told) > moves:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(learning.Progress, "advance", leave)
        assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "parts", *words) == 130
    assert "--resume" in capsys.readouterr().err
    assert 0 < Learner.load(tmp_path / "parts", device="cpu").seen <= 24
    assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "parts", *words) == 2
    assert "say --resume, or --force" in capsys.readouterr().err
    assert (
        learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "parts", *words, "--epochs", "1", "--resume") == 2
    )
    assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "parts", *words, "--resume") == 0
    whole, parts = (Learner.load(tmp_path / name, device="cpu") for name in ("whole", "parts"))
    assert differing(tensors_of(whole), tensors_of(parts)) == []
    assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "parts", *words, "--resume") == 2
    assert "nothing that was interrupted" in capsys.readouterr().err
