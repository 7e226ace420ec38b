"""Runs of the small network take one of torch's threads, and set the number back, in whatever thread they run."""

from __future__ import annotations

import threading

import pytest
import torch

from puridiver.runtime.device import steady_threads

CPU = torch.device("cpu")


def test_runs_within_one_another_leave_the_number_of_threads_as_it_was() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with steady_threads(CPU, "small"):
            with steady_threads(CPU, "small"):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with steady_threads(CPU, "resnet18"):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("first_leaves_first", [True, False])
def test_runs_in_several_threads_each_have_one_and_set_it_back(warm: bool, first_leaves_first: bool) -> None:
    """Torch's number of threads is each thread's own, once that has used torch (`warm`)."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    ready, entered, may_leave = threading.Event(), threading.Event(), threading.Event()
    seen: dict[str, int] = {}

    def second() -> None:
        if warm:
            torch.ones(8).sum()
            torch.get_num_threads()
        ready.set()
        entered.wait()
        with steady_threads(CPU, "small"):
            seen["inside"] = torch.get_num_threads()
            both_inside.wait()
            may_leave.wait()
        seen["after"] = torch.get_num_threads()

    both_inside = threading.Barrier(2)
    thread = threading.Thread(target=second)
    try:
        thread.start()
        ready.wait()
        with steady_threads(CPU, "small"):
            entered.set()
            both_inside.wait()
            if not first_leaves_first:
                may_leave.set()
                thread.join()
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        may_leave.set()
        thread.join()
        assert seen == {"inside": 1, "after": 2}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
