"""Which files a folder has, with which labels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from puridiver.data import UNKNOWN
from puridiver.data.findings import alike
from puridiver.data.listing import list_folder, natural
from puridiver.data.listing import test_rows as rows_to_test
from puridiver.errors import DataError
from tests.wild import write_classes, write_oddly_named


def test_parts_and_classes_are_found_with_images_at_any_depth(tmp_path):
    write_classes(tmp_path / "train", 2)
    write_classes(tmp_path / "Val", 1)
    (tmp_path / "train" / "red" / "deep").mkdir()
    os.rename(tmp_path / "train" / "red" / "000.png", tmp_path / "train" / "red" / "deep" / "X.PNG")
    (tmp_path / "train" / "red" / ".hidden.png").write_bytes(b"x")
    (tmp_path / "train" / "red" / "notes.txt").write_bytes(b"x")
    (tmp_path / "train" / "stray.png").write_bytes(b"x")
    found = list_folder(tmp_path)
    assert found.class_names == ("blue", "green", "red")
    assert found.paths[4:6] == ["train/red/001.jpg", "train/red/deep/X.PNG"]
    assert found.labels.tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2]
    assert found.is_test.tolist() == [False] * 6 + [True] * 3
    assert found.true.tolist() == [UNKNOWN] * 9
    assert (found.ignored, found.stray) == (1, 1)
    write_classes(tmp_path / "test", 2)  # goes before val
    assert (int(list_folder(tmp_path).is_test.sum()), list_folder(tmp_path).stray) == (6, 4)
    with pytest.raises(ValueError, match="leave the test share out"):
        list_folder(tmp_path, 0.2)


def test_a_seeded_share_of_each_class_is_for_testing():
    labels = np.repeat([0, 1, 2], [20, 5, 1])
    chosen = rows_to_test(labels, 3, 0.2)
    assert np.bincount(labels[chosen], minlength=3).tolist() == [4, 1, 0]
    assert (chosen == rows_to_test(labels, 3, 0.2)).all()
    assert np.bincount(labels[rows_to_test(labels, 3, 0.01)], minlength=3).tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        rows_to_test(labels, 3, 1.5)


def test_a_class_may_be_called_train(tmp_path):
    """Toys: no other class may be lost, nor taken for something else."""
    write_classes(tmp_path, 2)
    os.rename(tmp_path / "red", tmp_path / "train")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "._000.png").write_bytes(b"x")
    found = list_folder(tmp_path, 0)
    assert found.class_names == ("blue", "green", "train")
    assert (len(found), found.stray) == (6, 0)


def test_images_beside_the_parts_are_refused_and_other_folders_are_not(tmp_path):
    write_classes(tmp_path / "train", 2)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "boxes.json").write_text("{}")
    assert list_folder(tmp_path, 0).stray == 0
    write_classes(tmp_path, 2)
    with pytest.raises(DataError, match="images beside it as well, in blue, green, red"):
        list_folder(tmp_path, 0)


def test_odd_names_are_listed_and_printable(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9s")
    folder.mkdir()
    write_oddly_named(folder)
    found = list_folder(tmp_path, 0)
    assert found.class_names == ("caf\\xe9s",)
    assert os.path.exists(found.full_path(0))


def test_the_fingerprint_follows_the_files(tmp_path, monkeypatch):
    write_classes(tmp_path / "a", 3)
    first = list_folder(tmp_path / "a", 0).fingerprint()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    assert {list_folder(Path(name), 0).fingerprint() for name in ("a", "link", "../" + tmp_path.name + "/a")} == {first}
    os.rename(tmp_path / "a", tmp_path / "b")  # a cache may be of what will lie in the old place
    moved = list_folder(tmp_path / "b", 0).fingerprint()
    (tmp_path / "b" / "red" / "000.png").write_bytes(b"other")
    assert len({first, moved, list_folder(tmp_path / "b", 0).fingerprint()}) == 3


def test_links_to_folders_are_followed_once_and_loops_end(tmp_path):
    write_classes(tmp_path / "pictures", 2)
    red, store = tmp_path / "pictures" / "red", write_classes(tmp_path / "store", 1)
    (red / "deep").mkdir()
    os.rename(red / "000.png", red / "deep" / "000.png")
    for name, target in {
        "z-way": red / "deep",  # is there by its own path
        "more": store / "green",
        "more-again": store / "green",
        "self": red,
        "up": tmp_path / "pictures",  # all other classes lie there
        "gone": tmp_path / "nowhere",
    }.items():
        (red / name).symlink_to(target)
    (store / "green" / "back").symlink_to(store / "green")
    found = list_folder(tmp_path / "pictures", 0)
    reds = [path for path, label in zip(found.paths, found.labels.tolist(), strict=True) if label == 2]
    assert reds == ["red/001.jpg", "red/deep/000.png", "red/more/000.png"]


def test_faults_of_folders_are_told(tmp_path):
    with pytest.raises(DataError, match="should hold a folder for each class"):
        list_folder(tmp_path, 0.2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        list_folder(tmp_path, 0.2)
    write_classes(tmp_path, 2)
    with pytest.raises(DataError, match="class empty has no images: remove the folder"):
        list_folder(tmp_path, 0.2)
    (tmp_path / "empty").rmdir()
    with pytest.raises(DataError, match=r"no test part .* --test-share 0\.2"):
        list_folder(tmp_path)


def test_numbers_in_names_sort_by_size_and_names_that_may_be_one_are_found():
    assert natural(["10", "9", "b2", "b10", "a"]) == ["9", "10", "a", "b2", "b10"]
    names = [
        "Golden Retriever",
        "golden retriever",
        "goldenretreiver",
        "house",
        "mouse",
        "b1",
        "b2",
        "cafe\u0301",
        "café",
    ]
    assert alike(names) == [
        ("Golden Retriever", "golden retriever"), ("Golden Retriever", "goldenretreiver"),
        ("golden retriever", "goldenretreiver"), ("cafe\u0301", "café"),
    ]  # fmt: skip
