"""`puridiver learn`: a saved learner goes on with new images."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from puridiver import Learner
from puridiver.cli import main
from tests.learner_samples import differing, patterns, tensors_of, tiny_learner
from tests.wild import speckled, write_classes

SHORT = ("--memory", "20", "--network", "small", "--device", "cpu", "--epochs", "1", "--image-size", "8", "--quiet")


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on pictures in red, green and blue."""
    place = tmp_path_factory.mktemp("first")
    write_classes(place / "pictures", 12)
    words = ["run", "--data", str(place / "pictures"), "--test-share", "0.2", *SHORT, "--data-root", str(place)]
    assert main([*words, "--out", str(place / "run")]) == 0
    return place / "run"


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """New pictures, of a class more."""
    folder = write_classes(tmp_path / "more", 8, first_seed=700)
    (folder / "grey").mkdir()
    for i in range(6):
        speckled((120, 120, 120), 50 + i).save(folder / "grey" / f"{i}.png")
    return folder


def learn(learner: Path, data: Path, out: Path, *words: str) -> int:
    command = ["learn", str(learner), str(data), "--out", str(out), "--device", "cpu", "--epochs", "2", "--quiet"]
    return main([*command, "--data-root", str(out.parent), *words])


def test_it_goes_on_with_new_images_and_new_classes(learner, more, tmp_path, capsys):
    before = Learner.load(learner, device="cpu")
    assert learn(learner, more, tmp_path / "now", "--new-classes", "--memory", "30", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    now = Learner.load(tmp_path / "now", device="cpu")
    assert (told["learnt"], told["seen"], told["new_classes"]) == (30, before.seen + 30, ["grey"])
    assert (now.seen, now.classes, len(now.memory)) == (told["seen"], [*before.classes, "grey"], 30)
    assert now.consolidations == before.consolidations + 1
    assert 0 <= told["agreement"] <= 1
    assert differing(tensors_of(before), tensors_of(Learner.load(learner, device="cpu"))) == []
    assert main(["predict", str(tmp_path / "now"), str(more / "grey"), "--device", "cpu"]) == 0


def test_what_the_data_keep_for_testing_is_judged_on_and_not_learnt(learner, tmp_path, capsys):
    write_classes(tmp_path / "more" / "train", 8, first_seed=700)
    write_classes(tmp_path / "more" / "test", 4, first_seed=900)
    assert learn(learner, tmp_path / "more", tmp_path / "now") == 0
    told = capsys.readouterr().out
    assert "learnt from 24 images, " in told
    assert "accuracy on the data's test images: " in told
    assert f"saved in {tmp_path / 'now'}" in told


def test_a_learner_may_be_replaced_by_itself_and_else_only_by_force(learner, more, tmp_path, capsys):
    shutil.rmtree(more / "grey")
    place = tmp_path / "now"
    assert learn(learner, more, place) == 0
    seen = Learner.load(place, device="cpu").seen
    assert learn(place, more, place, "--epochs", "0") == 0
    assert Learner.load(place, device="cpu").seen == seen + 24
    assert learn(learner, more, place) == 2
    assert "holds another learner: say --force" in capsys.readouterr().err
    assert learn(learner, more, place, "--force") == 0
    assert Learner.load(place, device="cpu").seen == seen
    assert learn(learner, more, learner) == 2
    assert "holds a run, which stays as it is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "does not know the class grey: say --new-classes"),
        (("--new-classes", "--batch", "0"), "--batch should be at least 1"),
        (("--new-classes", "--order", "time"), "--order time needs data that tell when"),
        (("--new-classes", "--memory", "5"), "memory should be a whole number, at least the 20"),
    ],
)
def test_bad_input_is_told_and_nothing_is_written(words, told, learner, more, tmp_path, capsys):
    assert learn(learner, more, tmp_path / "now", *words) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "now").exists()


def test_a_folder_of_other_files_is_refused_before_the_work(learner, more, tmp_path, monkeypatch, capsys):
    (tmp_path / "now").mkdir()
    (tmp_path / "now" / "notes.txt").write_text("mine")
    labels = observed(monkeypatch)
    assert learn(learner, more, tmp_path / "now", "--new-classes") == 2
    assert "has other files and no learner (notes.txt)" in capsys.readouterr().err
    assert labels == []


