"""Batches of pictures of any size and kind."""

from __future__ import annotations

import doctest
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from puridiver import Learner, image_batch
from puridiver.data import pictures
from puridiver.data.decode import decode, grey
from tests.wild import write_bad_kinds, write_good_kinds, write_turned

SHAPE = (8, 8, 3)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def test_files_bytes_pictures_and_arrays_of_one_picture_are_the_same_pixels(tmp_path: Path) -> None:
    pixels = noise(30, 40, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    floats = pixels.astype(np.float64) / 255
    kinds: list[Any] = [
        tmp_path / "a.png", str(tmp_path / "a.png"), content, bytearray(content), memoryview(content),
        Image.fromarray(pixels), Image.open(tmp_path / "a.png"), pixels, torch.from_numpy(pixels), floats,
        torch.from_numpy(floats).requires_grad_(), np.flip(np.flip(pixels, 0).copy(), 0),
    ]  # fmt: skip
    found = image_batch(kinds, SHAPE)
    assert (found.shape, found.dtype) == ((len(kinds), *SHAPE), np.uint8)
    expected = decode(str(tmp_path / "a.png"), 8).pixels  # as the data loaders have it
    assert all(np.array_equal(each, expected) for each in found)


@pytest.mark.parametrize("channels", [1, 3])
def test_every_kind_of_file_is_as_the_loaders_have_it(channels: int, tmp_path: Path) -> None:
    names = sorted(write_good_kinds(tmp_path))
    found = image_batch([tmp_path / each for each in names], (8, 8, channels))
    for each, pixels in zip(names, found, strict=True):
        expected = decode(str(tmp_path / each), 8).pixels
        assert expected is not None
        assert np.array_equal(pixels, expected if channels == 3 else grey(expected)), each


def test_what_has_the_size_already_keeps_its_bits() -> None:
    colours, one_grey = noise(4, 8, 8, 3), noise(4, 8, 8, 1)
    assert np.array_equal(image_batch(colours, SHAPE), colours)
    assert np.array_equal(image_batch(torch.from_numpy(colours), SHAPE), colours)
    assert np.array_equal(image_batch([Image.fromarray(each) for each in colours], SHAPE), colours)
    assert np.array_equal(image_batch(one_grey, (8, 8, 1)), one_grey)
    assert np.array_equal(image_batch([each[..., 0] for each in one_grey], (8, 8, 1)), one_grey)


def test_grey_and_colours_become_what_is_asked_for() -> None:
    colours, one_grey = noise(8, 8, 3), noise(8, 8)
    assert np.array_equal(image_batch([colours], (8, 8, 1))[0], grey(colours))
    assert np.array_equal(image_batch([one_grey], SHAPE)[0], np.stack([one_grey] * 3, axis=2))
    large = np.repeat(np.repeat(one_grey, 3, 0), 3, 1)
    by_array, by_picture = image_batch([large, Image.fromarray(large)], (8, 8, 1))
    assert np.array_equal(by_array, by_picture)


def test_transparency_is_laid_on_white() -> None:
    clear = np.zeros((8, 8, 4), dtype=np.uint8)
    assert (image_batch([clear, clear / 255.0, Image.fromarray(clear)], SHAPE) == 255).all()


def test_the_caller_s_arrays_are_copied() -> None:
    pixels = noise(8, 8, 3)
    found = image_batch([pixels], SHAPE)
    before = found.copy()
    pixels[:] = 0
    assert np.array_equal(found, before)


@pytest.mark.parametrize(
    ("whole", "part"),
    [((20, 60), np.s_[:, 10:50]), ((60, 40), np.s_[20:40, :]), ((20, 40), np.s_[:, :])],
    ids=["wider", "higher", "alike"],
)
def test_the_middle_is_cut_in_the_proportions_asked_for(whole: tuple[int, int], part: Any) -> None:
    pixels = np.zeros((*whole, 3), dtype=np.uint8)
    pixels[part] = 200
    found = image_batch([pixels], (20, 40, 3))
    assert found.shape == (1, 20, 40, 3)
    assert (found == 200).all()


def test_a_picture_is_turned_as_its_file_says(tmp_path: Path) -> None:
    write_turned(tmp_path / "turned.jpg", 6)
    with Image.open(tmp_path / "turned.jpg") as picture:
        by_file, by_picture = image_batch([tmp_path / "turned.jpg", picture], (40, 40, 3))
    assert by_file[5, 35].mean() > 128  # the white quarter, stored at the top left
    assert np.array_equal(by_file, by_picture)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_every_bad_file_is_named_with_what_is_wrong(tmp_path: Path) -> None:
    kinds = write_bad_kinds(tmp_path)
    good = tmp_path / "good.png"
    Image.new("RGB", (4, 4)).save(good)
    for name, word in kinds.items():
        with pytest.raises(ValueError, match="1 of 3 pictures cannot be used: picture 1") as told:
            image_batch([good, tmp_path / name, good], SHAPE)
        assert word in str(told.value), name
        assert repr(str(tmp_path / name)) in str(told.value)


def test_of_many_bad_pictures_some_are_named() -> None:
    with pytest.raises(
        ValueError, match=r"^15 of 16 pictures cannot be used: picture 1: .*; \.\.\. and 5 more$"
    ) as told:
        image_batch([noise(8, 8, 3), *[b"no image"] * 15], SHAPE)
    assert str(told.value).count("not an image that can be read") == 10


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        ("nowhere.png", r"picture 0 \('nowhere.png'\): there is no such file"),
        (b"", "picture 0: the file is empty"),
        (b"GIF89a", "picture 0: "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not an image that can be read"),
        (None, "pictures should be paths of image files, .* but this is a NoneType"),
        ([[1, 2], [3, 4]], "but this is a list"),
        (np.zeros((3, 8, 8), np.uint8), r"but has \(3, 8, 8\): channels come last, as by permute\(1, 2, 0\)"),
        (np.zeros((8, 8, 2), np.uint8), r"the shape \(H, W\) or \(H, W, 1, 3 or 4\), but has \(8, 8, 2\)$"),
        (np.zeros((0, 8, 3), np.uint8), r"but has \(0, 8, 3\)"),
        (np.zeros((8, 8), np.int64), r"uint8, or floats in \[0, 1\], but got an array of int64"),
        (np.full((8, 8), 200.0), r"images of floats should lie in \[0, 1\], but got values from 200 to 200"),
        (np.full((8, 8), np.nan), "should be finite"),
    ],
)
def test_pictures_that_cannot_be_used_are_told(picture: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_batch([picture], SHAPE)


@pytest.mark.parametrize(
    ("pictures", "message"),
    [
        ("a.png", "pictures should be a list of .* but got a str: a single picture is a list of one"),
        (Path("a.png"), "but got a PosixPath: a single picture is a list of one"),
        (b"abc", "but got a bytes: a single picture is a list of one"),
        (Image.new("RGB", (4, 4)), "but got a Image: a single picture is a list of one"),
        (noise(8, 8, 3), r"should have four axes, but got \(8, 8, 3\) \(a single one is a list of one\)"),
        (torch.zeros(8), r"should have four axes, but got \(8,\)"),
        (7, "pictures should be a list of .* but got a int$"),
        ([], "the batch is empty: pictures should hold at least one"),
    ],
)
def test_what_is_no_list_of_pictures_is_refused(pictures: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        image_batch(pictures, SHAPE)


def test_a_shape_that_no_learner_has_is_refused() -> None:
    with pytest.raises(ValueError, match="image_shape should be"):
        image_batch([noise(8, 8, 3)], (8, 8))  # type: ignore[arg-type]


def test_columns_and_generators_of_pictures_are_taken(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), "red").save(tmp_path / "a.png")
    names = np.array([str(tmp_path / "a.png")] * 3)
    assert image_batch(names, SHAPE).shape == (3, *SHAPE)
    assert image_batch(names.astype(object), SHAPE).shape == (3, *SHAPE)
    assert image_batch((noise(9, 9, 3) for _ in range(2)), SHAPE).shape == (2, *SHAPE)


def test_a_learner_takes_it() -> None:
    learner = Learner(classes=["a", "b"], image_shape=(8, 8, 1), memory=8, device="cpu")
    content = io.BytesIO()
    Image.fromarray(noise(50, 20, 3)).save(content, "jpeg")
    batch = image_batch([content.getvalue(), noise(9, 30), Image.new("RGBA", (3, 5))], learner.image_shape)
    learner.observe(batch, ["a", "b", "a"], ids=["one", "two", "three"])
    assert learner.predict(batch).shape == (3,)


def test_arrays_of_the_right_size_need_no_pillow() -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "import numpy as np, puridiver\n"
        "assert puridiver.image_batch([np.zeros((8, 8))], (8, 8, 3)).shape == (1, 8, 8, 3)\n"
        "try:\n    puridiver.image_batch([np.zeros((9, 9))], (8, 8, 3))\n"
        "except puridiver.DataError as error:\n    sys.exit('need Pillow' not in str(error))\n"
        "sys.exit(2)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_example_of_the_documentation_runs() -> None:
    assert doctest.testmod(pictures).failed == 0
