"""Image files of every kind that the wild has, good and bad, written for the tests."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
ORIENTATION = 0x0112  # the EXIF tag


def speckled(colour: Sequence[int], seed: int, size: tuple[int, int] = (24, 20)) -> Image.Image:
    """A picture of about one colour; another one for each seed."""
    noise = np.random.default_rng(seed).integers(-25, 26, (size[1], size[0], 3))
    return Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8))


def write_classes(folder: Path, per_class: int = 8, first_seed: int = 0) -> Path:
    """FOLDER/red/0.png ... : classes that a small network can tell apart."""
    for number, (name, colour) in enumerate(COLOURS.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            ending = ("png", "jpg", "webp", "bmp")[i % 4]
            speckled(colour, first_seed + 1000 * number + i).save(folder / name / f"{i:03d}.{ending}")
    return folder


def png_header(width: int, height: int) -> bytes:
    """The start of a PNG that claims this size: a few bytes, and gigabytes once decoded."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + head
    data = b"IDAT" + zlib.compress(b"\0" * 100)
    parts = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (chunk, data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_good_kinds(folder: Path) -> dict[str, tuple[int, int, int]]:
    """A file of each kind that should load, and the colour of its middle."""
    folder.mkdir(parents=True, exist_ok=True)
    size = (40, 30)
    Image.new("L", size, 120).save(folder / "grey.jpg")
    Image.new("1", size, 1).save(folder / "bits.png")
    Image.new("CMYK", size, (0, 255, 255, 0)).save(folder / "cmyk.jpg", quality=95)
    Image.new("RGB", size, (10, 200, 10)).convert("P").save(folder / "palette.png")
    Image.fromarray(np.full((30, 40), 0x8000, dtype=np.uint16)).save(folder / "sixteen.png")
    Image.new("RGBA", size, (200, 0, 0, 0)).save(folder / "alpha.png")
    Image.new("LA", size, (0, 128)).save(folder / "half.png")
    clear = Image.new("P", size, 0)
    clear.putpalette([0, 0, 255] + [0] * 765)
    clear.save(folder / "clear.png", transparency=0)
    Image.new("RGB", size, (5, 5, 250)).save(folder / "animated.gif", save_all=True,
                                             append_images=[Image.new("RGB", size, (250, 5, 5))])  # fmt: skip
    Image.new("RGB", size, (10, 20, 200)).save(folder / "UPPER.JPG", quality=95)
    return {
        "grey.jpg": (120, 120, 120), "bits.png": (255, 255, 255), "cmyk.jpg": (254, 0, 0), "palette.png": (10, 200, 10),
        "sixteen.png": (128, 128, 128), "alpha.png": (255, 255, 255),
        "half.png": (127, 127, 127), "clear.png": (255, 255, 255), "animated.gif": (5, 5, 250),
        "UPPER.JPG": (10, 20, 200),
    }  # fmt: skip


def write_bad_kinds(folder: Path) -> dict[str, str]:
    """A file of each kind that cannot load, and a word of what should be said of it."""
    folder.mkdir(parents=True, exist_ok=True)
    speckled((90, 90, 90), 7, (200, 200)).save(folder / "cut.jpg")
    whole = (folder / "cut.jpg").read_bytes()
    (folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    speckled((90, 90, 90), 8, (200, 200)).save(folder / "cut.png")
    whole = (folder / "cut.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("this is no picture")
    (folder / "bomb.png").write_bytes(png_header(60_000, 60_000))
    (folder / "small-bomb.png").write_bytes(png_header(12_000, 8_000))
    os.symlink(folder / "nowhere.jpg", folder / "dangling.jpg")
    return {
        "cut.jpg": "truncated", "cut.png": "truncated", "empty.jpg": "not an image", "text.jpg": "not an image",
        "bomb.png": "bomb", "small-bomb.png": "bomb", "dangling.jpg": "no such file",
    }  # fmt: skip


def write_turned(path: Path, orientation: int) -> None:
    """A picture whose stored top left is white, with this EXIF orientation."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[:20, :30] = 255
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(pixels).save(path, exif=exif, quality=95)


def write_oddly_named(folder: Path, colour: Sequence[int] = (10, 10, 10)) -> bytes:
    """A good PNG whose name is no UTF-8; its name."""
    name = b"caf\xe9.png"
    speckled(colour, 3).save(folder / "plain.png")
    os.rename(folder / "plain.png", os.path.join(os.fsencode(folder), name))
    return name
