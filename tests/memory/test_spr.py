"""The Self-Centered filter: what it lets in, how it levels the classes, and its filter switched off."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.memory import SAMPLERS, Samples
from puridiver.memory.spr import SelfCenteredFilter, level_rows
from puridiver.recipes import recipe
from tests.learner_samples import as_samples, patterns
from tests.memory.fakes import FixedNetwork, encoder, moment, stream, with_labels


def make(**options) -> SelfCenteredFilter:
    sampler = SAMPLERS["spr"](recipe("paper", **{"spr_budget": 0.0003, **options}))
    assert isinstance(sampler, SelfCenteredFilter)
    return sampler


def believing(monkeypatch: pytest.MonkeyPatch, sampler: SelfCenteredFilter, p: Tensor) -> SelfCenteredFilter:
    monkeypatch.setattr(sampler, "clean_probability", lambda samples, now: p[samples.arrivals])
    return sampler


def planted(n: int = 60, seed: int = 0) -> tuple[Samples, np.ndarray]:
    """Patterns of four classes under the labels 0 and 1, and which of those are right."""
    images, true = patterns(n, n_classes=4, seed=seed)
    given = np.where(true < 2, true, np.arange(n) % 2)
    return as_samples(images, given), given == true


def test_an_expert_without_labels_finds_the_wrong_ones() -> None:
    samples, right = planted()
    now = moment(FixedNetwork(2), 2)
    sampler = make(spr_budget=1.0, spr_expert_epochs=25)
    sampler._expert = encoder(spr_lr=3e-3, spr_crop=0.8)
    p = sampler.clean_probability(samples, now).numpy()
    assert p[right].mean() > p[~right].mean() + 0.3


def test_samples_move_on_with_their_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    p = torch.tensor([1.0, 0.0, 0.5] * 200)
    sampler = believing(monkeypatch, make(), p)
    rows = sampler.choose(stream(600, 2), 0, 600, moment(FixedNetwork(2), 2))
    share = torch.zeros(600).index_fill_(0, rows, 1).view(200, 3).mean(dim=0)
    assert share[0] == 1
    assert share[1] == 0
    assert float(share[2]) == pytest.approx(0.5, abs=0.1)


def test_what_was_let_in_before_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = believing(monkeypatch, make(), torch.zeros(20))
    rows = sampler.choose(stream(20, 2), 8, 12, moment(FixedNetwork(2), 2))
    assert rows.tolist() == list(range(8))


def test_without_the_filter_everything_competes_and_no_expert_is_trained() -> None:
    sampler = make(spr_filter=False)
    assert sampler.choose(stream(20, 2), 4, 30, moment(FixedNetwork(2), 2)).tolist() == list(range(20))
    assert len(sampler.choose(stream(20, 2), 4, 12, moment(FixedNetwork(2), 2))) == 12
    assert sampler._expert is None


def test_the_memory_is_level_over_the_classes() -> None:
    labels = with_labels([0] * 20 + [1] * 5 + [2] * 3).labels
    candidates = torch.ones(28, dtype=torch.bool)
    candidates[0] = False
    rows = level_rows(labels, candidates, 12, torch.Generator().manual_seed(0))
    assert labels[rows].bincount().tolist() == [5, 4, 3] or labels[rows].bincount().tolist() == [4, 5, 3]
    assert 0 not in rows.tolist()
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert level_rows(labels, candidates, 50, torch.Generator()).tolist() == list(range(1, 28))
