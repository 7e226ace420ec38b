"""The memory as a gallery: thumbnails in a few sprite sheets, and a row of data for each, for the page's script."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from puridiver.metrics.memory_snapshot import UNKNOWN, MemorySnapshot
from puridiver.report.reading import Run
from puridiver.trainers import SET_NAMES

COLUMNS = 32
PER_SHEET = 32 * COLUMNS
LOSSLESS_BYTES = 4_000_000  # pixels above this many bytes are stored lossily: 10,000 images of 32 px are 30 MB


@dataclass(frozen=True)
class Gallery:
    """What the page needs to show one run's memory."""

    name: str
    sheets: list[str]  # data URIs
    data: str  # JSON that is safe inside a script element
    classes: list[str]
    has_truth: bool
    size: int


def build(run: Run, name: str) -> Gallery | None:
    """The gallery of a run, or None where the run did not keep its memory."""
    memory = run.memory
    if memory is None or not len(memory):
        return None
    height, width = memory.images.shape[1:3]
    known = bool((memory.true != UNKNOWN).any())
    content = {
        "classes": run.class_names,
        "sets": list(SET_NAMES),
        "cell": [width, height],
        "columns": COLUMNS,
        "perSheet": PER_SHEET,
        "rows": _rows(memory),
        "file": f"suspects-{run.folder.resolve().name}.csv",
    }
    return Gallery(name, sprite_sheets(memory.images), script_json(content), run.class_names, known, len(memory))


def _rows(memory: MemorySnapshot) -> list[list[Any]]:
    """[arrival, given, suggested, probability, set, true or null] of each sample, in the sheets' order.

    Where it is known where images came from, "" (no reason for a doubt, as an audit gives) and that follow.
    """
    names: Sequence[list[str]] = [[]] * len(memory) if memory.names is None else [["", name] for name in memory.names]
    columns = zip(
        memory.arrivals.tolist(), memory.given.tolist(), memory.suggested.tolist(),
        memory.p_correct.tolist(), memory.sets.tolist(), memory.true.tolist(), names, strict=True,
    )  # fmt: skip
    return [
        [arrival, given, suggested, round(p, 4), code, None if true == UNKNOWN else true, *named]
        for arrival, given, suggested, p, code, true, named in columns
    ]


def sprite_sheets(images: np.ndarray) -> list[str]:
    """uint8 (N, H, W, C) as data URIs of pictures with COLUMNS thumbnails a row."""
    lossless = images.nbytes <= LOSSLESS_BYTES
    parts = [images[start : start + PER_SHEET] for start in range(0, len(images), PER_SHEET)]
    return [_data_uri(_tiled(part), lossless) for part in parts]


def _tiled(images: np.ndarray) -> np.ndarray:
    n, height, width, channels = images.shape
    rows = -(-n // COLUMNS)
    tiles = np.zeros((rows * COLUMNS, height, width, channels), dtype=np.uint8)
    tiles[:n] = images
    return tiles.reshape(rows, COLUMNS, height, width, channels).swapaxes(1, 2).reshape(rows * height, -1, channels)


def _data_uri(pixels: np.ndarray, lossless: bool) -> str:
    from PIL import Image

    content, picture = io.BytesIO(), Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
    if lossless:
        picture.save(content, "PNG", optimize=True)
    else:
        picture.convert("RGB").save(content, "WEBP", quality=80)
    kind = "png" if lossless else "webp"
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"


def script_json(value: Any) -> str:
    """JSON in which nothing can end a script element, whatever a class is called."""
    text = json.dumps(value, separators=(",", ":"))  # ASCII: line separators come out as escapes
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
