"""Files of every kind the wild has: the good come out right, the bad are named, nothing raises."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from puridiver.data.decode import as_rgb, decode
from tests.wild import write_bad_kinds, write_good_kinds, write_oddly_named, write_turned


def test_every_good_kind_comes_out_in_its_colour(tmp_path):
    for name, colour in write_good_kinds(tmp_path).items():
        found = decode(str(tmp_path / name), 8)
        assert found.problem == "", name
        assert found.pixels is not None
        assert found.pixels.shape == (8, 8, 3), name
        assert found.size == (40, 30), name
        difference = np.abs(found.pixels.astype(int) - np.array(colour)).max()
        assert difference <= 3, (name, found.pixels[4, 4])


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # who decodes many silences it
def test_every_bad_kind_is_told_and_raises_nothing(tmp_path):
    for name, word in write_bad_kinds(tmp_path).items():
        found = decode(str(tmp_path / name), 8)
        assert word in found.problem, (name, found.problem)
        assert found.pixels is None


def test_a_file_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    Image.new("RGB", (4, 4)).save(tmp_path / "secret.png")

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.path.getsize", refuse)  # a test that runs as root may read everything
    assert decode(str(tmp_path / "secret.png"), 8).problem == "permission denied"


# Where the white quarter, stored at the top left, is to be seen: (bottom?, right?), and whether the picture is turned.
@pytest.mark.parametrize(
    ("orientation", "bottom", "right", "turned"),
    [(1, 0, 0, False), (2, 0, 1, False), (3, 1, 1, False), (4, 1, 0, False),
     (5, 0, 0, True), (6, 0, 1, True), (7, 1, 1, True), (8, 1, 0, True)],
)  # fmt: skip
def test_exif_orientation_is_followed(orientation, bottom, right, turned, tmp_path):
    write_turned(tmp_path / "turned.jpg", orientation)
    found = decode(str(tmp_path / "turned.jpg"), 40)
    assert found.size == ((40, 60) if turned else (60, 40))
    assert found.pixels is not None
    quarters = {(b, r): found.pixels[5 + 25 * b, 5 + 25 * r].mean() > 128 for b in (0, 1) for r in (0, 1)}
    assert quarters == {(b, r): (b, r) == (bottom, right) for b in (0, 1) for r in (0, 1)}


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_damaged_exif_block_does_not_cost_the_picture(tmp_path):
    Image.new("RGB", (20, 20), (9, 99, 9)).save(tmp_path / "exif.jpg", exif=b"Exif\0\0MM\0*\0\0\0\xff\xff\xff")
    found = decode(str(tmp_path / "exif.jpg"), 4)
    assert found.problem == ""


def test_the_middle_of_a_wide_picture_is_kept_and_a_thin_strip_stays_small(tmp_path):
    pixels = np.zeros((10, 30, 3), dtype=np.uint8)
    pixels[:, 10:20] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    found = decode(str(tmp_path / "wide.png"), 10)
    assert (found.pixels == 200).all()
    Image.new("L", (1, 50_000), 77).save(tmp_path / "strip.png")  # scaled whole it would have 50 million rows
    strip = decode(str(tmp_path / "strip.png"), 1000)
    assert (strip.pixels == 77).all()


def test_sixteen_bits_are_scaled_and_not_cut_off():
    ramp = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    assert np.asarray(as_rgb(Image.fromarray(ramp)))[0, :, 0].tolist() == [0, 1, 128, 255]


def test_equal_pixels_have_equal_digests_whatever_the_file(tmp_path):
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 9, 3), dtype=np.uint8))
    picture.save(tmp_path / "a.png")
    picture.save(tmp_path / "b.bmp")
    picture.rotate(90).save(tmp_path / "c.png")
    digests = [decode(str(tmp_path / name), 4).digest for name in ("a.png", "b.bmp", "c.png")]
    assert digests[0] == digests[1] != digests[2]


def test_a_name_that_is_no_utf8_is_no_hindrance(tmp_path):
    name = os.fsdecode(write_oddly_named(tmp_path))
    assert decode(os.path.join(tmp_path, name), 4).problem == ""
