"""Runs of the small network use one of torch's threads and set the number back."""

from __future__ import annotations

import torch

from puridiver.runtime.device import steady_threads

CPU = torch.device("cpu")


def test_nested_runs_set_the_number_of_threads_back() -> None:
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
