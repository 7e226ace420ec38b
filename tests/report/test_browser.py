"""The page in a real browser: Debian's chromium, headless, from disk, without a network."""

from __future__ import annotations

import csv
import dataclasses
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.report.page import write_page
from puridiver.report.reading import find_runs, read_run
from puridiver.trainers import SET_NAMES
from tests.report.conftest import EVIL

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Opened:
    """A page as a reader sees it; complaints and attempts to reach the network are kept."""

    def __init__(self, browser: Any, path: Path, width: int = 1100, scheme: str = "light") -> None:
        viewport = {"width": width, "height": 800}
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def choose(self, **values: str) -> None:
        for name, value in values.items():
            control = self.page.locator(f".gallery [name={name}]")
            control.fill(value) if name == "text" else control.select_option(value)

    def arrivals(self) -> list[int]:
        """What the gallery shows, over all its pages, in order."""
        found: list[int] = []
        while True:
            cards = self.page.locator(".cards li")
            found += [int(arrival) for arrival in cards.evaluate_all("cards => cards.map(c => c.dataset.arrival)")]
            if self.page.locator(".gallery .next").is_disabled():
                return found
            self.page.locator(".gallery .next").click()

    def csv(self) -> list[list[str]]:
        with self.page.expect_download() as download:
            self.page.locator(".gallery .download").click()
        return list(csv.reader(io.StringIO(download.value.path().read_text(encoding="utf-8"), newline="")))

    def background(self) -> str:
        return self.page.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.fixture
