"""Files and pictures of every kind: the good come out right, the bad are named, nothing hangs or fills memory."""

from __future__ import annotations

import doctest
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from puridiver import image_batch
from puridiver.data import images as module
from puridiver.data.images import as_rgb, decode
from tests.wild import write_bad_kinds, write_good_kinds, write_turned

SHAPE = (8, 8, 3)
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def grey(pixels: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).convert("L"))[..., None]


def test_every_good_kind_comes_out_in_its_colour(tmp_path: Path) -> None:
    kinds = write_good_kinds(tmp_path)
    batches = {channels: image_batch([tmp_path / name for name in kinds], (8, 8, channels)) for channels in (1, 3)}
    for row, (name, colour) in enumerate(kinds.items()):
        found = decode(str(tmp_path / name), (8, 8, 3))
        assert isinstance(found, np.ndarray), (name, found)
        assert np.abs(found.astype(int) - np.array(colour)).max() <= 3, (name, found[4, 4])
        assert np.array_equal(batches[3][row], found), name
        assert np.array_equal(batches[1][row], grey(found)), name


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # the cache silences it
def test_every_bad_kind_is_told(tmp_path: Path) -> None:
    bad = write_bad_kinds(tmp_path)
    (tmp_path / "script.png").write_bytes(POSTSCRIPT)  # which Pillow would hand to another program
    os.mkfifo(tmp_path / "pipe.png")
    os.symlink("/dev/zero", tmp_path / "device.png")
    (tmp_path / "folder.png").mkdir()
    hostile = {"script.png": "not an image", "pipe.png": "regular", "device.png": "regular", "folder.png": "regular"}
    good = noise(8, 8, 3)
    for name, word in {**bad, **hostile, "nul\0.png": "null"}.items():
        found = decode(str(tmp_path / name), (8, 8, 3))
        assert isinstance(found, str)
        assert word in found, (name, found)
        with pytest.raises(ValueError, match="1 of 3 pictures cannot be used: picture 1") as told:
            image_batch([good, str(tmp_path / name), good], SHAPE)
        assert word in str(told.value), name
    with pytest.raises(ValueError, match=r"15 of 16 pictures .* and 5 more$"):
        image_batch([good, *[b"no image"] * 15], SHAPE)


# Where the white quarter, stored at the top left, is to be seen: (bottom?, right?).
@pytest.mark.parametrize(("orientation", "bottom", "right"), [(1, 0, 0), (3, 1, 1), (6, 0, 1), (8, 1, 0)])
def test_exif_orientation_is_followed(orientation: int, bottom: int, right: int, tmp_path: Path) -> None:
    write_turned(tmp_path / "turned.jpg", orientation)
    found = decode(str(tmp_path / "turned.jpg"), (40, 40, 3))
    assert isinstance(found, np.ndarray)
    quarters = {(b, r): found[5 + 25 * b, 5 + 25 * r].mean() > 128 for b in (0, 1) for r in (0, 1)}
    assert quarters == {(b, r): (b, r) == (bottom, right) for b in (0, 1) for r in (0, 1)}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_damaged_exif_block_does_not_cost_the_picture(tmp_path: Path) -> None:
    Image.new("RGB", (20, 20), (9, 99, 9)).save(tmp_path / "exif.jpg", exif=b"Exif\0\0MM\0*\0\0\0\xff\xff\xff")
    assert decode(str(tmp_path / "exif.jpg"), (4, 4, 3)).shape == (4, 4, 3)


def test_the_middle_of_a_wide_picture_is_kept_and_a_thin_strip_stays_small(tmp_path: Path) -> None:
    pixels = np.zeros((10, 30, 3), dtype=np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    assert (decode(str(tmp_path / "wide.png"), (10, 10, 3)) == 200).all()
    Image.new("L", (1, 50_000), 77).save(tmp_path / "strip.png")  # scaled whole it would have 50 million rows
    assert (decode(str(tmp_path / "strip.png"), (1000, 1000, 3)) == 77).all()


def test_sixteen_bits_are_scaled_and_not_cut_off() -> None:
    ramp = np.array([[0, 257], [32896, 65535]], dtype=np.uint16)
    assert np.asarray(as_rgb(Image.fromarray(ramp)))[..., 0].ravel().tolist() == [0, 1, 128, 255]


def test_threads_decode_one_large_picture_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_work, alone = threading.Lock(), list[bool]()

    def watched(picture: Image.Image) -> Image.Image:
        if picture.width > 7:
            alone.append(first := in_work.acquire(blocking=False))
            sleep(0.001)
            if first:
                in_work.release()
        return picture

    monkeypatch.setattr(module, "LARGE", 50)
    monkeypatch.setattr(module, "as_rgb", watched)
    for side in (4, 10, 30):
        Image.new("RGB", (side, side), (side, 0, 0)).save(tmp_path / f"{side}.png")
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda side: decode(str(tmp_path / f"{side}.png"), (4, 4, 3)), [4, 10, 30, 10] * 20, timeout=60)
        )
    assert not any(isinstance(one, str) for one in found)
    assert alone == [True] * 60


def test_files_bytes_and_arrays_of_one_picture_are_the_same_pixels(tmp_path: Path) -> None:
    pixels = noise(30, 40, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    content, floats = (tmp_path / "a.png").read_bytes(), pixels.astype(np.float64) / 255
    kinds: list[Any] = [
        tmp_path / "a.png", str(tmp_path / "a.png"), content, pixels, torch.from_numpy(pixels),
        torch.from_numpy(floats).requires_grad_(),
    ]  # fmt: skip
    found = image_batch(kinds, SHAPE)
    assert found.dtype == np.uint8
    assert all(np.array_equal(each, decode(str(tmp_path / "a.png"), (8, 8, 3))) for each in found)


def test_what_has_the_size_already_keeps_its_bits_and_is_copied() -> None:
    colours, one_grey = noise(4, 8, 8, 3), noise(4, 8, 8, 1)
    assert np.array_equal(image_batch(torch.from_numpy(colours), SHAPE), colours)
    assert np.array_equal(image_batch([each[..., 0] for each in one_grey], (8, 8, 1)), one_grey)
    assert np.array_equal(image_batch([colours[0]], (8, 8, 1))[0], grey(colours[0]))
    assert np.array_equal(image_batch([one_grey[0]], SHAPE)[0], np.repeat(one_grey[0], 3, axis=2))
    found = image_batch([colours[0]], SHAPE)
    colours[:] = 0
    assert found.any()


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        (["nowhere.png"], r"picture 0 \('nowhere.png'\): there is no such file"),
        ([b""], "not an image that can be read"),
        ([POSTSCRIPT], "not an image that can be read"),
        ([None], "not NoneType"),
        ([np.zeros((2, 8, 8), np.uint8)], r"\(N, 1 or 3, H, W\)"),
        ([np.full((8, 8), np.nan)], "should be finite"),
        ("a.png", "a single one is a list of one"),
        (noise(8, 8, 3), "a single one is a list of one"),
        (np.array("a"), "a single one is a list of one"),
        (7, "but got a int$"),
        ([], "the batch is empty"),
    ],
)
def test_what_is_no_list_of_pictures_is_refused(pictures: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_batch(pictures, SHAPE)


def test_the_example_of_the_documentation_runs() -> None:
    assert doctest.testmod(module).failed == 0
