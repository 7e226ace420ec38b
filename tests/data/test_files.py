"""Folders and tables of images as data sources, and what is told of them."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from puridiver.data import UNKNOWN, FileOptions, load, verify
from puridiver.data.image_files import describe
from puridiver.errors import DataError
from tests.wild import COLOURS, write_bad_kinds, write_classes, write_good_kinds, write_oddly_named


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    write_classes(tmp_path / "pictures" / "train", 6)
    write_classes(tmp_path / "pictures" / "test", 3, first_seed=500)
    return tmp_path / "pictures"


def test_a_folder_becomes_a_source_with_the_right_pixels_and_labels(pictures, tmp_path):
    source = load(str(pictures), tmp_path)
    assert (source.name, source.input_shape, len(source.train), len(source.test)) == ("pictures", (20, 24, 3), 18, 9)
    for part in (source.train, source.test):
        for image, label in zip(part.images.float().mean(dim=(1, 2)), part.labels.tolist(), strict=True):
            wanted = torch.tensor(COLOURS[source.class_names[label]]).float()
            assert (image - wanted).abs().max() < 25
    assert source.train.names[0] == "train/blue/000.png"
    assert source.defaults["noise"] == "none"
    (mapped,) = (tmp_path / "image-cache").rglob("images.u8")
    assert str(mapped) in Path("/proc/self/maps").read_text()  # images lie in the file and not in memory
    assert verify(str(pictures), tmp_path) == []


@pytest.mark.parametrize(
    ("modes", "sides", "asked", "shape"),
    [
        ("LL", (28, 28), None, (28, 28, 1)),
        ("LL", (28, 28), 20, (20, 20, 1)),
        ("LL", (28, 28), (20, 24), (20, 24, 1)),
        ("LL", (28, 30), None, (32, 32, 1)),
        ("LL", (65, 65), None, (32, 32, 1)),
        ("LL", (3, 3), None, (32, 32, 1)),  # less than a learner takes
        ("LR", (28, 28), None, (28, 28, 3)),
        ("1I", (28, 28), None, (28, 28, 1)),
    ],
)
def test_small_images_of_one_size_keep_it_and_grey_ones_stay_grey_unless_asked(modes, sides, asked, shape, tmp_path):
    kinds = {"L": "L", "R": "RGB", "1": "1", "I": "I;16"}
    for row, (mode, side) in enumerate(zip(modes * 2, sides * 2, strict=True)):
        folder = tmp_path / "data" / f"class{row % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new(kinds[mode], (side, side), 1).save(folder / f"{row}.png")
    source = load(str(tmp_path / "data"), tmp_path, FileOptions(image_size=asked, test_share=0.5))
    assert source.input_shape == shape


def test_nobody_knows_the_true_labels_of_a_folder_unless_it_is_trusted(pictures, tmp_path):
    source = load(str(pictures), tmp_path)
    assert not source.train.truth_known
    assert source.train.true_labels.tolist() == [UNKNOWN] * 18
    trusted = load(str(pictures), tmp_path, FileOptions(trust_labels=True))
    assert torch.equal(trusted.train.true_labels, source.train.labels)
    assert trusted.fingerprint != source.fingerprint


def test_the_fingerprint_is_that_of_the_content(pictures, tmp_path):
    first = load(str(pictures), tmp_path).fingerprint
    shutil.copytree(pictures, tmp_path / "again" / "pictures", copy_function=shutil.copyfile)  # other mtimes
    assert load(str(tmp_path / "again" / "pictures"), tmp_path / "other").fingerprint == first
    assert load(str(pictures), tmp_path, FileOptions(image_size=16)).fingerprint != first


def test_bad_files_are_refused_by_name_or_left_out(pictures, tmp_path):
    write_bad_kinds(pictures / "train" / "red")
    os.mkfifo(pictures / "train" / "red" / "pipe.png")
    os.symlink("/dev/zero", pictures / "train" / "red" / "device.png")
    with pytest.raises(DataError, match=r"(?s)9 of 36 files .*red/pipe\.png: .*regular file.*--bad-files skip"):
        load(str(pictures), tmp_path)
    assert "9 of 36 files" in verify(str(pictures), tmp_path)[0]
    source = load(str(pictures), tmp_path, FileOptions(bad_files="skip"))
    assert (len(source.train), len(source.left_out)) == (18, 9)
    with pytest.raises(ValueError, match="bad_files should be one of refuse, skip, but got 'mend'"):
        load(str(pictures), tmp_path, FileOptions(bad_files="mend"))


def test_a_table_brings_true_labels_times_and_a_test_part(pictures, tmp_path):
    names = sorted(p.relative_to(pictures).as_posix() for p in (pictures / "train").rglob("*.*"))
    with (pictures / "list.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "true_label", "timestamp", "split"])
        for number, name in enumerate(names):
            true = name.split("/")[1]
            given = "red" if number in (0, 5) else true
            writer.writerow([name, given, true, 100 - number, "test" if number % 6 == 5 else "train"])
    source = load(str(pictures / "list.csv"), tmp_path)
    assert (len(source.train), len(source.test)) == (15, 3)
    assert (source.train.labels != source.train.true_labels).tolist() == [True] + [False] * 14
    assert source.train.times.tolist() == sorted(source.train.times.tolist(), reverse=True)
    assert source.class_names[source.test.labels[0]] == "blue"  # judged by the true label
    with pytest.raises(DataError, match=r"true labels of some images: leave --trust-labels out"):
        load(str(pictures / "list.csv"), tmp_path, FileOptions(trust_labels=True))


def test_rows_that_name_no_image_are_bad_files(pictures, tmp_path):
    good = next((pictures / "train" / "red").iterdir())
    os.mkfifo(pictures / "pipe")
    paths = [str(good), "nul\0.png", "half\ud800.png", "gone.png", ".", "pipe", "/dev/zero"]
    rows = [json.dumps({"path": path, "label": "b"}) for path in paths]
    (pictures / "list.jsonl").write_text("\n".join(rows))
    source = load(str(pictures / "list.jsonl"), tmp_path, FileOptions(test_share=0, bad_files="skip"))
    assert (len(source.train), len(source.left_out)) == (1, 6)
    json.dumps([source.left_out, source.train.names], ensure_ascii=False).encode()


def test_what_is_found_is_told(pictures, tmp_path):
    train = pictures / "train"
    write_good_kinds(train / "kinds")
    write_oddly_named(train / "kinds")
    write_bad_kinds(train / "red")
    shutil.copy(train / "red" / "000.png", train / "blue" / "copy.png")
    shutil.copy(train / "red" / "000.png", pictures / "test" / "red" / "leak.png")
    found = dict(describe(pictures, tmp_path, FileOptions(image_size=8)))
    assert found["images"] == "40: 30 to train, 10 to test"
    assert found["classes"] == "4, with 6 to 11 train images each"
    assert found["classes without test images"] == "kinds"
    assert found["unreadable files"] == "7"
    assert "truncated" in found["  train/red/cut.jpg"]
    conflict = "1 group; train/blue/copy.png (blue), train/red/000.png (red), test/red/leak.png (red)"
    assert found["copies with different labels"] == conflict


def test_what_cannot_be_read_is_told_by_the_name_that_was_given(tmp_path):
    with pytest.raises(ValueError, match=r"data should be one of cifar10, .*'nix', and there is no such file"):
        load("nix", tmp_path)
    with pytest.raises(ValueError, match="has a test part of its own"):
        load("digits", tmp_path, FileOptions(test_share=0.2))
    with pytest.raises(ValueError, match="image_size is for data made of image files"):
        load("digits", tmp_path, FileOptions(image_size=8))
    with pytest.raises(DataError, match="there is no"):
        load(str(tmp_path / "missing.csv"), tmp_path)
    table = tmp_path / "t.csv"
    table.write_text("path,label\na.png,cat\nb.png,dog\n")
    with pytest.raises(DataError, match=r"none of the 2 files of \S+t\.csv can be read"):
        load(str(table), tmp_path, FileOptions(test_share=0))


def test_tasks_are_no_more_than_classes_with_train_images(pictures, tmp_path):
    shutil.copytree(pictures / "test" / "red", pictures / "test" / "octagon")
    source = load(str(pictures), tmp_path)
    assert (len(source.class_names), source.defaults["tasks"]) == (4, 3)
    for path in (pictures / "train" / "red").iterdir():
        path.write_bytes(b"no image")
    assert load(str(pictures), tmp_path, FileOptions(bad_files="skip")).defaults["tasks"] == 2
    assert np.asarray(source.train.images).shape == (18, 20, 24, 3)
