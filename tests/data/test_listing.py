"""Which files a folder holds, with which labels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from puridiver.data.listing import list_folder, natural
from puridiver.errors import DataError
from tests.wild import write_classes, write_oddly_named


def test_a_folder_per_class_with_parts_of_its_own(tmp_path):
    write_classes(tmp_path / "train", 4)
    write_classes(tmp_path / "test", 2)
    found = list_folder(tmp_path)
    assert found.class_names == ("blue", "green", "red")
    assert [int((~found.is_test).sum()), int(found.is_test.sum())] == [12, 6]
    for path, label, test in zip(found.paths, found.labels.tolist(), found.is_test.tolist(), strict=True):
        assert Path(path).parts[:2] == ("test" if test else "train", found.class_names[label])
    with pytest.raises(ValueError, match="has a test part of its own"):
        list_folder(tmp_path, 0.5)


def test_the_split_is_seeded_keeps_each_class_and_is_disjoint(tmp_path):
    write_classes(tmp_path, 20)
    found = list_folder(tmp_path, 0.25)
    assert np.bincount(found.labels[found.is_test]).tolist() == [5, 5, 5]
    assert len(set(found.paths)) == 60
    again = list_folder(tmp_path, 0.25)
    assert (again.paths, again.is_test.tolist()) == (found.paths, found.is_test.tolist())
    assert sorted(list_folder(tmp_path, 0).paths) == sorted(found.paths)


def test_what_is_no_image_by_its_name_is_left_out_and_counted(tmp_path):
    write_classes(tmp_path, 2)
    (tmp_path / "red" / "notes.txt").write_text("x")
    (tmp_path / "red" / ".hidden.jpg").write_text("x")
    (tmp_path / "red" / "deeper").mkdir()
    os.rename(tmp_path / "red" / "000.png", tmp_path / "red" / "deeper" / "000.PNG")
    (tmp_path / ".cache").mkdir()
    found = list_folder(tmp_path, 0)
    assert found.ignored == 1
    assert "red/deeper/000.PNG" in found.paths
    assert len(found) == 6


def test_images_in_no_classs_folder_are_counted_and_what_archivers_leave_is_not(tmp_path):
    write_classes(tmp_path, 2)
    for place in ("stray.png", "Stray.JPG"):
        (tmp_path / place).write_bytes(b"x")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "._000.png").write_bytes(b"x")
    found = list_folder(tmp_path, 0)
    assert (len(found), found.stray, found.ignored) == (6, 2, 0)


def test_a_class_may_be_called_train(tmp_path):
    """Toys: no other class may be lost, nor taken for something else."""
    write_classes(tmp_path, 2)
    os.rename(tmp_path / "red", tmp_path / "train")
    (tmp_path / "train" / "old").mkdir()
    os.rename(tmp_path / "train" / "000.png", tmp_path / "train" / "old" / "000.png")
    found = list_folder(tmp_path, 0)
    assert found.class_names == ("blue", "green", "train")
    assert (len(found), found.stray) == (6, 0)


def test_images_beside_the_parts_are_refused_and_other_folders_are_not(tmp_path):
    write_classes(tmp_path / "train", 2)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "boxes.json").write_text("{}")
    (tmp_path / "train" / "stray.png").write_bytes(b"x")
    assert list_folder(tmp_path, 0).stray == 1
    (tmp_path / "train" / "stray.png").unlink()
    write_classes(tmp_path, 2)
    with pytest.raises(DataError, match=r"classes below train, and images beside it as well, in blue, green, red"):
        list_folder(tmp_path, 0)
    write_classes(tmp_path / "lone" / "train", 0)
    for name in ("blue", "green", "red"):
        (tmp_path / "lone" / "train" / name).rmdir()
    with pytest.raises(DataError, match=r"lone/train should hold a folder for each class"):
        list_folder(tmp_path / "lone", 0)


def test_a_stray_image_in_train_makes_no_classes_of_the_parts(tmp_path):
    for part in ("train", "test"):
        write_classes(tmp_path / part, 2)
    (tmp_path / "train" / "stray.png").write_bytes(b"x")
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "preview.png").write_bytes(b"x")
    with pytest.raises(DataError, match="images beside it as well, in samples"):
        list_folder(tmp_path)


def test_the_first_part_to_test_on_that_has_images_is_taken_and_others_are_counted(tmp_path):
    write_classes(tmp_path / "Train", 2)
    (tmp_path / "Test").mkdir()
    write_classes(tmp_path / "val", 1)
    assert (int(list_folder(tmp_path).is_test.sum()), list_folder(tmp_path).stray) == (3, 0)
    write_classes(tmp_path / "Test", 2)
    assert (int(list_folder(tmp_path).is_test.sum()), list_folder(tmp_path).stray) == (6, 3)


@pytest.mark.parametrize("name", ["val", "validation"])
def test_a_validation_part_will_do_for_a_test_part(name, tmp_path):
    write_classes(tmp_path / "train", 2)
    write_classes(tmp_path / name, 1)
    found = list_folder(tmp_path)
    assert found.is_test.tolist() == [False] * 6 + [True] * 3


def test_odd_names_are_listed_and_printable(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9s")
    folder.mkdir()
    write_oddly_named(folder)
    found = list_folder(tmp_path, 0)
    assert found.class_names == ("caf\\xe9s",)
    assert os.path.exists(found.full_path(0))
    assert len(found.fingerprint()) == 64


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
        "a-way": red / "deep",  # is there by its own path
        "more": store / "green",
        "more-again": store / "green",
        "self": red,
        "up": tmp_path / "pictures",  # all other classes lie there
        "gone": tmp_path / "nowhere",
    }.items():
        (red / name).symlink_to(target)
    (store / "green" / "back").symlink_to(store)
    (store / "blue" / "round").symlink_to(store / "green")
    found = list_folder(tmp_path / "pictures", 0)
    reds = [path for path, label in zip(found.paths, found.labels.tolist(), strict=True) if label == 2]
    through = "red/more/back"
    assert reds == ["red/001.jpg", "red/deep/000.png", "red/more/000.png", f"{through}/blue/000.png",
                    f"{through}/red/000.png"]  # fmt: skip


def test_faults_of_folders_are_told(tmp_path):
    with pytest.raises(DataError, match="should hold a folder for each class"):
        list_folder(tmp_path, 0.2)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no image"):
        list_folder(tmp_path, 0.2)
    write_classes(tmp_path, 2)
    with pytest.raises(DataError, match="class empty has no images: remove the folder"):
        list_folder(tmp_path, 0.2)
    (tmp_path / "also").mkdir()
    with pytest.raises(DataError, match=r"class also has no images \(nor have empty\)"):
        list_folder(tmp_path, 0.2)
    for name in ("also", "empty"):
        (tmp_path / name).rmdir()
    with pytest.raises(DataError, match=r"no test part .* --test-share 0\.2"):
        list_folder(tmp_path)
    with pytest.raises(ValueError, match=r"test share should be at least 0 and below 1, but got 1\.5"):
        list_folder(tmp_path, 1.5)


def test_numbers_in_names_sort_by_size():
    assert natural(["10", "9", "b2", "b10", "a"]) == ["9", "10", "a", "b2", "b10"]
