from __future__ import annotations

import dataclasses
import itertools
import re
import statistics
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from puridiver.report import alpha, curves
from puridiver.report.page import COMPARISON, _comparison_row, headlines, percent, render
from puridiver.report.reading import Run, find_runs, grouped, read_run
from puridiver.report.table import spread
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


@pytest.fixture(params=["page", "evil_page", "comparison"])
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


def test_every_figure_and_control_has_a_name(parsed: Page) -> None:
    assert all(a.get("aria-labelledby") for tag, a in parsed.tags if tag == "svg")
    order = [tag for tag, _ in parsed.tags]
    for i, (tag, _) in enumerate(parsed.tags):
        if tag in ("select", "input"):
            assert order[i - 1] == "label"


def test_headings_step_down_one_at_a_time(parsed: Page) -> None:
    levels = [int(tag[1]) for tag, _ in parsed.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_the_headline_is_the_last_accuracy_and_says_so(grid: Path, page: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")
    first = headlines(run)[0]
    assert first.value == percent(run.summary["last_accuracy"])
    assert "true last epoch" in first.meaning
    text = Page(page).text
    for headline in headlines(run):
        assert f"{headline.label} {headline.value} {headline.meaning}" in text
    assert percent(1 - run.summary["stream_noise"]) in text


def test_the_average_on_classes_that_had_come_is_told_where_it_differs(grid: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")

    def told(**changed: Any) -> str:
        summary = {**run.summary, **changed}
        found = {headline.label: headline.meaning for headline in headlines(dataclasses.replace(run, summary=summary))}
        return found["Average accuracy"]

    plain = "mean over the ends of the tasks."
    assert told(average_accuracy=0.5, average_seen_accuracy=0.5) == plain
    assert told(average_seen_accuracy=None) == plain
    assert told(average_accuracy=0.5, average_seen_accuracy=0.9) == (
        "mean over the ends of the tasks; 90.0 % on classes that had come by then."
    )


def test_anytime_on_classes_that_had_come_and_backward_transfer_are_told_where_they_are_known(grid: Path) -> None:
    run = read_run(grid / "cells" / "puridiver-0")

    def told(label: str, **changed: Any) -> str:
        found = headlines(dataclasses.replace(run, summary={**run.summary, **changed}))
        return next(headline.meaning for headline in found if headline.label == label)

    assert "had come" not in told("Anytime accuracy", anytime_seen_area=None)
    assert told("Anytime accuracy", anytime_area=0.4, anytime_seen_area=0.7).endswith(
        "; 70.0 % on classes that had come by then."
    )
    assert "backward" not in told("Forgetting", backward_transfer=None)
    assert told("Forgetting", backward_transfer=-0.034).endswith("-3.4 points (backward transfer).")


def test_the_best_epoch_is_shown_as_unfair_and_only_where_it_was_measured(grid: Path, page: Path, evil_page: Path):
    run = read_run(grid / "cells" / "puridiver-0")
    words = f"Best epoch: {percent(run.summary['best_epoch_accuracy'])} . This epoch was chosen by looking"
    assert words.replace(" .", ".") in Page(page).text
    assert "not a fair figure" in Page(page).text
    assert "Best epoch" not in Page(evil_page).text


def test_class_names_are_words_and_never_code(evil_page: Path) -> None:
    html, parsed = evil_page.read_text(), Page(evil_page)
    assert "<script>alert" not in html
    assert sum(tag == "script" for tag, _ in parsed.tags) == 2  # the gallery's data and the page's own
    options = [a["value"] for tag, a in parsed.tags if tag == "option"]
    for number, name in enumerate(EVIL):
        assert name in parsed.text
        assert str(number) in options


def test_a_comparison_has_a_line_for_each_kind_and_the_numbers_of_the_runs(grid: Path, comparison: Path) -> None:
    parsed, (runs, _) = Page(comparison), find_runs([grid])
    for heading in COMPARISON:
        assert heading in parsed.text
    by_name = {run.folder.name: run for run in runs}
    alone = 100 * by_name["plain-0"].summary["last_accuracy"]
    assert f"rsv + plain {alone:.1f} " in parsed.text
    both = [100 * by_name[f"puridiver-{seed}"].summary["last_accuracy"] for seed in range(2)]
    text = f"puridiver + puridiver {statistics.mean(both):.1f} ± {statistics.stdev(both):.1f} "
    assert text in parsed.text
    assert sum(a.get("class") == "run" for tag, a in parsed.tags if tag == "details") == len(runs)


def test_the_same_runs_round_alike_on_the_page_and_in_tables(grid: Path) -> None:
    """100 times the mean is 30.35 and a little less, the mean of 100 times each a little more."""
    shares = ("last_accuracy", "memory_purity", "average_accuracy", "anytime_area", "forgetting")
    both = [read_run(grid / "cells" / f"puridiver-{seed}") for seed in (0, 1)]
    runs = [
        dataclasses.replace(run, summary={**run.summary, **dict.fromkeys(shares, value), "memory_diversity": 1.0})
        for run, value in zip(both, (0.3, 0.307), strict=True)
    ]
    (group,) = grouped(runs)
    assert _comparison_row(group)[1:6] == [spread([0.3, 0.307])] * 5 == ["30.3 ± 0.5"] * 5
    for picture in (curves.time_picture(runs), alpha.diversity_picture([*runs, read_run(grid / "cells" / "alpha")])):
        (row,) = (row for row in picture.rows if any(cell.startswith("30.") for cell in row))
        assert "30.3 ± 0.5" in row
        assert not any(cell.startswith("30.4") for cell in row)


def test_what_was_left_out_stands_on_the_page(grid: Path) -> None:
    run = read_run(grid / "cells" / "plain-0")
    html = render([run], ["<b> holds no finished run"])
    assert "&lt;b&gt; holds no finished run" in html
    assert "This run was shortened" in html


def test_a_run_whose_memory_file_is_damaged_is_shown_without_its_gallery(grid: Path, tmp_path: Path) -> None:
    run = read_run(grid / "cells" / "plain-0")
    (tmp_path / "memory.safetensors").write_bytes(b"nothing of the kind")
    html = render([Run(tmp_path, run.summary, run.config, run.events, run.manifest)], [])
    assert "memory.safetensors is damaged" in html
    assert 'class="gallery"' not in html


def test_a_page_is_small(page: Path, comparison: Path) -> None:
    assert page.stat().st_size < 700_000
    assert comparison.stat().st_size < 3_000_000
