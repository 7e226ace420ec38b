"""Images on a page: thumbnails in a few sprite sheets, and JSON that the page's script reads."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np

from puridiver.data.base import UNKNOWN
from puridiver.report.reading import Run
from puridiver.trainers import SET_NAMES

COLUMNS = 32
PER_SHEET = 32 * COLUMNS
LOSSLESS_BYTES = 4_000_000  # larger galleries are stored lossily: 10,000 images of 32 px are 30 MB


def memory_gallery(run: Run, name: str) -> dict[str, Any] | None:
    """What the page needs to show a run's memory, or None where the run did not keep it."""
    memory = run.memory
    if memory is None or not len(memory):
        return None
    # As `Learner.audit` sorts them: first the samples with another suggested label, each by trust.
    order = np.lexsort((memory.arrivals, memory.p_correct, memory.given == memory.suggested))
    names = np.array(memory.names or [""] * len(memory))
    columns = (memory.arrivals, memory.given, memory.suggested, memory.p_correct, memory.sets, memory.true, names)
    rows = [
        [arrival, given, suggested, round(trust, 4), code, None if true == UNKNOWN else true, "", where]
        for arrival, given, suggested, trust, code, true, where in zip(
            *(c[order].tolist() for c in columns), strict=True
        )
    ]
    content = gallery_json(run.class_names, memory.images, rows, f"suspects-{run.folder.resolve().name}.csv")
    return {
        "name": name, "sheets": sprite_sheets(memory.images[order]), "data": content, "classes": run.class_names,
        "has_truth": bool((memory.true != UNKNOWN).any()), "size": len(memory),
    }  # fmt: skip


def gallery_json(classes: list[str], images: np.ndarray, rows: list[list[Any]], file: str, **more: Any) -> str:
    """The data of a gallery as JSON that cannot end a script element, whatever a class is called.

    A row is [arrival or row, given, suggested, probability or trust, set, true or null, why, name]. Rows are in the
    order of the sheets, the most doubtful first.
    """
    content = {
        "classes": classes, "sets": list(SET_NAMES), "cell": [images.shape[2], images.shape[1]], "columns": COLUMNS,
        "perSheet": PER_SHEET, "rows": rows, "file": file, **more,
    }  # fmt: skip
    text = json.dumps(content, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def sprite_sheets(images: np.ndarray) -> list[str]:
    """uint8 (N, H, W, C) as data URIs of pictures with COLUMNS thumbnails a row."""
    from PIL import Image

    kind, saving = ("png", {"optimize": True}) if images.nbytes <= LOSSLESS_BYTES else ("webp", {"quality": 80})
    _, height, width, channels = images.shape
    sheets = []
    for start in range(0, len(images), PER_SHEET):
        part = images[start : start + PER_SHEET]
        rows = -(-len(part) // COLUMNS)
        tiles = np.zeros((rows * COLUMNS, height, width, channels), dtype=np.uint8)
        tiles[: len(part)] = part
        pixels = tiles.reshape(rows, COLUMNS, height, width, channels).swapaxes(1, 2)
        pixels = pixels.reshape(rows * height, COLUMNS * width, channels)
        content = io.BytesIO()
        Image.fromarray(pixels.squeeze(2) if channels == 1 else pixels).save(content, kind, **saving)
        sheets.append(f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}")
    return sheets