def test_an_interrupt_leaves_everything_as_it_was(learner, more, tmp_path, monkeypatch, capsys):
    def stop(*anything: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Learner, "consolidate", stop)
    assert learn(learner, more, tmp_path / "now", "--new-classes") == 130
    assert "nothing is saved; " in capsys.readouterr().err
    assert not (tmp_path / "now").exists()


def observed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    labels: list[Any] = []
    observe = Learner.observe

    def watched(self: Learner, images: Any, given: Any, names: Any) -> None:
        labels.extend(given)
        observe(self, images, given, names)

    monkeypatch.setattr(Learner, "observe", watched)
    return labels


def test_images_come_in_the_order_of_time_as_listed_or_at_random(learner, more, tmp_path, monkeypatch):
    shutil.rmtree(more / "grey")
    files = sorted(more.rglob("*.*"))
    times = np.random.default_rng(0).permutation(len(files))
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "timestamp"))
        writer.writerows((path, path.parent.name, when) for path, when in zip(files, times.tolist(), strict=True))
    names = [path.parent.name for path in files]
    labels = observed(monkeypatch)
    for words, expected in (
        ((), [names[row] for row in np.argsort(times)]),
        (("--order", "listed"), names),
        (("--order", "random", "--seed", "3"), [names[row] for row in np.random.default_rng(3).permutation(24)]),
    ):
        labels.clear()
        assert learn(learner, table, tmp_path / "now", "--force", *words) == 0
        assert labels == expected


def test_the_memory_is_trained_on_in_between_too(learner, more, tmp_path):
    before = Learner.load(learner, device="cpu").consolidations
    assert learn(learner, more, tmp_path / "now", "--new-classes", "--every", "10", "--batch", "5") == 0
    assert Learner.load(tmp_path / "now", device="cpu").consolidations == before + 3


def test_a_learner_of_numbers_and_grey_images_takes_arrays_and_files(tmp_path, capsys):
    images, labels = patterns(3, 8, seed=1)
    small = tiny_learner()
    small.observe(images, labels)
    small.save(tmp_path / "small")
    np.savez(tmp_path / "more.npz", train_images=images, train_labels=labels)
    assert learn(tmp_path / "small", tmp_path / "more.npz", tmp_path / "now") == 0
    assert Learner.load(tmp_path / "now", device="cpu").seen == 2 * len(images)
    np.savez(tmp_path / "large.npz", train_images=np.zeros((4, 9, 9, 1), np.uint8), train_labels=np.arange(4) % 2)
    assert learn(tmp_path / "small", tmp_path / "large.npz", tmp_path / "other") == 2
    assert "has images of 9x9x1, but the learner's are" in capsys.readouterr().err
    for number, colour in enumerate(("red", "green", "blue")):
        (tmp_path / "digits" / str(number)).mkdir(parents=True)
        speckled((80 * number, 90, 20), number).save(tmp_path / "digits" / str(number) / f"{colour}.png")
    assert learn(tmp_path / "now", tmp_path / "digits", tmp_path / "now") == 0
    (tmp_path / "digits" / "seven").mkdir()
    speckled((9, 9, 9), 5).save(tmp_path / "digits" / "seven" / "x.png")
    assert learn(tmp_path / "now", tmp_path / "digits", tmp_path / "now", "--new-classes") == 2
    assert "classes are numbers, so that 'seven' cannot become one" in capsys.readouterr().err


def test_what_the_memory_holds_can_be_traced_to_its_files(learner, more, tmp_path):
    assert learn(learner, more, tmp_path / "now", "--new-classes", "--memory", "30") == 0
    before, now = (Learner.load(folder, device="cpu") for folder in (learner, tmp_path / "now"))
    for place, held in ((learner.parent / "pictures", before.held_ids()), (more, now.held_ids())):
        names = [name for arrival, name in held.items() if place != more or arrival >= before.seen]
        assert names
        assert all((place / name).is_file() for name in names)
