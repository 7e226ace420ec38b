"""Verdicts on arriving labels: before they are learnt, honest where nothing is known, and better than chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from puridiver.learner.verdicts import NEIGHBOURS, RIGHT, SOFTNESS, pixel_votes, posterior, votes
from puridiver.trainers import TRAINERS
from tests.learner_samples import differing, feed, patterns, tensors_of, tiny_learner

IMAGES, TRUE = patterns(160)
WRONG = np.arange(160) % 5 == 4
GIVEN = np.where(WRONG, (TRUE + 1) % 3, TRUE)


def test_votes_are_those_of_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    cosines, labels = torch.rand(4, 9, generator=generator), torch.randint(3, (9,), generator=generator)
    expected = np.zeros((4, 3))
    for i, row in enumerate(cosines.tolist()):
        nearest = sorted(range(9), key=lambda j: -row[j])[:5]
        total = sum(np.exp(row[j] / 0.1) for j in nearest)
        for j in nearest:
            expected[i, labels[j]] += np.exp(row[j] / 0.1) / total
    np.testing.assert_allclose(votes(cosines, labels, 3, 5, 0.1), expected, atol=1e-5)


def test_an_image_that_the_memory_holds_is_named_by_its_label_whatever_its_brightness() -> None:
    pixels = torch.randint(100, (30, 3, 40, 24), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels = torch.arange(30) % 4
    found = pixel_votes(pixels[:5] + 50, pixels, labels, 4)
    assert found.shape == (5, 4)
    assert (found.argmax(dim=1) == labels[:5]).all()
    assert float(found.amax()) > 0.9
    assert (NEIGHBOURS, SOFTNESS) == (20, 0.05)


def test_the_posterior_is_bayes_rule_with_an_even_noise() -> None:
    p, labels = torch.tensor([[0.2, 0.5, 0.3]]), torch.tensor([0])
    likelihood = np.array([RIGHT, (1 - RIGHT) / 2, (1 - RIGHT) / 2])
    expected = np.array([0.2, 0.5, 0.3]) * likelihood
    np.testing.assert_allclose(posterior(p, labels, 3)[0], expected / expected.sum(), atol=1e-6)


@pytest.mark.parametrize(
    "settings", [{}, {"online_prediction": "network"}, {"trainer": "coteaching"}, {"sampler": "spr"}]
)
def test_wrong_labels_are_told_from_right_ones_before_they_are_learnt(settings: dict[str, Any]) -> None:
    learner = tiny_learner(memory=24, **settings)
    p_right, suggested = [], []
    for start in range(0, 160, 8):
        found = learner.observe(IMAGES[start : start + 8], GIVEN[start : start + 8])
        assert found.arrivals == range(start, start + 8)
        p_right += found.p_right.tolist()
        suggested += found.suggested
        if start == 80:
            learner.consolidate(7)
    late = np.arange(160) >= 80
    p = np.array(p_right)
    assert np.isfinite(p[late]).all()
    pairs = p[late & ~WRONG][:, None] > p[late & WRONG]
    assert pairs.mean() > 0.9
    assert (np.array(suggested) == TRUE)[late].mean() > (GIVEN == TRUE)[late].mean()
    assert 0.05 < learner.status()["noise_rate"] < 0.4


@pytest.mark.parametrize("mode", ["network", "weighed"])
def test_a_verdict_is_of_the_learner_as_it_was_before_the_batch(mode: str) -> None:
    learner = tiny_learner(memory=24, online_prediction=mode)
    feed(learner, IMAGES[:80], GIVEN[:80])
    learner.consolidate(7)
    feed(learner, IMAGES[80:96], GIVEN[80:96])
    rows, held = slice(96, 104), learner.memory.samples
    pixels, labels = torch.from_numpy(IMAGES[rows]).permute(0, 3, 1, 2), torch.from_numpy(GIVEN[rows])
    p = torch.from_numpy(learner.predict_proba(IMAGES[rows])) + pixel_votes(pixels, held.images, held.labels, 3)
    expected = posterior(p / 2, labels, 3)
    found = learner.observe(IMAGES[rows], GIVEN[rows])
    np.testing.assert_allclose(found.p_right, expected[range(8), labels], atol=1e-5)
    assert found.suggested == expected.argmax(dim=1).tolist()


def test_where_nothing_is_known_the_verdict_says_so() -> None:
    """Of the first samples, while there is one class alone, and of a class that has not come before."""
    learner = tiny_learner(None)
    names = np.array(["cat", "dog", "owl"])[TRUE]
    for rows in ((TRUE == 0).nonzero()[0][:8], (TRUE == 0).nonzero()[0][8:12], (TRUE != 2).nonzero()[0][:16]):
        found = learner.observe(IMAGES[rows], names[rows])
        assert np.isnan(found.p_right).all()
        assert found.suggested == names[rows].tolist()
    found, is_new = learner.observe(IMAGES[16:24], names[16:24]), names[16:24] == "owl"
    assert is_new.any()
    assert np.isnan(found.p_right).tolist() == is_new.tolist()
    assert {label for label, new in zip(found.suggested, is_new, strict=True) if new} == {"owl"}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_judging_changes_nothing(trainer: str) -> None:
    """The learner with verdicts comes to the same bits; without them it says that it has none."""
    judging, silent = (tiny_learner(trainer=trainer) for _ in range(2))
    for start in range(0, 32, 8):
        rows = slice(start, start + 8)
        judging.observe(IMAGES[rows], GIVEN[rows])
        found = silent.observe(IMAGES[rows], GIVEN[rows], judge=False)
        assert np.isnan(found.p_right).all()
        assert found.suggested == GIVEN[rows].tolist()
    assert differing(tensors_of(judging), tensors_of(silent)) == ["monitor.sums"]
    assert silent.status()["noise_rate"] is silent.status()["agreement"] is None


def test_a_stream_batch_teaches_what_the_verdict_says() -> None:
    """The trainer gets the posterior, and given labels where nothing is known."""
    learner = tiny_learner(None, memory=24, online_targets="verdict")
    seen: list[torch.Tensor] = []
    names = np.array(["cat", "dog", "owl"])
    feed(learner, IMAGES[:40], names[GIVEN[:40] % 2])
    step = learner.trainer._run_online
    learner.trainer._run_online = lambda images, targets, *rest: seen.append(targets) or step(images, targets, *rest)
    found = learner.observe(IMAGES[40:48], names[GIVEN[40:48]])
    targets, known = seen[0][:8], np.isfinite(found.p_right)
    labels = np.array([learner.class_ids[name] for name in names[GIVEN[40:48]]])
    assert known.any()
    assert not known.all()
    np.testing.assert_allclose(targets[range(8), labels], np.where(known, found.p_right, 1.0), atol=1e-6)
    np.testing.assert_allclose(targets.sum(dim=1), 1.0, atol=1e-5)
    assert [learner.classes[int(k)] for k in targets.argmax(dim=1)] == found.suggested
