from __future__ import annotations

import pytest

from puridiver.metrics import Stopwatch
from puridiver.runtime.device import choose_runtime


@pytest.fixture
def clock(monkeypatch):
    """A stopwatch in a world where each look at the time takes as long as told."""
    now = {"time": 100.0}
    monkeypatch.setattr("time.perf_counter", lambda: now["time"])
    watch = Stopwatch(choose_runtime("cpu"))
    return watch, lambda seconds: now.__setitem__("time", now["time"] + seconds)


def test_phases_add_up(clock):
    watch, wait = clock
    for phase, seconds in (("observe", 1), ("evaluate", 2), ("observe", 4)):
        watch.switch(phase)
        wait(seconds)
    watch.stop()
    wait(50)
    assert watch.seconds == {"observe": 5, "evaluate": 2}


def test_switching_to_the_same_phase_goes_on_counting(clock):
    watch, wait = clock
    watch.switch("observe")
    wait(1)
    watch.switch("observe")
    wait(1)
    watch.stop()
    assert watch.seconds == {"observe": 2}


def test_time_between_phases_is_not_counted(clock):
    watch, wait = clock
    watch.switch("observe")
    wait(1)
    watch.stop()
    wait(7)
    watch.switch("evaluate")
    wait(3)
    watch.stop()
    assert watch.seconds == {"observe": 1, "evaluate": 3}