def opened(browser: Any, page: Path) -> Iterator[Opened]:
    found = Opened(browser, page)
    yield found
    found.context.close()
    assert found.complaints == []


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The memory of a run as the gallery should know it, most doubtful first."""
    run = read_run(folder)
    m = run.memory
    assert m is not None
    columns = (m.arrivals, m.given, m.suggested, m.p_correct, m.sets, m.true)
    names = ("arrival", "given", "suggested", "p", "set", "true")
    rows = [dict(zip(names, values, strict=True)) for values in zip(*(c.tolist() for c in columns), strict=True)]
    return sorted(rows, key=lambda row: (round(row["p"], 4), row["arrival"]))


@pytest.fixture
def rows(grid: Path) -> list[dict[str, Any]]:
    return rows_of(grid / "cells" / "puridiver-0")


def test_it_opens_from_disk_without_complaint_and_asks_for_nothing_else(opened, page):
    others = [url for url in opened.requests if not url.startswith("data:")]
    assert others == [page.as_uri()]
    assert opened.page.locator("svg").count() >= 10
    heights = opened.page.locator(".panel svg:visible").evaluate_all("all => all.map(s => s.clientHeight)")
    assert min(heights) > 100


def test_the_gallery_shows_every_sample_most_doubtful_first(opened, rows):
    assert opened.page.locator(".count").inner_text().startswith("60 of 60 samples")
    assert opened.arrivals() == [row["arrival"] for row in rows]


def test_the_thumbnails_are_drawn(opened):
    """Two samples that look different have different pictures, and none is empty."""
    shots = [opened.page.locator(".thumb").nth(i).screenshot() for i in range(6)]
    assert len(set(shots)) > 1
    images = opened.page.locator(".thumb").evaluate_all("all => all.map(t => getComputedStyle(t).backgroundImage)")
    assert all(image.startswith('url("data:image/png') for image in images)


def test_each_filter_keeps_what_it_says(opened, rows):
    checks = [
        ({"set": "1"}, lambda r: r["set"] == 1),
        ({"set": ""}, lambda r: True),
        ({"doubt": "doubtful"}, lambda r: r["p"] < 0.5),
        ({"doubt": "differs"}, lambda r: r["given"] != r["suggested"]),
        ({"doubt": "", "truth": "wrong"}, lambda r: r["given"] != r["true"]),
        ({"truth": "right"}, lambda r: r["given"] == r["true"]),
        ({"truth": "", "class": "3"}, lambda r: 3 in (r["given"], r["suggested"])),
        ({"set": "0"}, lambda r: 3 in (r["given"], r["suggested"]) and r["set"] == 0),
        ({"set": "", "class": "", "text": "19"}, lambda r: "19" in str(r["arrival"])),
    ]
    kept = []
    for values, wanted in checks:
        opened.choose(**values)
        kept.append(opened.arrivals())
        assert kept[-1] == [row["arrival"] for row in rows if wanted(row)], values
    assert any(0 < len(arrivals) < len(rows) for arrivals in kept)


def test_each_order_is_what_it_says(opened, rows):
    by_label = sorted(rows, key=lambda r: (str(r["given"]), round(r["p"], 4), r["arrival"]))
    orders = {
        "arrival": sorted(row["arrival"] for row in rows),
        "recent": sorted((row["arrival"] for row in rows), reverse=True),
        "sure": [r["arrival"] for r in sorted(rows, key=lambda r: (-round(r["p"], 4), r["arrival"]))],
        "given": [r["arrival"] for r in by_label],
    }
    for name, expected in orders.items():
        opened.choose(sort=name)
        assert opened.arrivals() == expected, name


def test_the_csv_holds_exactly_what_the_page_shows(opened, grid, rows):
    names, by_arrival = read_run(grid / "cells" / "puridiver-0").class_names, {r["arrival"]: r for r in rows}
    for values in ({}, {"truth": "wrong"}, {"sort": "recent"}):
        opened.choose(**values)
        head, *lines = opened.csv()
        assert head[:4] == ["arrival", "given_label", "suggested_label", "probability_given_label_is_right"]
        assert [int(line[0]) for line in lines] == opened.arrivals()
        for line in lines:
            row = by_arrival[int(line[0])]
            assert line[1:3] == [names[row["given"]], names[row["suggested"]]]
            assert float(line[3]) == pytest.approx(row["p"], abs=1e-4)
            assert line[4:] == [SET_NAMES[row["set"]], names[row["true"]]]


def test_without_a_match_nothing_can_be_downloaded(opened):
    opened.choose(text="no such class")
    assert opened.arrivals() == []
    assert opened.page.locator(".download").is_disabled()


def test_light_and_dark_follow_the_system_and_the_button(browser, page):
    colours = {}
    for scheme in ("light", "dark"):
        opened = Opened(browser, page, scheme=scheme)
        colours[scheme] = opened.background()
        opened.page.locator("#theme").click()
        colours[f"{scheme}, clicked"] = opened.background()
        opened.page.locator("#theme").click()
        assert opened.background() == colours[scheme]
        opened.context.close()
    assert colours["light"] == colours["dark, clicked"] != colours["dark"] == colours["light, clicked"]


@pytest.mark.parametrize("clicks", [0, 1])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_is_white(browser, page, scheme, clicks):
    opened = Opened(browser, page, scheme=scheme)
    for _ in range(clicks):
        opened.page.locator("#theme").click()
    opened.page.emulate_media(media="print")
    assert opened.background() == "rgb(255, 255, 255)"
    assert not opened.page.locator(".controls").first.is_visible()
    opened.context.close()


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const lum = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; }
    return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    const words = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!words || !e.checkVisibility() || ["SCRIPT", "STYLE", "OPTION"].includes(e.tagName)) continue;
    const style = getComputedStyle(e), ink = e.closest("svg") ? style.fill : style.color;
    if (ink === "none") continue;
    const [a, b] = [lum(rgb(ink)), lum(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) bad.push(e.tagName + " " + e.textContent.slice(0, 40));
  }
  return bad;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_words_can_be_read(browser, comparison, scheme):
    opened = Opened(browser, comparison, scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert opened.page.evaluate(CONTRAST) == []
    opened.context.close()


@pytest.mark.parametrize("which", ["page", "comparison", "evil_page"])
def test_a_phone_scrolls_down_only(browser, request, which):
    opened = Opened(browser, request.getfixturevalue(which), width=360)
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.context.close()


def test_the_keyboard_reaches_and_works_every_control(opened):
    reached, page = [], opened.page
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate("(e => e.id || e.name || e.className || e.tagName.toLowerCase())(document.activeElement)")
        if name == "body":
            break
        reached.append(name)
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"{name} does not show that it has the focus"
    assert {"skip", "theme", "text", "class", "set", "doubt", "truth", "sort", "download", "next"} <= set(reached)
    page.locator("#theme").focus()
    before = opened.background()
    page.keyboard.press("Enter")
    assert opened.background() != before
    page.locator(".numbers summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".numbers table").first.is_visible()


def test_harmful_class_names_do_no_harm(browser, evil_page, evil):
    opened = Opened(browser, evil_page)
    shown = opened.page.locator(".cards").inner_text()
    assert all(name in shown for name in EVIL[:4])
    cells = {cell for line in opened.csv()[1:] for cell in line[1:3]}
    assert "'" + EVIL[1] in cells  # an apostrophe in front of what a spreadsheet would run
    assert "'" + EVIL[3] in cells
    assert EVIL[0] in cells
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    assert opened.complaints == []
    opened.context.close()


def test_side_by_side_each_run_unfolds_to_its_own_gallery(browser, comparison):
    opened = Opened(browser, comparison)
    summaries = opened.page.locator("details.run > summary")
    assert summaries.count() == 4
    assert not opened.page.locator(".gallery").first.is_visible()
    for i in range(2):
        summaries.nth(i).click()
    first, second = (opened.page.locator(".gallery").nth(i) for i in range(2))
    first.locator("[name=text]").fill("no such class")
    assert first.locator(".cards li").count() == 0
    assert second.locator(".cards li").count() == 48
    assert opened.complaints == []
    opened.context.close()


def test_samples_of_files_are_shown_found_and_downloaded_by_their_names(browser, grid, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(grid / "cells" / "puridiver-0", folder)
    memory = MemorySnapshot.read(folder / "memory.safetensors")
    names = [f"cats/<b>{arrival}.png" for arrival in memory.arrivals.tolist()]
    (folder / "memory.safetensors").write_bytes(dataclasses.replace(memory, names=names).to_bytes())
    opened = Opened(browser, write_page(*find_runs([folder]), tmp_path / "report.html"))
    assert names[0] in opened.page.locator(".cards").inner_text()
    opened.choose(text=names[7])
    head, line = opened.csv()
    assert head[:3] == ["arrival", "name", "given_label"]
    assert line[:2] == [str(memory.arrivals[7]), names[7]]
    assert opened.complaints == []
    opened.context.close()
