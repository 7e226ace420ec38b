"""The page in a real browser: Debian's chromium, headless, from disk, without a network."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from puridiver.report.reading import load_run
from puridiver.trainers import SET_NAMES
from tests.report.conftest import EVIL, Opened


@pytest.fixture
def rows(evil: Path) -> list[dict[str, Any]]:
    """The memory as the gallery should show it: first those with another suggested label, each by trust."""
    m = load_run(evil).memory
    assert m is not None
    columns = (m.arrivals, m.given, m.suggested, m.p_correct, m.sets, m.true)
    names = ("arrival", "given", "suggested", "p", "set", "true")
    found = [dict(zip(names, values, strict=True)) for values in zip(*(c.tolist() for c in columns), strict=True)]
    return sorted(found, key=lambda row: (row["given"] == row["suggested"], row["p"], row["arrival"]))


def test_it_opens_from_disk_and_asks_for_nothing_else(opened: Opened, page: Path) -> None:
    assert [url for url in opened.requests if not url.startswith("data:")] == [page.as_uri()]
    heights = opened.page.locator(".panel:visible").evaluate_all("all => all.map(s => s.clientHeight)")
    assert len(heights) >= 4
    assert min(heights) > 100
    opened.page.locator("details.run summary").first.click()
    assert opened.page.locator(".panel:visible").count() > len(heights)  # the inside of the method is folded


STRUCTURE = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const ids = all("[id]").map((e) => e.id);
  const uses = all("[aria-labelledby]").flatMap((e) => e.getAttribute("aria-labelledby").split(" "));
  uses.push(...all("[href^='#']").map((e) => e.getAttribute("href").slice(1)));
  uses.push(...[...document.body.innerHTML.matchAll(/url\\(#([^)]+)\\)/g)].map((match) => match[1]));
  return {
    twice: ids.filter((id, i) => ids.indexOf(id) !== i), nowhere: uses.filter((id) => !ids.includes(id)),
    unnamed: all("img:not([alt]), form :is(select, input):not(label *)").length,
    levels: all("h1, h2, h3, h4").map((e) => Number(e.tagName[1])),
  };
}"""


@pytest.mark.parametrize("which", ["page", "comparison"])
def test_ids_names_and_headings_are_in_order_and_a_phone_scrolls_down_only(
    browser: Any, request: pytest.FixtureRequest, which: str
) -> None:
    opened = Opened(browser, request.getfixturevalue(which), width=360)
    found = opened.page.evaluate(STRUCTURE)
    assert (found["twice"], found["nowhere"], found["unnamed"]) == ([], [], 0)
    assert found["levels"][0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(found["levels"]))
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360
    opened.context.close()


def test_the_gallery_filters_and_sorts(opened: Opened, rows: list[dict[str, Any]]) -> None:
    checks = [
        ({}, lambda r: True),
        ({"set": "1"}, lambda r: r["set"] == 1),
        ({"set": "", "doubt": "differs"}, lambda r: r["given"] != r["suggested"]),
        ({"doubt": "", "truth": "wrong"}, lambda r: r["given"] != r["true"]),
        ({"truth": "", "class": "3"}, lambda r: 3 in (r["given"], r["suggested"])),
        ({"class": "", "text": "no such class"}, lambda r: False),
    ]
    for values, wanted in checks:
        opened.choose(**values)
        assert opened.arrivals() == [row["arrival"] for row in rows if wanted(row)], values
    assert opened.page.locator(".download").is_disabled()
    opened.choose(text="", sort="recent")
    assert opened.arrivals() == sorted((row["arrival"] for row in rows), reverse=True)


def test_the_csv_holds_what_the_page_shows_and_no_formula(opened: Opened, rows: list[dict[str, Any]]) -> None:
    head, *lines = opened.download()[1]
    assert head[:3] == ["arrival", "given_label", "suggested_label"]
    assert [int(line[0]) for line in lines] == opened.arrivals()
    assert [line[4] for line in lines] == [SET_NAMES[row["set"]] for row in rows]
    cells = {cell for line in lines for cell in line[1:3]}
    assert {EVIL[0], "'" + EVIL[1], "'" + EVIL[3]} <= cells
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    shown = opened.page.locator(".cards").inner_text()
    assert all(name in shown for name in EVIL[:4])
