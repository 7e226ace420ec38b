"""Passes without gradients: in parts, fewer at a time for want of memory; and two states of a network that predict."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from puridiver.nets import Outputs
from puridiver.trainers.looking import by_both, even_parts
from tests.learner_samples import as_samples, patterns, tiny_trainer


@pytest.mark.parametrize("large_passes", [False, True])
def test_for_want_of_memory_a_look_takes_fewer_images_at_a_time(large_passes, monkeypatch, caplog):
    trainer = tiny_trainer("plain")
    images, look = as_samples(*patterns(100)).images, trainer._looks[0]
    expected, whole, fits = trainer.outputs(images), look._pass, [40]

    def limited(part: Tensor, version: object) -> Outputs:
        if len(part) > fits[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(part, version=version)

    monkeypatch.setattr(look, "_pass", limited)
    for _ in range(2):  # the second time nothing has to be tried
        found = trainer.outputs(images, large_passes=large_passes)
        torch.testing.assert_close(found.logits, expected.logits)
        torch.testing.assert_close(found.features, expected.features)
    told = [message for message in caplog.messages if "out of GPU memory" in message]
    assert told[-1] == "out of GPU memory: looking at 32 images at a time from now on"
    assert len(told) == 2
    fits[0] = 2
    with pytest.raises(torch.OutOfMemoryError):
        trainer.outputs(images)


@given(n=st.integers(0, 300), most=st.integers(1, 80))
def test_parts_hold_every_image_in_order_in_at_most_two_sizes(n: int, most: int) -> None:
    parts = even_parts(torch.arange(n), most)
    assert torch.cat(parts).tolist() == list(range(n))
    assert max(map(len, parts)) <= most
    assert len(set(map(len, parts[:-1]))) <= 1


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), n_then=st.integers(1, 5), n_new=st.integers(0, 3), then_alone=st.booleans())
def test_predictions_of_both_against_a_loop(seed: int, n_then: int, n_new: int, then_alone: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    now, then = (torch.rand(4, n, generator=generator).softmax(dim=1) for n in (n_then + n_new, n_then))
    taught = (torch.rand(n_then, generator=generator) < 0.7).float()
    taught[0] = 1
    found = by_both(now, then, taught, then_alone)
    for n in range(4):
        known = [c for c in range(n_then) if taught[c]]
        left = sum(float(now[n, c]) for c in known)
        for c in range(n_then + n_new):
            share = left * float(then[n, c]) / sum(float(then[n, k]) for k in known) if c in known else 0.0
            by_now = float(now[n, c])
            expected = by_now if c not in known else share if then_alone else (share + by_now) / 2
            assert float(found[n, c]) == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(4))
