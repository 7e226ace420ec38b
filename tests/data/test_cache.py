"""The cache of decoded images: made once, whole or not at all, the same from wherever a killed build goes on."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from puridiver.data import cache as module
from puridiver.data.cache import open_cache
from puridiver.data.decode import Decoded, decode
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


def expected(listing: Listing) -> list[np.ndarray]:
    found = [decode(listing.full_path(row), SIDE).pixels for row in range(len(listing))]
    return [pixels for pixels in found if pixels is not None]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # of the expectation
def test_it_holds_the_good_images_in_order_and_names_the_bad(listing, tmp_path):
    found = open_cache(listing, SIDE, tmp_path / "cache")
    assert np.array_equal(found.images, np.stack(expected(listing)))
    assert isinstance(found.images, np.memmap)
    assert len(found.bad) == 7
    assert {os.path.basename(name) for name in found.bad} >= {"cut.jpg", "empty.jpg", "text.jpg", "bomb.png"}
    assert [listing.paths[row] for row in found.rows.tolist()] == [p for p in listing.paths if p not in found.bad]


def test_it_is_made_once_and_anew_when_a_file_changes(listing, tmp_path, monkeypatch):
    first = open_cache(listing, SIDE, tmp_path / "cache")
    decoded = []

    def watched(path: str, side: int):
        decoded.append(path)
        return decode(path, side)

    monkeypatch.setattr(module, "decode", watched)
    assert open_cache(listing, SIDE, tmp_path / "cache").digest == first.digest
    assert sorted(decoded) == sorted(os.path.join(listing.root, name) for name in first.bad)  # the others stand
    decoded.clear()
    os.utime(listing.full_path(0), (1, 1))
    open_cache(listing, SIDE, tmp_path / "cache")
    assert len(decoded) == len(listing)


def write_alike(folder: Path, colours: dict[str, tuple[int, int, int]]) -> Path:
    """Files that have the names, the sizes and the times of writing of any other such folder's."""
    for name, colour in colours.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(4):
            Image.new("RGB", (8, 8), colour).save(folder / name / f"{number}.bmp")
            os.utime(folder / name / f"{number}.bmp", (0, 0))
    return folder


def first_pixel(folder: Path, cache: Path) -> list[int]:
    return open_cache(list_folder(folder, 0), SIDE, cache).images[0, 0, 0].tolist()


def test_sets_that_differ_in_nothing_but_pixels_have_caches_of_their_own(tmp_path):
    warm = write_alike(tmp_path / "d1" / "pics", {"a": (255, 0, 0), "b": (0, 0, 255)})
    cold = write_alike(tmp_path / "d2" / "pics", {"a": (0, 255, 0), "b": (0, 255, 255)})
    assert [first_pixel(folder, tmp_path / "cache") for folder in (warm, cold)] == [[255, 0, 0], [0, 255, 0]]
    os.rename(warm, tmp_path / "d1" / "before")
    os.rename(cold, warm)  # the other set in the same place
    assert first_pixel(warm, tmp_path / "cache") == [0, 255, 0]


def test_another_set_in_the_same_place_is_noticed_where_no_time_of_change_is_kept(tmp_path, monkeypatch):
    real = os.stat
    monkeypatch.setattr(os, "stat", lambda *args, **named: _without_change(real(*args, **named)))
    pictures = write_alike(tmp_path / "pics", {"a": (255, 0, 0)})
    assert first_pixel(pictures, tmp_path / "cache") == [255, 0, 0]
    assert first_pixel(write_alike(pictures, {"a": (0, 255, 0)}), tmp_path / "cache") == [0, 255, 0]


def _without_change(found: os.stat_result) -> SimpleNamespace:
    facts = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    return SimpleNamespace(**{**facts, "st_ctime_ns": 0})


def fails_for(name: str):
    """Reading as it is, but that one file's disk is away."""
    return lambda path, side: Decoded(problem="input/output error") if path.endswith(name) else decode(path, side)


def test_a_file_that_could_not_be_read_for_a_while_is_tried_again(tmp_path, monkeypatch):
    listing = list_folder(write_classes(tmp_path / "pictures", 4), 0)
    with monkeypatch.context() as patch:
        patch.setattr(module, "decode", fails_for("red/002.webp"))
        for _ in range(2):
            assert open_cache(listing, SIDE, tmp_path / "cache").bad == {"red/002.webp": "input/output error"}
    found = open_cache(listing, SIDE, tmp_path / "cache")
    assert (found.bad, len(found.rows)) == ({}, 12)
    assert np.array_equal(found.images, np.stack(expected(listing)))


