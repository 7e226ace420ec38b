"""Folders and tables of images as data sources, and what is told of them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from puridiver.data import UNKNOWN, FileOptions, load, look_into, verify
from puridiver.errors import DataError
from tests.wild import COLOURS, write_bad_kinds, write_classes, write_good_kinds, write_oddly_named


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    write_classes(tmp_path / "pictures" / "train", 6)
    write_classes(tmp_path / "pictures" / "test", 3, first_seed=500)
    return tmp_path / "pictures"


def test_a_folder_becomes_a_source_with_the_right_pixels_and_labels(pictures, tmp_path):
    source = load(str(pictures), tmp_path)
    assert source.name == "pictures"
    assert source.image_shape == (32, 32, 3)
    assert (len(source.train), len(source.test)) == (18, 9)
    for part in (source.train, source.test):
        for image, label in zip(part.images.float().mean(dim=(1, 2)), part.labels.tolist(), strict=True):
            wanted = torch.tensor(COLOURS[source.class_names[label]]).float()
            assert (image - wanted).abs().max() < 25
    assert source.train.names is not None
    assert source.train.names[0] == "train/blue/000.png"
    assert source.defaults["noise"] == "none"


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
    with pytest.raises(DataError, match=r"(?s)7 of 34 files .*red/text\.jpg: not an image.*--bad-files skip"):
        load(str(pictures), tmp_path)
    source = load(str(pictures), tmp_path, FileOptions(bad_files="skip"))
    assert len(source.train) == 18
    assert len(source.left_out) == 7
    with pytest.raises(ValueError, match="bad_files should be one of refuse, skip, but got 'mend'"):
        FileOptions(bad_files="mend")


def test_a_table_brings_true_labels_and_times(pictures, tmp_path):
    names = sorted(p.relative_to(pictures).as_posix() for p in (pictures / "train").rglob("*.*"))
    with (pictures / "list.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "true_label", "timestamp", "split"])
        for number, name in enumerate(names):
            true = name.split("/")[1]
            given = "red" if number == 0 else true
            writer.writerow([name, given, true, 100 - number, "test" if number % 6 == 5 else "train"])
    source = load(str(pictures / "list.csv"), tmp_path)
    assert (len(source.train), len(source.test)) == (15, 3)
    wrong = source.train.labels != source.train.true_labels
    assert wrong.tolist() == [True] + [False] * 14
    assert source.train.times is not None
    assert source.train.times.tolist() == sorted(source.train.times.tolist(), reverse=True)


def test_the_test_part_is_judged_by_true_labels(pictures, tmp_path):
    name = next((pictures / "test" / "red").iterdir())
    other = next((pictures / "train" / "blue").iterdir())
    (pictures / "list.csv").write_text(
        f"path,label,true_label,split\n{name},blue,red,test\n{other},blue,,train\n", encoding="utf-8"
    )
    source = load(str(pictures / "list.csv"), tmp_path)
    assert source.class_names[source.test.labels[0]] == "red"


def test_rows_that_name_no_file_are_bad_files_and_odd_labels_are_printable(pictures, tmp_path):
    good = next((pictures / "train" / "red").iterdir())
    rows = [
        {"path": str(good), "label": "caf\udce9"},
        {"path": "nul\0.png", "label": "b"},
        {"path": "half\ud800.png", "label": "\ud800"},
        {"path": "gone.png", "label": "b"},
        {"path": ".", "label": "b"},
    ]
    (pictures / "list.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    source = load(str(pictures / "list.jsonl"), tmp_path, FileOptions(test_share=0, bad_files="skip"))
    assert len(source.train) == 1
    assert len(source.left_out) == 4
    assert source.class_names == ("b", "caf\\xe9", "\\ud800")
    assert len(source.fingerprint) == 64
    json.dumps([source.left_out, source.train.names], ensure_ascii=False).encode()


def test_what_is_found_is_told(pictures, tmp_path):
    train = pictures / "train"
    write_good_kinds(train / "kinds")
    write_oddly_named(train / "kinds")
    write_bad_kinds(train / "red")
    shutil.copy(train / "red" / "000.png", train / "blue" / "copy.png")
    shutil.copy(train / "red" / "000.png", pictures / "test" / "red" / "leak.png")
    (train / "red" / "readme.txt").write_text("x")
    found = look_into(pictures, tmp_path, FileOptions(image_size=8))
    assert (found.files, found.images, found.train, found.test) == (48, 41, 31, 10)
    assert found.per_class == {"blue": 7, "green": 6, "kinds": 12, "red": 6}
    assert (found.smallest, found.largest) == ((24, 20), (40, 30))
    assert len(found.bad) == 7
    assert found.conflicts == [["train/blue/copy.png (blue)", "train/red/000.png (red)", "test/red/leak.png (red)"]]
    assert found.shared == 1
    text = "\n".join(found.lines())
    for phrase in (
        "41 images in 4 classes",
        "unreadable files: 7",
        "cut.jpg: image file is truncated",
        "true labels: not known",
        "1 groups are in train and test",
        "left out by their names: 1",
        "classes without a test image: 'kinds'",
    ):
        assert phrase in text
    # White, white and white again, and two greys: pictures of one colour are duplicates by their pixels.
    assert ["train/kinds/alpha.png", "train/kinds/bits.png", "train/kinds/clear.png"] in found.duplicates


def test_labels_cannot_be_trusted_where_true_ones_are_told(pictures, tmp_path):
    table, red = pictures / "t.csv", sorted((pictures / "train" / "red").iterdir())
    lines = [f"{red[0]},red,,train", f"{red[1]},red,blue,train", f"{red[2]},red,,test"]
    table.write_text("path,label,true_label,split\n" + "\n".join(lines) + "\n")
    np.savez(tmp_path / "t.npz", train_images=np.zeros((2, 8, 8, 3), np.uint8), train_labels=[0, 1],
             test_images=np.zeros((1, 8, 8, 3), np.uint8), test_labels=[0], train_true_labels=[0, -1])  # fmt: skip
    for name in (str(table), str(tmp_path / "t.npz")):
        assert load(name, tmp_path).train.true is not None
        with pytest.raises(DataError, match=r"what their true labels are.*leave --trust-labels out"):
            load(name, tmp_path, FileOptions(trust_labels=True))


def test_a_path_that_is_not_there_is_told_as_such_whatever_else_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"data should be one of digits.*nope/pics"):
        load(str(tmp_path / "nope" / "pics"), tmp_path, FileOptions(test_share=0.2))


def test_options_of_files_are_for_files(tmp_path):
    with pytest.raises(ValueError, match="test_share is for data made of image files"):
        load("digits", tmp_path, FileOptions(test_share=0.2))
    with pytest.raises(DataError, match="there is no"):
        load(str(tmp_path / "missing.csv"), tmp_path)


def test_what_cannot_be_read_is_told_by_the_name_that_was_given(tmp_path):
    with pytest.raises(ValueError, match=r"data should be one of digits, .*'nix', and there is no such file or folder"):
        load("nix", tmp_path)
    table = tmp_path / "t.csv"
    table.write_text("path,label\na.png,cat\nb.png,dog\n")
    with pytest.raises(DataError, match=r"none of the 2 files of \S+t\.csv can be read"):
        load(str(table), tmp_path, FileOptions(test_share=0))
    with pytest.raises(DataError, match=r"t\.csv has no test part"):
        load(str(table), tmp_path)


def test_verify_tells_what_is_wrong_with_a_folder(pictures, tmp_path):
    assert verify(str(pictures), tmp_path) == []
    write_bad_kinds(pictures / "train" / "red")
    (problem,) = verify(str(pictures), tmp_path)
    assert "7 of 34 files" in problem


def test_images_lie_in_the_file_and_not_in_memory(pictures, tmp_path):
    source = load(str(pictures), tmp_path)
    part = np.asarray(source.train.images)
    mapped = list((tmp_path / "image-cache").rglob("images.u8"))
    assert len(mapped) == 1
    assert mapped[0].read_bytes()[: part.nbytes] == part.tobytes()
    assert str(mapped[0]) in Path("/proc/self/maps").read_text()


def test_a_table_in_utf_16_is_named_as_such(tmp_path):
    (tmp_path / "mine.csv").write_text("path,label\na.png,cat\n", encoding="utf-16")
    with pytest.raises(DataError, match=r"mine\.csv is in UTF-16.*: save it as CSV in UTF-8"):
        load(str(tmp_path / "mine.csv"), tmp_path / "cache", FileOptions(test_share=0.2))


def test_tasks_are_no_more_than_classes_with_train_images(pictures, tmp_path):
    write_classes(tmp_path / "extra", 1, first_seed=900)
    shutil.move(tmp_path / "extra" / "red", pictures / "test" / "octagon")
    source = load(str(pictures), tmp_path)
    assert (len(source.class_names), source.defaults["tasks"]) == (4, 3)
    red, blue = (sorted((pictures / "train" / name).iterdir()) for name in ("red", "blue"))
    rows = [f"{red[0]},red,red,train", f"{blue[0]},blue,octagon,train", f"{red[1]},red,,test"]
    (pictures / "t.csv").write_text("path,label,true_label,split\n" + "\n".join(rows) + "\n")
    assert load(str(pictures / "t.csv"), tmp_path).defaults["tasks"] == 2
    for path in (pictures / "train" / "red").iterdir():
        path.write_bytes(b"no image")
    assert load(str(pictures), tmp_path, FileOptions(bad_files="skip")).defaults["tasks"] == 2


def test_of_a_large_group_of_duplicates_a_few_are_named(pictures, tmp_path):
    image = next((pictures / "train" / "red").iterdir())
    rows = [f"{image},{'red' if number % 2 else 'blue'}" for number in range(3000)]
    (pictures / "t.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    found = look_into(pictures / "t.csv", tmp_path, FileOptions(test_share=0.2, image_size=8))
    assert len(found.conflicts[0]) == 3000  # whole, for --json
    (line,) = (line for line in found.lines() if line.startswith("  /"))
    assert line.endswith(" and 2,990 more")
