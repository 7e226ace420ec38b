"""Which files a folder has, with which labels."""

from __future__ import annotations

import os

import numpy as np
import pytest

from puridiver.data import UNKNOWN
from puridiver.data.base import choose_test_rows, natural
from puridiver.data.listing import list_folder
from puridiver.errors import DataError
from tests.wild import write_classes, write_oddly_named


def test_parts_and_classes_are_found_with_images_at_any_depth(tmp_path):
    write_classes(tmp_path / "train", 2)
    write_classes(tmp_path / "Val", 1)
    (tmp_path / "train" / "red" / "deep").mkdir()
    os.rename(tmp_path / "train" / "red" / "000.png", tmp_path / "train" / "red" / "deep" / "X.PNG")
    for name in ("red/.hidden.png", "red/notes.txt", "stray.png"):
        (tmp_path / "train" / name).write_bytes(b"x")
    found = list_folder(tmp_path)
    assert found.class_names == ("blue", "green", "red")
    assert found.files["path"].tolist()[4:6] == ["train/red/001.jpg", "train/red/deep/X.PNG"]
    assert found.files["label"].tolist() == [0, 0, 1, 1, 2, 2, 0, 1, 2]
    assert found.files["is_test"].tolist() == [False] * 6 + [True] * 3
    assert found.files["true_label"].tolist() == [UNKNOWN] * 9
    write_classes(tmp_path / "test", 2)  # goes before val
    assert int(list_folder(tmp_path).files["is_test"].sum()) == 6
    with pytest.raises(ValueError, match="leave the test share out"):
        list_folder(tmp_path, 0.2)


def test_a_seeded_share_of_each_class_is_for_testing():
    labels = np.repeat([0, 1, 2], [20, 5, 1])
    chosen = choose_test_rows(labels, 0.2)
    assert np.bincount(labels[chosen], minlength=3).tolist() == [4, 1, 0]
    assert (chosen == choose_test_rows(labels, 0.2)).all()
    assert np.bincount(labels[choose_test_rows(labels, 0.01)], minlength=3).tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="at least 0 and below 1"):
        choose_test_rows(labels, 1.5)


def test_a_class_may_be_called_train(tmp_path):
    write_classes(tmp_path, 2)
    os.rename(tmp_path / "red", tmp_path / "train")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "._000.png").write_bytes(b"x")
    found = list_folder(tmp_path, 0)
    assert found.class_names == ("blue", "green", "train")
    assert len(found.files) == 6


def test_images_beside_the_parts_are_refused_and_other_folders_are_not(tmp_path):
    write_classes(tmp_path / "train", 2)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "boxes.json").write_text("{}")
    assert len(list_folder(tmp_path, 0).files) == 6
    write_classes(tmp_path, 2)
    with pytest.raises(DataError, match="images beside train, in blue, green, red"):
        list_folder(tmp_path, 0)


def test_a_class_may_be_a_link_and_loops_end(tmp_path):
    write_classes(tmp_path / "pictures", 2)
    store = write_classes(tmp_path / "store", 1)
    (tmp_path / "pictures" / "moss").symlink_to(store / "green")
    (tmp_path / "pictures" / "red" / "up").symlink_to(tmp_path / "pictures")
    found = list_folder(tmp_path / "pictures", 0)
    assert found.files["path"].tolist()[4:] == ["moss/000.png", "red/000.png", "red/001.jpg"]


def test_odd_names_are_listed_and_printable(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9s")
    folder.mkdir()
    write_oddly_named(folder)
    found = list_folder(tmp_path, 0)
    assert found.class_names == ("caf\\udce9s",)
    assert (tmp_path / found.files["path"][0]).exists()


def test_faults_of_folders_are_told(tmp_path):
    with pytest.raises(DataError, match="should hold a folder for each class"):
        list_folder(tmp_path, 0.2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="should hold a folder for each class"):
        list_folder(tmp_path, 0.2)
    write_classes(tmp_path, 2)
    with pytest.raises(DataError, match="class empty has no images"):
        list_folder(tmp_path, 0.2)
    (tmp_path / "empty").rmdir()
    with pytest.raises(DataError, match=r"no test part .* --test-share 0\.2"):
        list_folder(tmp_path)


def test_numbers_in_names_sort_by_size():
    assert natural(["10", "9", "b2", "b10", "a"]) == ["9", "10", "a", "b2", "b10"]
