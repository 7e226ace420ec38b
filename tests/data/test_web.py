"""WebVision and Food-101N from small folders in the published layout, and their published split files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from puridiver.data import SOURCES, FileOptions, load, verify
from puridiver.errors import DataError, ManifestError
from puridiver.runs.config import RunConfig
from puridiver.runs.resolve import resolve
from puridiver.streams import find_official, make_stream
from tests.web_samples import write_food101n, write_splits, write_webvision
from tests.wild import write_bad_kinds

OPTIONS = FileOptions(image_size=8)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("web")
    write_webvision(root)
    write_food101n(root)
    return root


def test_webvision_is_the_first_fifty_classes_of_google(root):
    source = load("webvision", root, OPTIONS)
    assert len(source.class_names) == 50
    assert source.class_names[3] == "thing 3 (n00001003)"
    assert (len(source.train), len(source.test)) == (150, 50)
    assert source.train.labels.tolist() == [c for c in range(50) for _ in range(3)]
    assert source.test.labels.tolist() == list(range(50))
    assert abs(int(source.train.images[-1, 4, 4, 0]) - 49 * 4) < 40
    assert not source.train.truth_known


def test_food101n_is_its_verified_lists(root):
    source = load("food101n", root, OPTIONS)
    assert len(source.class_names) == 101
    assert (len(source.train), len(source.test)) == (202, 101)
    assert source.test.names is not None
    assert source.test.names[7] == "images/dish_7/val0.jpg"
    assert not source.train.truth_known  # of these only right labels would be known
    assert source.test.verified is not None  # whether a label was found right, in the even classes it was not
    assert source.test.verified.tolist() == [c % 2 == 1 for c in range(101)]
    groups = make_stream(source, n_tasks=resolve(RunConfig(), source).tasks, noise="none").major_classes
    assert [len(group) for group in groups] == [20, 20, 20, 20, 21]


def test_images_are_cut_to_224_by_default(root):
    assert load("food101n", root).image_shape == (224, 224, 3)


@pytest.mark.parametrize(("name", "tasks", "memory"), [("webvision", 10, 1000), ("food101n", 5, 2000)])
def test_the_settings_are_the_papers(name, tasks, memory, root):
    source, config = load(name, root, FileOptions(image_size=32)), RunConfig(data=name)
    assert (resolve(config, source).tasks, resolve(config, source).memory) == (tasks, memory)
    assert resolve(config, source).network == "resnet34"
    for recipe, epochs in (("paper", 128), ("official", 127)):
        assert resolve(RunConfig(data=name, recipe=recipe), source).options.epochs == epochs
    assert resolve(RunConfig(data=name, epochs=3), source).options.epochs == 3


def test_what_is_missing_is_told(root, tmp_path):
    with pytest.raises(DataError, match=r"webvision is not in .* info/train_filelist_google\.txt should be there"):
        load("webvision", tmp_path)
    assert not SOURCES["webvision"].is_here(tmp_path)
    assert SOURCES["webvision"].is_here(root)
    assert verify("webvision", root) == [
        "webvision should list 65,944 train images, but lists 150",
        "webvision should list 2,500 test images, but lists 50",
    ]
    with pytest.raises(ValueError, match="has a test part of its own"):
        load("webvision", root, FileOptions(test_share=0.2))


def test_damaged_lists_are_told(tmp_path):
    folder = write_webvision(tmp_path, per_class=1)
    listing = folder / "info" / "train_filelist_google.txt"
    listing.write_text(listing.read_text() + "google/q0001/x.jpg one\n")
    with pytest.raises(DataError, match="line 53, should be a path and a class number"):
        load("webvision", tmp_path, OPTIONS)
    listing.unlink()
    (folder / "info" / "synsets.txt").write_text("n1 one\n")
    with pytest.raises(DataError, match="webvision is not in"):
        load("webvision", tmp_path, OPTIONS)


# Published splits --------------------------------------------------------------------------------------------------


def test_the_published_stream_is_found_by_file_names(root, tmp_path):
    source = load("webvision", root, OPTIONS)
    write_splits(tmp_path, source)
    found, made = (
        find_official("official:none:1:listed", source, tmp_path),
        make_stream(source, n_tasks=10, noise="none", seed=1),
    )
    assert found.order.tolist() == made.order.tolist()
    assert found.labels.tolist() == made.labels.tolist()
    assert found.major_classes == made.major_classes
    assert found.realised_noise is None
    assert (found.kind, found.minor_share, found.task_ends) == ("official", 0.1, made.task_ends)


def test_faults_of_published_splits_are_told(root, tmp_path):
    source = load("webvision", root, OPTIONS)
    paths = write_splits(tmp_path, source)
    whole = paths[0].read_text()
    rows = json.loads(whole)
    for change, message in (
        ({"file_name": "q0001/nowhere.jpg"}, "'q0001/nowhere.jpg' is not among the train images"),
        ({"file_name": rows[1]["file_name"]}, "elsewhere not|has already come"),
        ({"label": (rows[0]["label"] + 1) % 50}, "elsewhere not"),
        ({"label": "3"}, "should be text and a number"),
    ):
        paths[0].write_text(json.dumps([{**rows[0], **change}, *rows[1:]]))
        with pytest.raises(ManifestError, match=message):
            find_official("official:none:1", source, tmp_path)
    paths[0].write_text(whole)
    paths[3].unlink()
    with pytest.raises(ManifestError, match="for all tasks from 0"):
        find_official("official:none:1", source, tmp_path)


def test_rows_of_files_that_were_left_out_are_passed_over(tmp_path):
    folder = write_webvision(tmp_path, per_class=2)
    write_splits(tmp_path, load("webvision", tmp_path, OPTIONS))
    bad = write_bad_kinds(tmp_path / "bad")
    (folder / "google" / "q0004" / "4_0.jpg").write_bytes((tmp_path / "bad" / next(iter(bad))).read_bytes())
    source = load("webvision", tmp_path, FileOptions(image_size=8, bad_files="skip"))
    found = find_official("official:none:1", source, tmp_path)
    assert len(found) == 99
