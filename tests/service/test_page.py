"""The page in a real browser: live figures, and a review queue that reaches the memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puridiver.service.engine import Engine
from puridiver.service.intake import Policy
from tests.service.conftest import Served, batches, tiny


def open_page(browser: Any, served: Served, **options: Any) -> tuple[Any, list[str]]:
    page, complaints = browser.new_context(**options).new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: request.url.startswith((served.url, "data:")) or complaints.append(request.url))
    page.goto(served.url)
    return page, complaints


def until(page: Any, happens: Callable[[], bool]) -> None:
    for _ in range(100):
        if happens():
            return
        page.wait_for_timeout(100)
    raise AssertionError(page.locator("body").inner_text())


def test_figures_move_and_corrections_reach_the_memory_and_are_undone(browser: Any, served: Served) -> None:
    page, complaints = open_page(browser, served)
    doubt, said = page.locator("#doubt"), page.locator("#said")
    doubt.wait_for(state="visible")
    assert "samples learnt\n80" in page.locator("#tiles").inner_text()
    shown = page.locator("#about").inner_text().split(" ")[0]  # the caller's own id
    suggested, given = (page.locator(f".labels {tag}").inner_text() for tag in ("ins", "del"))

    def held() -> tuple[str, bool]:
        learner = served.engine.learner
        arrival = next(a for a, own in learner.held_ids().items() if own == shown)
        samples = learner.memory.samples
        row = samples.arrivals.tolist().index(arrival)
        return learner.classes[int(samples.labels[row])], bool(samples.checked[row])

    assert held() == (given, False)
    page.keyboard.press("Enter")
    until(page, lambda: held() == (suggested, True))
    until(page, lambda: said.inner_text() == f"Logged: {shown} is {suggested}.")
    page.keyboard.press("u")
    until(page, lambda: held() == (given, False))
    until(page, lambda: "Undone" in said.inner_text())
    assert page.locator("#about").inner_text().startswith(shown)
    before = served.engine.tail.seq  # the last may be in the memory and not yet count as done
    page.keyboard.press("c")
    page.keyboard.press("u")  # at once: the undo waits for the confirmation
    until(page, lambda: served.engine.done.seq == before + 2 and "Undone" in said.inner_text())
    assert held() == (given, False)
    page.keyboard.press("o")
    page.keyboard.type("cow")
    page.keyboard.press("Enter")
    until(page, lambda: said.inner_text() == "cow is none of the classes")
    page.keyboard.press("o")
    page.keyboard.type("owl")
    page.keyboard.press("Enter")
    until(page, lambda: held() == ("owl", True))
    for images, labels in batches(2):
        served.engine.observe(images, labels, None, None)
    until(page, lambda: "samples learnt\n96" in page.locator("#tiles").inner_text())
    assert page.locator("#chart polyline").first.get_attribute("points")
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone(browser: Any, served: Served, scheme: str) -> None:
    page, complaints = open_page(browser, served, viewport={"width": 360, "height": 700}, color_scheme=scheme)
    page.locator("#doubt").wait_for(state="visible")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    back, ink = page.evaluate(
        "(() => { const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]; })()"
    )
    light = [sum(map(int, colour[4:-1].split(", "))) for colour in (back, ink)]
    assert (light[0] > light[1]) == (scheme == "light")
    assert complaints == []


def test_it_asks_for_the_token(browser: Any, tmp_path: Path) -> None:
    guarded = Served(Engine(tmp_path, tiny, Policy(), "cpu"), token="secret")
    page, _ = open_page(browser, guarded)
    page.locator("#login").wait_for(state="visible")
    page.locator("[name=token]").fill("secret")
    page.keyboard.press("Enter")
    until(page, lambda: page.locator("#state").inner_text() == "up to date")
    assert page.locator("#login").is_hidden()
    guarded.stop()
