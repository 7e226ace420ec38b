from __future__ import annotations

import base64
import dataclasses
import html
import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from puridiver.errors import DataError
from puridiver.metrics import METRICS, Metric
from puridiver.report import page as pages
from puridiver.report.figures import figures
from puridiver.report.page import comparison as compared
from puridiver.report.page import headlines, percent, spread
from puridiver.report.reading import find_runs, load_run
from tests.report.conftest import EVIL


def words(page: Path) -> str:
    """What a page says."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.read_text())))


def test_the_headlines_and_the_best_epoch_stand_on_the_page(evil: Path, page: Path, comparison: Path) -> None:
    run, text = load_run(evil), words(page)
    assert headlines(run)[0].value == percent(run.summary["last_accuracy"])
    for headline in headlines(run):
        assert f"{headline.label} {headline.value} {headline.meaning}" in text
    assert f"Best epoch: {percent(run.summary['best_epoch_accuracy'])}" in text
    assert "Best epoch" not in words(comparison)
    assert "not a fair figure" in text


def test_headlines_follow_the_metrics_and_say_what_they_are_measured_by(evil: Path, monkeypatch) -> None:
    mood = Metric("mood", "mood", "How the learner feels.", lambda record: 1.0, "points", "lower")
    monkeypatch.setitem(METRICS, "mood", mood)
    run = load_run(evil)
    summary = {**run.summary, "mood": 3.0, "memory_purity": None, "stream_noise": None}
    found = {headline.label: headline for headline in headlines(dataclasses.replace(run, summary=summary))}
    assert found["Mood"] == pages.Headline("Mood", "3.00 points", "How the learner feels. Lower is better.")
    assert "Memory purity" not in found
    assert "which may be wrong" in found["Last accuracy"].meaning
    assert "by their true labels" in headlines(run)[0].meaning


def test_class_names_are_words_and_never_code_and_the_page_is_small(page: Path) -> None:
    assert page.stat().st_size < 1_000_000
    assert "<script>alert" not in page.read_text()
    assert page.read_text().count("<script") == 2  # the gallery's data and the page's own
    assert all(name in words(page) for name in EVIL)


def test_a_comparison_has_a_row_for_each_group(grid: Path, comparison: Path) -> None:
    text, (runs, _) = words(comparison), find_runs([grid])
    table = compared(runs).set_index("method")
    both = [run.summary["last_accuracy"] for run in runs if run.folder.name.startswith("puridiver")]
    assert table.loc["PuriDivER", "last accuracy %"] == spread(both)
    assert table.loc["PuriDivER", "seeds"] == "0, 1"
    for method in table.index:
        assert f"{method} {table.loc[method, 'last accuracy %']}" in text
    assert "shows 1 of 4 runs in detail" in text


def test_a_damaged_memory_and_what_was_left_out_stand_on_the_page(evil: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pages, "figures", dict)  # they take time and are not what this is about
    run = load_run(evil)
    (tmp_path / "memory.safetensors").write_bytes(b"nothing of the kind")
    text = pages.render([dataclasses.replace(run, folder=tmp_path)], ["<b> holds no finished run"])
    assert "memory.safetensors is damaged" in text
    assert 'class="gallery"' not in text
    assert "&lt;b&gt; holds no finished run" in text


def test_a_run_has_a_title_in_words_and_stands_beside_its_baseline(grid: Path, evil: Path, monkeypatch) -> None:
    few = {"accuracy": figures()["accuracy"]}
    monkeypatch.setattr(pages, "figures", lambda: few)
    monkeypatch.setattr(pages, "memory_gallery", lambda run: None)
    run, plain, seed = (load_run(grid / "cells" / name) for name in ("puridiver-0", "plain-0", "puridiver-1"))
    page = html.unescape(pages.render([run], [], [plain]))
    assert "<h1>PuriDivER on digits: 2 blurry tasks, 4" in page
    more = 100 * (run.summary["last_accuracy"] - plain.summary["last_accuracy"])
    assert f'Against RSV + cross-entropy</div><div class="value">{more:+.1f} points' in page
    assert "of 1 run on the same stream" in page
    assert page.count("<td>RSV + cross-entropy</td>") == len(plain.of_kind("anytime", "task"))  # a curve beside its own
    assert "of the labels wrong" in html.unescape(pages.render([run, plain], []))
    both = pages.render([run, seed], [], [plain])
    assert both.count("<td>RSV + cross-entropy</td>") > page.count("<td>RSV + cross-entropy</td>")  # side by side, too
    with pytest.raises(DataError, match=r"should name another method on digits sym-40, but .*puridiver-1 is PuriDivER"):
        pages.render([run], [], [seed])  # they differ by seed alone
    with pytest.raises(DataError, match=r"another method on digits sym-40, but .* on arrays sym-40"):
        pages.render([run], [], [load_run(evil)])
    pages.render([run, plain], [], [plain])  # a baseline may be among the runs


# Galleries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8, 6, 3), (4, 4, 1), (224, 160, 3)])
def test_thumbnails_are_the_images_and_small(shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(256, size=(3, *shape), dtype=np.uint8)
    contents = [base64.b64decode(uri.partition(",")[2]) for uri in pages.thumbnails(images)]
    found = [np.asarray(Image.open(io.BytesIO(content))) for content in contents]
    if max(shape) > pages.THUMBNAIL:
        assert found[0].shape == (64, 46, 3)
    else:
        np.testing.assert_array_equal(found, np.broadcast_to(images, (3, *shape[:2], 3)))
