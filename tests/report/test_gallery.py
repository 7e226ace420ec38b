from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from puridiver.report import gallery
from puridiver.report.reading import read_run


def decoded(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


@pytest.mark.parametrize(("n", "shape"), [(1, (8, 8, 1)), (40, (8, 6, 3)), (2 * gallery.PER_SHEET - 3, (4, 4, 1))])
def test_every_thumbnail_is_where_the_page_looks_for_it(n: int, shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(256, size=(n, *shape), dtype=np.uint8)
    sheets = [decoded(uri) for uri in gallery.sprite_sheets(images)]
    height, width, _ = shape
    for i in {0, n // 2, n - 1}:
        sheet, place = sheets[i // gallery.PER_SHEET], i % gallery.PER_SHEET
        row, column = divmod(place, gallery.COLUMNS)
        found = sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]
        np.testing.assert_array_equal(found, images[i].squeeze())


def test_ten_thousand_images_stay_within_bounds() -> None:
    # Smooth images, as photographs are; pure noise cannot be made small.
    noise = np.random.default_rng(0).integers(256, size=(10_000, 4, 4, 3), dtype=np.uint8)
    images = noise.repeat(8, axis=1).repeat(8, axis=2)
    sheets = gallery.sprite_sheets(images)
    assert len(sheets) == 10
    assert sum(map(len, sheets)) < 15_000_000
    assert all(sheet.startswith("data:image/webp") for sheet in sheets)


def test_the_rows_are_the_snapshots(grid: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    made, memory = gallery.build(run, "g"), run.memory
    assert made is not None
    assert memory is not None
    data = json.loads(made.data)
    assert made.size == len(data["rows"]) == len(memory) == 60
    for i, (arrival, given, suggested, p, code, true) in enumerate(data["rows"]):
        assert (arrival, given, suggested) == (memory.arrivals[i], memory.given[i], memory.suggested[i])
        assert p == pytest.approx(memory.p_correct[i], abs=1e-4)
        assert (code, true) == (memory.sets[i], memory.true[i])


def test_a_run_without_a_snapshot_has_no_gallery(grid: Path, tmp_path: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    assert gallery.build(type(run)(tmp_path, run.summary, run.config, run.events, run.manifest), "g") is None


def test_nothing_in_the_data_can_end_its_script_element() -> None:
    value = ["</script><script>alert(1)</script>", "<!--", "a & b", "\u2028"]
    text = gallery.script_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028") & set(text)
