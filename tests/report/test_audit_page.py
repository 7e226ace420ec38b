"""The audit's page: what it says, and what a reviewer can do with it in a real browser."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import puridiver
from puridiver.auditing.folder import SUSPECT_COLUMNS, read_corrections
from puridiver.auditing.passes import LabelledSet
from puridiver.auditing.report import AuditReport
from puridiver.report import audit_page
from tests.auditing.samples import QUICK, planted
from tests.report.conftest import Opened

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


# In the browser ----------------------------------------------------------------------------------------------------


def test_a_reviewer_sorts_filters_corrects_and_takes_the_corrections_home(opened: Opened, report: AuditReport) -> None:
    cards, (worst, second, *_) = opened.page.locator(".cards li"), report.suspects()
    assert opened.arrivals()[0] == worst.row
    assert worst.why in cards.first.inner_text()
    assert worst.name in cards.first.inner_text()
    opened.choose(doubt="doubtful")
    assert opened.page.locator(".count").inner_text() == f"{len(report.suspects())} of 150 samples."
    opened.choose(sort="arrival")
    assert opened.arrivals() == sorted(opened.arrivals())
    opened.choose(sort="doubt")
    assert opened.page.locator(".corrections").is_disabled()
    cards.locator("select").first.select_option(label=EVIL[1])
    cards.locator("select").nth(1).select_option(label=EVIL[0])
    path, lines = opened.download(".corrections")
    assert tuple(lines[0]) == SUSPECT_COLUMNS
    labelled = LabelledSet(torch.zeros(150, 8, 8, 1), report.given, EVIL)
    assert read_corrections(path, labelled) == {worst.row: 1, second.row: 0}
    opened.choose(doubt="reviewed")
    assert opened.arrivals() == [worst.row, second.row]
    assert [int(line[0]) for line in opened.download()[1][1:]] == [worst.row, second.row]


def test_corrections_survive_a_reload_and_leaving_with_unsaved_ones_is_asked_about(opened: Opened) -> None:
    tab, choice = opened.page, opened.page.locator(".cards li select").first
    tab.reload()
    assert opened.dialogs == []  # nothing to lose
    choice.click()
    choice.select_option(label=EVIL[1])
    tab.wait_for_function("Object.keys(localStorage).length > 0")
    tab.reload()
    assert opened.dialogs == ["beforeunload"]
    assert choice.input_value() == "1"
    assert tab.locator(".corrections").inner_text() == "Download 1 correction"
    assert len(opened.download(".corrections")[1]) == 2
    tab.reload()
    assert opened.dialogs == ["beforeunload"]  # it is in a file now
    choice.select_option("")
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
    assert audit_page.gallery(gone_on, images)["review"]["checked"] == [0, 1, 2]
