"""Figures of a stream: means of the last samples, which fade; seconds; all of it saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from puridiver import Learner
from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.learner.monitor import WINDOW, Monitor
from puridiver.learner.verdicts import Verdict, nothing_known
from puridiver.runtime.device import choose_runtime
from tests.learner_samples import feed, patterns, tiny_learner


def test_figures_are_means_over_samples_that_fade() -> None:
    monitor, nan = Monitor(choose_runtime("cpu")), torch.nan
    assert monitor.figures() == {
        "loss": None, "agreement": None, "noise_rate": None, "seconds": {"observing": 0.0, "consolidating": 0.0},
    }  # fmt: skip
    p_right, predicted = torch.tensor([0.9, 0.2, nan]), torch.tensor([0.0, 2.0, nan])
    verdict = Verdict(p_right, torch.zeros(3, 3), predicted)
    monitor.note(torch.tensor(2.0), verdict, torch.tensor([0, 1, 2]))
    found = monitor.figures()
    assert found["loss"] == pytest.approx(2.0)
    assert found["agreement"] == pytest.approx(1 / 2)
    assert found["noise_rate"] == pytest.approx((0.1 + 0.8) / 2)
    monitor.note(torch.tensor(1.0), nothing_known(torch.tensor([0]), 3), torch.tensor([0]))
    fade = 1 - 1 / WINDOW
    assert monitor.figures()["loss"] == pytest.approx((2 * 3 * fade + 1) / (3 * fade + 1))
    assert float(monitor.loss) == pytest.approx(monitor.figures()["loss"])
    assert monitor.figures()["noise_rate"] == pytest.approx(0.45)  # nothing new was judged


def test_what_a_learner_has_noted_survives_a_save(tmp_path: Path) -> None:
    learner = feed(tiny_learner(), *patterns(48))
    learner.consolidate(2)
    status = learner.status()
    assert min(status["seconds"].values()) > 0
    assert status["agreement"] > 0.3
    assert 0 < status["noise_rate"] < 0.5
    assert Learner.load(learner.save(tmp_path), device="cpu").status() == status
    assert json.loads(json.dumps(status, allow_nan=False)) == status
    settings, tensors = storage.load(tmp_path)
    storage.save(tmp_path, settings, {**tensors, "monitor.sums": torch.zeros(2)})
    with pytest.raises(DataError, match=r"monitor\.sums should be float64"):
        Learner.load(tmp_path, device="cpu")
