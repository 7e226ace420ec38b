from __future__ import annotations

import base64
import dataclasses
import io
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from puridiver.errors import DataError
from puridiver.metrics import METRICS, Metric, Record
from puridiver.report import gallery
from puridiver.report import page as pages
from puridiver.report.page import comparison as compared
from puridiver.report.page import headlines, percent, spread, write_page
from puridiver.report.reading import find_runs, load_run
from tests.report.conftest import EVIL

VOID = {"meta", "input", "br", "path", "use", "image", "rect"}


class Page(HTMLParser):
    """A page as its tags, attributes and words; fails on tags that do not close."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(path.read_text())
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(params=["page", "comparison"])
def parsed(request: pytest.FixtureRequest) -> Page:
    return Page(request.getfixturevalue(request.param))


def test_a_page_needs_nothing_but_itself(parsed: Page) -> None:
    for tag, attributes in parsed.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), f"<{tag} {name}={target}>"
    policy = next(a["content"] for tag, a in parsed.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_ids_are_unique_and_every_reference_leads_somewhere(parsed: Page) -> None:
    ids = Counter(a["id"] for _, a in parsed.tags if "id" in a)
    assert max(ids.values()) == 1
    for _, attributes in parsed.tags:
        wanted = (attributes.get("aria-labelledby") or "").split()
        wanted += [v[1:] for n in ("href", "xlink:href") if (v := attributes.get(n) or "").startswith("#")]
        wanted += re.findall(r"url\(#([^)]+)\)", " ".join(v or "" for v in attributes.values()))
        assert set(wanted) <= set(ids)


def test_figures_and_controls_have_names_and_headings_step_down_one_at_a_time(parsed: Page) -> None:
    assert all(a.get("aria-labelledby") for tag, a in parsed.tags if tag == "svg")
    order = [tag for tag, _ in parsed.tags]
    assert all(order[i - 1] == "label" for i, tag in enumerate(order) if tag in ("select", "input"))
    levels = [int(tag[1]) for tag in order if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_the_headlines_and_the_best_epoch_stand_on_the_page(evil: Path, page: Path, comparison: Path) -> None:
    run, text = load_run(evil), Page(page).text
    assert headlines(run)[0].value == percent(run.summary["last_accuracy"])
    for headline in headlines(run):
        assert f"{headline.label} {headline.value} {headline.meaning}" in text
    assert f"Best epoch: {percent(run.summary['best_epoch_accuracy'])}" in text
    assert "Best epoch" not in Page(comparison).text
    assert "not a fair figure" in text


def test_headlines_follow_the_metrics_and_say_what_they_are_measured_by(evil: Path, monkeypatch) -> None:
    run = load_run(evil)

    def told(**changed: Any) -> dict[str, pages.Headline]:
        found = headlines(dataclasses.replace(run, summary={**run.summary, **changed}))
        return {headline.label: headline for headline in found}

    seen = "Average accuracy on classes seen by then"
    same = told(average_accuracy=0.5, average_seen_accuracy=0.5, memory_purity=None)
    assert not {seen, "Memory purity"} & same.keys()
    assert told(average_accuracy=0.5, average_seen_accuracy=0.9)[seen].value == "90.0 %"
    assert "by their true labels" in same["Last accuracy"].meaning
    assert "which may be wrong" in told(stream_noise=None)["Last accuracy"].meaning
    partly = {"verified": 5, "evaluated": 40, "verified_accuracy": 0.5}
    assert "5 of 40, of these 50.0%" in told(**partly)["Last accuracy"].meaning

    class Mood(Metric):
        """How the learner feels."""

        name, title, unit, better = "mood", "mood", "points", "lower"

        def of(self, record: Record) -> float:
            return 1.0

    monkeypatch.setitem(METRICS, "mood", Mood())
    assert told(mood=3.0)["Mood"] == pages.Headline("Mood", "3.00 points", "How the learner feels. Lower is better.")


def test_class_names_are_words_and_never_code(page: Path) -> None:
    parsed = Page(page)
    assert "<script>alert" not in page.read_text()
    assert sum(tag == "script" for tag, _ in parsed.tags) == 2  # the gallery's data and the page's own
    assert all(name in parsed.text for name in EVIL)


def test_a_comparison_has_a_row_for_each_group(grid: Path, comparison: Path) -> None:
    parsed, (runs, _) = Page(comparison), find_runs([grid])
    table = compared(runs).set_index("method")
    both = [run.summary["last_accuracy"] for run in runs if run.folder.name.startswith("puridiver")]
    assert table.loc["puridiver + puridiver", "last accuracy %"] == spread(both)
    assert table.loc["puridiver + puridiver", "seeds"] == "0, 1"
    for method in table.index:
        assert f"{method} {table.loc[method, 'last accuracy %']}" in parsed.text
    assert "shows 1 of 4 runs in detail" in parsed.text


@pytest.mark.parametrize(
    ("values", "text"),
    [([0.3, 0.307], "30.3 ± 0.5"), ([0.5], "50.0"), ([0.5, None], "-"), ([-0.0001], "0.0")],
)
def test_spreads_are_mean_and_sample_deviation(values: list[float | None], text: str) -> None:
    assert spread(values) == text


def test_a_damaged_memory_and_what_was_left_out_stand_on_the_page(evil: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pages, "figures", dict)  # they take time and are not what this is about
    run = load_run(evil)
    (tmp_path / "memory.safetensors").write_bytes(b"nothing of the kind")
    html = pages.render([dataclasses.replace(run, folder=tmp_path)], ["<b> holds no finished run"])
    assert "memory.safetensors is damaged" in html
    assert 'class="gallery"' not in html
    assert "&lt;b&gt; holds no finished run" in html


def test_a_page_replaces_a_page_and_nothing_else(evil: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pages, "figures", dict)
    runs, out = find_runs([evil])[0], tmp_path / "report.html"
    write_page(runs, [], out)
    write_page(runs, [], out)
    out.write_text("<p>my own notes</p>")
    with pytest.raises(DataError, match="--force"):
        write_page(runs, [], out)
    with pytest.raises(DataError, match="is a folder"):
        write_page(runs, [], tmp_path)
    assert out.read_text() == "<p>my own notes</p>"


def test_a_page_is_small(page: Path, comparison: Path) -> None:
    assert page.stat().st_size < 700_000
    assert comparison.stat().st_size < 1_500_000


# Galleries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "shape"), [(1, (8, 8, 1)), (40, (8, 6, 3)), (2 * gallery.PER_SHEET - 3, (4, 4, 1))])
def test_every_thumbnail_is_where_the_page_looks_for_it(n: int, shape: tuple[int, int, int]) -> None:
    images = np.random.default_rng(0).integers(256, size=(n, *shape), dtype=np.uint8)
    contents = [base64.b64decode(uri.partition(",")[2]) for uri in gallery.sprite_sheets(images)]
    sheets = [np.asarray(Image.open(io.BytesIO(content))) for content in contents]
    height, width, _ = shape
    for i in {0, n // 2, n - 1}:
        sheet, place = sheets[i // gallery.PER_SHEET], i % gallery.PER_SHEET
        row, column = divmod(place, gallery.COLUMNS)
        found = sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]
        np.testing.assert_array_equal(found, images[i].squeeze())


def test_the_rows_of_a_gallery_are_those_of_the_memory(evil: Path, tmp_path: Path) -> None:
    run = load_run(evil)
    made, memory = gallery.memory_gallery(run, "g"), run.memory
    assert made is not None
    assert memory is not None
    rows = json.loads(made["data"])["rows"]
    assert made["size"] == len(rows) == len(memory)
    columns = (memory.arrivals, memory.given, memory.suggested, memory.sets, memory.true)
    assert [[row[i] for row in rows] for i in (0, 1, 2, 4, 5)] == [column.tolist() for column in columns]
    assert gallery.memory_gallery(dataclasses.replace(run, folder=tmp_path), "g") is None


def test_nothing_in_the_data_can_end_its_script_element() -> None:
    classes = ["</script><script>alert(1)</script>", "<!--", "a & b", "\u2028"]
    text = gallery.gallery_json(classes, np.zeros((1, 2, 2, 1)), [], "x.csv")
    assert json.loads(text)["classes"] == classes
    assert not set("<>&\u2028") & set(text)
