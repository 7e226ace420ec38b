"""The audit's page: what it says, and what a reviewer can do with it in a real browser."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puridiver
from puridiver.auditing.passes import LabelledSet
from puridiver.auditing.report import AuditReport
from puridiver.auditing.tables import SUSPECT_COLUMNS, read_corrections
from puridiver.report import audit_page
from tests.auditing.samples import QUICK, planted

EVIL = ["<script>alert(1)</script>", '=HYPERLINK("x")', '猫, "cat"']
FACTS = {"Data": "<b>mine</b>"}


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return planted()[0]


@pytest.fixture(scope="module")
def report(images: np.ndarray) -> AuditReport:
    given = planted()[1]
    names = [f"photos/<i>{row}" for row in range(len(given))]
    return puridiver.audit(images, [EVIL[c] for c in given.tolist()], classes=EVIL, names=names, **QUICK)


@pytest.fixture(scope="module")
def page(report: AuditReport, images: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page") / "audit.html"
    return audit_page.write_audit_page(report, images, "Labels of mine", FACTS, out)


def test_the_page_tells_the_rate_and_hides_no_markup(page, report):
    text = page.read_text(encoding="utf-8")
    assert f"{100 * report.noise.rate:.1f} %" in text
    assert "<script>alert(1)" not in text
    assert "&lt;b&gt;mine" in text


def test_the_most_contaminated_label_comes_first(report):
    table = audit_page.by_class(report)
    shares = [float(share.removesuffix(" %")) for share in table["estimated wrong"]]
    assert shares == sorted(shares, reverse=True)
    assert table["suspects"].sum() == len(report.suspects())
    assert set(table["most often suggested"]) <= set(EVIL)


def test_a_large_set_shows_its_most_doubtful_only(report, images, monkeypatch):
    monkeypatch.setattr(audit_page, "SHOWN", 20)
    text = audit_page.render(report, images, "t", FACTS)
    assert "The 20 most doubtful of 150 images" in text


def test_large_images_are_made_small():
    assert audit_page.thumbnails(np.zeros((3, 224, 160, 3), np.uint8), np.array([0, 2])).shape == (2, 56, 40, 3)


# In the browser ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tab() -> Any:
    """An empty tab of a browser without a network."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_context(offline=True).new_page()
        browser.close()


@pytest.fixture
def opened(tab: Any, page: Path) -> Any:
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(dialog.message))
    tab.goto(page.as_uri())
    yield tab
    assert complaints == []


def downloaded(tab: Any, button: str) -> tuple[Path, list[list[str]]]:
    with tab.expect_download() as download:
        tab.locator(button).click()
    path = Path(download.value.path())
    text = path.read_text(encoding="utf-8")
    assert text.startswith("\ufeff") == (not text.isascii())  # which spreadsheets need, and others do not
    return path, list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_a_reviewer_sorts_filters_corrects_and_takes_the_corrections_home(opened, report):
    first = opened.locator(".cards li").first
    worst = report.suspects()[0]
    assert first.get_attribute("data-arrival") == str(worst.row)
    assert worst.why in first.inner_text()
    assert worst.name in first.inner_text()
    opened.locator("[name=doubt]").select_option("doubtful")
    assert opened.locator(".count").inner_text() == f"{len(report.suspects())} of 150 samples."
    opened.locator("[name=sort]").select_option("arrival")
    rows = opened.locator(".cards li").evaluate_all("all => all.map(card => Number(card.dataset.arrival))")
    assert rows == sorted(rows)
    opened.locator("[name=sort]").select_option("doubt")
    assert opened.locator(".corrections").is_disabled()
    opened.locator(".cards li select").first.select_option(label=EVIL[1])
    opened.locator(".cards li select").nth(1).select_option(label=EVIL[0])
    path, lines = downloaded(opened, ".corrections")
    assert tuple(lines[0]) == SUSPECT_COLUMNS
    second = report.suspects()[1]
    labelled = LabelledSet(torch.zeros(150, 8, 8, 1), report.given, EVIL)
    assert read_corrections(path, labelled) == {worst.row: 1, second.row: 0}
    opened.locator("[name=doubt]").select_option("reviewed")
    assert opened.locator(".cards li").count() == 2
    _, shown = downloaded(opened, ".download")
    assert [int(line[0]) for line in shown[1:]] == [worst.row, second.row]
    opened.locator("[name=doubt]").select_option("")
    opened.locator("[name=text]").fill(f"<i>{worst.row}")
    assert opened.locator(".cards li").first.get_attribute("data-arrival") is not None


def test_corrections_survive_a_reload_and_leaving_with_unsaved_ones_is_asked_about(tab, page):
    asked: list[str] = []
    tab.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    tab.goto(page.as_uri())
    tab.reload()
    assert asked == []  # nothing to lose
    tab.locator(".cards li select").first.click()
    tab.locator(".cards li select").first.select_option(label=EVIL[1])
    tab.wait_for_function("Object.keys(localStorage).length > 0")
    tab.reload()
    assert asked == ["beforeunload"]
    assert tab.locator(".cards li select").first.input_value() == "1"
    assert tab.locator(".corrections").inner_text() == "Download 1 correction"
    _, lines = downloaded(tab, ".corrections")
    assert len(lines) == 2
    tab.reload()
    assert asked == ["beforeunload"]  # it is in a file now
    assert tab.locator(".corrections").is_enabled()
    tab.locator(".cards li select").first.select_option("")
    tab.reload()
    assert tab.locator(".corrections").is_disabled()


def test_the_browser_keeps_the_corrections_of_each_audit_apart(report, images):
    key = audit_page.review_key(report, images)
    assert key == audit_page.review_key(report, images)
    assert key != audit_page.review_key(report, 255 - images)
    other = dataclasses.replace(report, settings=dataclasses.replace(report.settings, seed=9))
    assert key != audit_page.review_key(other, images)
    checked = np.arange(len(report)) < 3
    gone_on = dataclasses.replace(report, checked=checked)
    assert key == audit_page.review_key(gone_on, images)
    assert json.loads(audit_page.gallery_content(gone_on, images, np.arange(5)))["checked"] == [0, 1, 2]
