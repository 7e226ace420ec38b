"""Runs of the small network use one of torch's threads and set the number back, in every thread of the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from puridiver.runtime.device import steady_threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_nested_runs_set_the_number_of_threads_back() -> None:
    with steady_threads(CPU, "small"):
        with steady_threads(CPU, "small"):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with steady_threads(CPU, "resnet18"):
        assert torch.get_num_threads() == 2


@pytest.mark.parametrize("warm", [True, False])
def test_runs_in_several_threads_each_set_the_number_back(warm: bool) -> None:
    """Each thread has its own number once it has used torch (`warm`)."""
    ready, both_inside, may_leave = threading.Event(), threading.Barrier(2), threading.Event()
    seen: dict[str, int] = {}

    def second() -> None:
        if warm:
            torch.ones(8).sum()
        ready.set()
        both_inside.wait()
        with steady_threads(CPU, "small"):
            seen["inside"] = torch.get_num_threads()
            both_inside.wait()
            may_leave.wait()
        seen["after"] = torch.get_num_threads()

    thread = threading.Thread(target=second)
    thread.start()
    ready.wait()
    with steady_threads(CPU, "small"):
        both_inside.wait()
        both_inside.wait()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    may_leave.set()
    thread.join()
    assert seen == {"inside": 1, "after": 2}