def test_a_build_that_goes_on_tries_again_what_it_could_not_read(tmp_path, monkeypatch):
    listing = list_folder(write_classes(tmp_path / "pictures", 4), 0)
    fails = fails_for("blue/002.webp")  # in the first block

    def dying(path: str, side: int):
        if "red" in path:
            raise Killed
        return fails(path, side)

    with monkeypatch.context() as patch:
        patch.setattr(module, "decode", dying)
        with pytest.raises(Killed):
            open_cache(listing, SIDE, tmp_path / "cache")
    assert open_cache(listing, SIDE, tmp_path / "cache").bad == {}


@pytest.mark.parametrize("name", ["images.u8", "facts.safetensors", "index.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_cache_is_noticed_and_made_anew(name, damage, listing, tmp_path):
    first = open_cache(listing, SIDE, tmp_path / "cache")
    pixels = np.array(first.images)
    path = next((tmp_path / "cache").glob(f"*/{name}"))
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    else:
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    again = open_cache(listing, SIDE, tmp_path / "cache")
    assert np.array_equal(again.images, pixels)
    assert again.bad == first.bad


class Killed(BaseException):
    """As if the process had ended here."""


@pytest.mark.parametrize("after", [0, 5, 11, 20, 27])
def test_a_build_that_was_cut_off_goes_on_to_the_same_bytes(after, listing, tmp_path, monkeypatch):
    whole = open_cache(listing, SIDE, tmp_path / "whole")
    count = 0

    def dying(path: str, side: int):
        nonlocal count
        count += 1
        if count > after:
            raise Killed
        return decode(path, side)

    with monkeypatch.context() as patch:
        patch.setattr(module, "decode", dying)
        with pytest.raises(Killed):
            open_cache(listing, SIDE, tmp_path / "cache")
    counted = []
    monkeypatch.setattr(module, "decode", lambda path, side: counted.append(path) or decode(path, side))
    assert open_cache(listing, SIDE, tmp_path / "cache").digest == whole.digest
    assert len(counted) <= len(listing) - after // 4 * 4 + 4 + len(whole.bad)  # these are tried again
    assert [p for p in (tmp_path / "cache").iterdir() if p.name.endswith((".building", ".lock"))] == []


def test_a_block_that_is_not_as_the_progress_says_is_decoded_again(listing, tmp_path, monkeypatch):
    whole = open_cache(listing, SIDE, tmp_path / "whole")

    def dies_at_the_end(*args: object):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "_finish", dies_at_the_end)
        with pytest.raises(Killed):
            open_cache(listing, SIDE, tmp_path / "cache")
    scratch = next((tmp_path / "cache").glob("*.building"))
    content = bytearray((scratch / "images.u8").read_bytes())
    content[5 * SIDE * SIDE * 3] ^= 1  # in the second block
    (scratch / "images.u8").write_bytes(content)
    with (scratch / "progress.jsonl").open("a") as progress:
        progress.write(json.dumps({"start": 999})[:-3])  # half a line
    assert open_cache(listing, SIDE, tmp_path / "cache").digest == whole.digest


def test_a_build_that_was_cut_off_while_it_moved_images_begins_again(listing, tmp_path, monkeypatch):
    whole = open_cache(listing, SIDE, tmp_path / "whole")

    def dies(images, good, size):
        images.truncate(10 * size)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "_close_gaps", dies)
        with pytest.raises(Killed):
            open_cache(listing, SIDE, tmp_path / "cache")
    assert open_cache(listing, SIDE, tmp_path / "cache").digest == whole.digest


def _build(pictures: str, folder: str, count) -> None:
    def slow(path: str, side: int):
        with count.get_lock():
            count.value += 1
        time.sleep(0.005)
        return decode(path, side)

    module.decode = slow
    open_cache(list_folder(Path(pictures), 0.3), SIDE, Path(folder))


def test_two_processes_at_once_decode_each_file_once(listing, tmp_path):
    context = multiprocessing.get_context("spawn")
    count = context.Value("i", 0)
    args = (listing.root, str(tmp_path / "cache"), count)
    workers = [context.Process(target=_build, args=args) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert count.value == len(listing) + 7  # the second tries those again that could not be read


def test_where_nothing_can_be_read_that_is_said(tmp_path):
    write_bad_kinds(tmp_path / "pictures" / "all")
    for _ in range(2):  # from a cache of nothing, too
        with pytest.raises(DataError, match=r"none of the 7 files .* can be read"):
            open_cache(list_folder(tmp_path / "pictures", 0), SIDE, tmp_path / "cache")


def test_a_size_that_makes_no_sense_is_refused(listing, tmp_path):
    with pytest.raises(ValueError, match="image size should be from 1 to 4096 pixels, but got 0"):
        open_cache(listing, 0, tmp_path / "cache")
