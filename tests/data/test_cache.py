"""The cache of decoded images: made once, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from puridiver.data import image_files as module
from puridiver.data.image_files import open_cache
from puridiver.data.images import decode
from puridiver.data.listing import Listing, list_folder
from puridiver.errors import DataError
from tests.wild import write_bad_kinds, write_classes

SIDE = 6


@pytest.fixture
def listing(tmp_path: Path) -> Listing:
    write_bad_kinds(write_classes(tmp_path / "pictures", 7) / "green")
    return list_folder(tmp_path / "pictures", 0.3)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 4)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # of the expectation
def test_it_holds_the_good_images_in_order_and_names_the_bad(listing, tmp_path):
    progress = []
    found = open_cache(listing, SIDE, tmp_path, lambda done, total: progress.append((done, total)))
    paths = listing.files["path"].tolist()
    expected = [decode(os.path.join(listing.root, path), (SIDE, SIDE, 3)) for path in paths]
    assert np.array_equal(found.images, np.stack([pixels for pixels in expected if not isinstance(pixels, str)]))
    assert isinstance(found.images, np.memmap)
    assert {os.path.basename(name) for name in found.bad} >= {"cut.jpg", "empty.jpg", "text.jpg", "bomb.png"}
    assert [paths[row] for row in found.rows] == [path for path in paths if path not in found.bad]
    assert progress == sorted(progress)
    assert progress[-1] == (28, 28)


def test_it_is_made_once_and_anew_when_a_file_changes(listing, tmp_path, monkeypatch):
    first = open_cache(listing, SIDE, tmp_path)
    decoded = []
    monkeypatch.setattr(module, "decode", lambda path, side: decoded.append(path) or decode(path, side))
    assert open_cache(listing, SIDE, tmp_path).digest == first.digest
    assert sorted(decoded) == sorted(os.path.join(listing.root, name) for name in first.bad)  # the others stand
    decoded.clear()
    os.utime(os.path.join(listing.root, listing.files["path"][0]), (1, 1))
    open_cache(listing, SIDE, tmp_path)
    assert len(decoded) == len(listing.files)


def test_a_file_that_could_not_be_read_for_a_while_is_tried_again(tmp_path, monkeypatch):
    listing = list_folder(write_classes(tmp_path / "pictures", 4), 0)

    def fails(path: str, side: int) -> np.ndarray | str:
        return "input/output error" if path.endswith("red/002.webp") else decode(path, side)

    with monkeypatch.context() as patch:
        patch.setattr(module, "decode", fails)
        for _ in range(2):
            assert open_cache(listing, SIDE, tmp_path).bad == {"red/002.webp": "input/output error"}
    found = open_cache(listing, SIDE, tmp_path)
    assert (found.bad, len(found.rows)) == ({}, 12)


@pytest.mark.parametrize(("name", "damage"), [("images.u8", "flip"), ("images.u8", "remove"), ("facts.json", "cut")])
def test_a_damaged_cache_is_noticed_and_made_anew(name, damage, listing, tmp_path):
    first = open_cache(listing, SIDE, tmp_path)
    pixels = np.array(first.images)
    path = next((tmp_path / "image-cache").glob(f"*/{name}"))
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    again = open_cache(listing, SIDE, tmp_path)
    assert np.array_equal(again.images, pixels)


class Killed(BaseException):
    """As if the process had ended here."""


def test_a_build_that_was_cut_off_leaves_no_cache_and_the_next_one_is_whole(listing, tmp_path, monkeypatch):
    whole = open_cache(listing, SIDE, tmp_path / "whole")
    count = 0

    def dying(path: str, side: int) -> np.ndarray | str:
        nonlocal count
        count += 1
        if count > 11:
            raise Killed
        return decode(path, side)

    with monkeypatch.context() as patch:
        patch.setattr(module, "decode", dying)
        with pytest.raises(Killed):
            open_cache(listing, SIDE, tmp_path)
    assert open_cache(listing, SIDE, tmp_path).digest == whole.digest
    assert len(list((tmp_path / "image-cache").iterdir())) == 1


def test_where_nothing_can_be_read_that_is_said(tmp_path):
    write_bad_kinds(tmp_path / "pictures" / "all")
    for _ in range(2):  # from a cache of nothing, too
        with pytest.raises(DataError, match=r"none of the 7 files .* can be read"):
            open_cache(list_folder(tmp_path / "pictures", 0), SIDE, tmp_path)
    with pytest.raises(ValueError, match="image size should be from 1 to 4096"):
        open_cache(list_folder(tmp_path / "pictures", 0), 0, tmp_path / "cache")
