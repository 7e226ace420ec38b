"""Data sets known by name: every one by a contract, then each from small files in its official layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from puridiver.data import FileOptions, base, data_sets, find, load, verify
from puridiver.data.base import WRONG
from puridiver.errors import DataError
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.streams import make_stream
from puridiver.streams.published import find_official
from tests.streams.splits import write_json
from tests.web_samples import write_food101n, write_webvision
from tests.wild import write_bad_kinds

OPTIONS = FileOptions(image_size=8)


@pytest.mark.parametrize("name", data_sets())
def test_every_data_set_says_what_it_is_and_whether_it_is_here(name: str, tmp_path: Path) -> None:
    found = find(name)
    assert found.name == name
    assert found.title
    assert found.size
    assert found.home_page.startswith("https://")
    if found.find_folder(tmp_path):
        source = load(name, tmp_path)
        assert source.fingerprint == found.fingerprint
        source.defaults["memory"] = -1  # of this source alone
        assert load(name, tmp_path).defaults["memory"] != -1
        assert verify(name, tmp_path) == []
    else:
        assert len(verify(name, tmp_path)) == 1
        with pytest.raises(DataError, match=name):
            load(name, tmp_path)


# Digits ------------------------------------------------------------------------------------------------------------


def test_digits_are_split_by_class_and_cover_the_bytes() -> None:
    source = load("digits")
    values, labels = load_digits(return_X_y=True)
    assert torch.bincount(source.test.labels).tolist() == [40] * 10
    expected = np.rint(values * 255 / 16)
    found = torch.cat([source.train.images, source.test.images]).reshape(-1, 64).numpy()
    assert sorted(found.tolist()) == sorted(expected.tolist())
    assert expected.max() == 255
    assert len(labels) == len(source.train) + len(source.test)


def test_other_digits_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SPLIT_SEED", 1)
    assert "fingerprint" in verify("digits")[0]


# CIFAR -------------------------------------------------------------------------------------------------------------


def test_cifar_records_are_planes_behind_their_labels(small_cifar: Path) -> None:
    source = load("cifar10", small_cifar)
    assert (len(source.train), len(source.test)) == (50, 10)
    content = (small_cifar / "cifar-10-batches-bin" / "data_batch_2.bin").read_bytes()
    record = np.frombuffer(content, dtype=np.uint8).reshape(10, 3073)[3]
    image = source.train.images[13]
    assert source.train.labels[13] == record[0] == 3
    assert all(image[5, 7, channel] == record[1 + 1024 * channel + 5 * 32 + 7] for channel in range(3))
    assert load("cifar10", small_cifar / "cifar-10-batches-bin").fingerprint == source.fingerprint
    assert "fingerprint" in verify("cifar10", small_cifar)[0]


def test_asymmetric_maps_are_the_usual_ones(small_cifar: Path) -> None:
    source = load("cifar10", small_cifar)
    names, usual = source.class_names, source.asymmetric_map
    assert usual is not None
    pairs = {(names[one], names[other]) for one, other in usual.items()}
    assert pairs >= {("truck", "airplane"), ("dog", "cat"), ("bird", "deer")}
    assert all(usual[other] == one for one, other in usual.items())
    fine = load("cifar100", small_cifar)
    assert fine.asymmetric_map is not None
    following = {fine.class_names[a]: fine.class_names[b] for a, b in fine.asymmetric_map.items()}
    assert (following["apple"], following["worm"], following["whale"]) == ("mushroom", "crab", "beaver")
    assert sorted(following.values()) == sorted(fine.class_names)
    assert fine.train.labels.tolist() == [*range(100), *range(100)]


def test_missing_cut_and_foreign_cifar_files_are_told(small_cifar: Path) -> None:
    path = small_cifar / "cifar-10-batches-bin" / "test_batch.bin"
    content = path.read_bytes()
    path.write_bytes(bytes([200]) + content[1:])
    with pytest.raises(DataError, match="labels from 0 to 9, but the largest is 200"):
        load("cifar10", small_cifar)
    path.write_bytes(content[:-1])
    with pytest.raises(DataError, match=r"should have 30,730 bytes, but has 30,729"):
        load("cifar10", small_cifar)
    path.unlink()
    with pytest.raises(
        DataError, match=r"test_batch.bin should have .* is missing.*puridiver data fetch cifar10 --root"
    ):
        load("cifar10", small_cifar)


# WebVision and Food-101N -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("web")
    write_webvision(root, per_class=2)
    write_food101n(root)
    return root


def test_webvision_is_the_first_fifty_classes_of_google(root: Path) -> None:
    source = load("webvision", root, OPTIONS)
    assert source.class_names[3] == "thing 3 (n00001003)"
    assert source.train.labels.tolist() == [c for c in range(50) for _ in range(2)]
    assert source.test.labels.tolist() == list(range(50))
    assert abs(int(source.train.images[-1, 4, 4, 0]) - 49 * 4) < 40
    assert not source.train.truth_known
    assert "should list 65,944 + 2,500 train and test images, but lists 100 + 50" in verify("webvision", root)[0]


def test_food101n_is_its_verified_lists(root: Path) -> None:
    source = load("food101n", root, OPTIONS)
    assert (len(source.class_names), len(source.train), len(source.test)) == (101, 202, 101)
    assert source.test.names is not None
    assert source.test.names[7] == "images/dish_7/val0.jpg"
    # Each class has an image whose label was found right and one whose label was found wrong.
    assert source.train.true_labels.tolist() == [
        found for c in range(101) for found in ((c, WRONG), (WRONG, c))[c % 2 == 0]
    ]
    assert source.test.verified is not None  # whether a label was found right, in the even classes it was not
    assert source.test.verified.tolist() == [c % 2 == 1 for c in range(101)]
    groups = make_stream(source, n_tasks=source.defaults["tasks"], noise="none").major_classes
    assert [len(group) for group in groups] == [20, 20, 20, 20, 21]


def test_a_run_on_food101n_has_a_purity_and_takes_no_planted_noise(root: Path) -> None:
    source = load("food101n", root, OPTIONS)
    config = RunConfig(
        data="food101n", image_size=8, network="small", recipe="official", memory=101, epochs=1, device="cpu"
    )
    experiment = Experiment(config, source=source)
    summary = experiment.run()
    held = experiment.learner.memory.samples.arrivals
    right = source.train.true_labels[torch.from_numpy(experiment.manifest.order.copy())[held]] >= 0
    assert summary["memory_purity"] == summary["task_purity"][-1] == pytest.approx(float(right.double().mean()))
    assert summary["stream_noise"] == pytest.approx(0.5)
    assert summary["memory_per_true_class"] is None
    assert None not in summary["task_purity"]
    with pytest.raises(ValueError, match="whose true ones are unknown"):
        make_stream(source, noise="sym-20")


def test_a_damaged_list_is_told_with_its_line(tmp_path: Path) -> None:
    listing = write_webvision(tmp_path, per_class=1) / "info" / "train_filelist_google.txt"
    listing.write_text(listing.read_text() + "google/q0001/x.jpg one\n")
    with pytest.raises(DataError, match="line 53, should be a path and a class number"):
        load("webvision", tmp_path, OPTIONS)


def test_published_streams_are_found_by_file_names(root: Path, tmp_path: Path) -> None:
    source = load("webvision", root, OPTIONS)
    made = make_stream(source, n_tasks=10, noise="none", seed=1)
    write_json(tmp_path, source, made)
    found = find_official("official:none:1:listed", source, tmp_path)
    assert found.order.tolist() == made.order.tolist()
    assert found.labels.tolist() == made.labels.tolist()
    assert (found.kind, found.minor_share, found.task_ends) == ("official", 0.1, made.task_ends)


def test_rows_of_files_that_were_left_out_are_passed_over(tmp_path: Path) -> None:
    folder = write_webvision(tmp_path, per_class=2)
    whole = load("webvision", tmp_path, OPTIONS)
    write_json(tmp_path, whole, make_stream(whole, n_tasks=10, noise="none", seed=1))
    bad = write_bad_kinds(tmp_path / "bad")
    (folder / "google" / "q0004" / "4_0.jpg").write_bytes((tmp_path / "bad" / next(iter(bad))).read_bytes())
    source = load("webvision", tmp_path, FileOptions(image_size=8, bad_files="skip"))
    assert len(find_official("official:none:1", source, tmp_path)) == 99
