"""Verdicts on arriving labels: before they are learnt, honest where nothing is known, and better than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver import Learner
from puridiver.learner import observation
from puridiver.learner.verdicts import (
    FULL_TRUST,
    MEMORY,
    MOST_CONFUSED,
    NO_TRUST,
    PRIOR,
    RIGHT,
    Neighbours,
    NoiseEstimate,
    Verdict,
    judge,
    judge_again,
    posterior,
    votes,
    votes_on_each_other,
)
from puridiver.trainers import TRAINERS
from tests.learner_samples import as_samples, differing, feed, patterns, tensors_of, tiny_learner

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


@pytest.mark.parametrize(("n", "at_once"), [(30, 7), (30, 100), (4, 3)])  # also several parts, the last one smaller
def test_votes_on_each_other_are_those_of_a_loop(n: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puridiver.learner.verdicts.AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(0)
    unit, labels = torch.randn(n, 4, generator=generator), torch.randint(3, (n,), generator=generator)
    unit = unit / unit.norm(dim=1, keepdim=True)
    others = [[j for j in range(n) if j != i] for i in range(n)]
    expected = torch.cat([votes(unit[[i]] @ unit[own].T, labels[own], 3, 5, 0.1) for i, own in enumerate(others)])
    torch.testing.assert_close(votes_on_each_other(unit, labels, 3, 5, 0.1), expected)


def test_an_image_that_the_memory_holds_is_named_by_its_label_whatever_its_brightness() -> None:
    pixels = np.random.default_rng(0).integers(100, size=(30, 40, 24, 3), dtype=np.uint8)
    held = as_samples(pixels, np.arange(30) % 4)
    found = Neighbours().votes(held.images[:5] + 50, held, 4)
    assert found.shape == (5, 4)
    assert (found.argmax(dim=1) == held.labels[:5]).all()
    assert float(found.amax()) > 0.9


def test_neighbours_vote_alike_whether_their_pixels_are_kept_or_made_anew() -> None:
    neighbours, generator = Neighbours(), torch.Generator().manual_seed(0)
    pool = as_samples(*patterns(60))
    for n in (0, 1, 20, 20, 60):  # of the pool's first half, in any order; then of all
        held = pool.take(torch.randperm(30 if n < 60 else 60, generator=generator)[:n])
        if n:
            expected = Neighbours().votes(pool.images[:5], held, 3)
            assert torch.equal(neighbours.votes(pool.images[:5], held, 3), expected)


def test_the_posterior_is_bayes_rule() -> None:
    p, labels = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]), torch.tensor([0, 2])
    noise = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.0, 0.5, 0.5]])
    for row, (prior, label) in enumerate(zip(p.tolist(), labels.tolist(), strict=True)):
        expected = np.array([prior[c] * float(noise[c, label]) for c in range(3)])
        np.testing.assert_allclose(posterior(p, noise[:, labels].T)[row], expected / expected.sum(), atol=1e-6)


# The estimate of the noise -----------------------------------------------------------------------------------------


def test_the_noise_is_estimated_as_by_a_loop() -> None:
    """Over batches of several sizes, the first of which knows fewer classes."""
    noise, generator, counts = estimate(), torch.Generator().manual_seed(0), np.zeros((4, 4))
    for n, n_classes in ((5, 3), (1, 3), (8, 4)):
        found = torch.rand(n, n_classes, generator=generator).softmax(dim=1)
        labels = torch.randint(n_classes, (n,), generator=generator)
        note(noise, found, labels)
        counts *= (1 - 1 / MEMORY) ** n
        for row, label in zip(found.tolist(), labels.tolist(), strict=True):
            for c, p in enumerate(row):
                counts[c, label] += p
    expected = np.zeros((4, 4))
    for c in range(4):
        for label in range(4):
            made_up = PRIOR * (RIGHT if c == label else (1 - RIGHT) / 3)
            expected[c, label] = (counts[c, label] + made_up) / (sum(counts[c]) + PRIOR)
    np.testing.assert_allclose(noise.counts, counts, rtol=1e-5)
    np.testing.assert_allclose(matrix(noise, 4), expected, rtol=1e-5)


def test_classes_that_are_confused_in_pairs_stand_out() -> None:
    """From probabilities that are judged with the estimate of before, as a learner does."""
    noise, rng = estimate(), np.random.default_rng(0)
    for _ in range(100):
        true = rng.integers(4, size=16)
        came = torch.from_numpy(np.where(rng.random(16) < 0.3, true ^ 1, true))  # 0 for 1, 2 for 3 and back
        by_image = torch.from_numpy(0.8 * np.eye(4)[true] + 0.05).float()
        noise.note(posterior(by_image, noise.likelihoods(came, 4, 4)), came, by_image)
    found = matrix(noise, 4)
    for c in range(4):
        assert float(found[c, c ^ 1]) == pytest.approx(0.25, abs=0.06)  # 0.3, and made-up labels
        assert float(found[c, [other for other in range(4) if other not in (c, c ^ 1)]].max()) < 0.05
    doubtful = torch.tensor([[0.45, 0.45, 0.05, 0.05]])
    by_label = [posterior(doubtful, found[:, [label]].T)[0] for label in (1, 2)]
    assert float(by_label[0][0]) > 0.2  # a label that often stands for class 0 leaves it likely
    assert float(by_label[1][2]) > 0.5  # one that never stands for class 0 or 1 is believed


def test_the_estimate_is_saved_and_follows_the_classes(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "owl"])
    learner = tiny_learner(None, memory=24)
    feed(learner, IMAGES[:48], names[GIVEN[:48] % 2])
    before = learner.noise.counts
    assert before.shape == (2, 2)
    assert float(before.sum()) > 0
    feed(learner, IMAGES[48:96], names[GIVEN[48:96]])
    counts = learner.noise.counts
    assert counts.shape == (3, 3)
    assert float(counts[2].sum()) > 0
    again = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    assert torch.equal(again.noise.counts, counts)
    assert torch.equal(again.noise.usual, learner.noise.usual)
    assert float(learner.noise.usual.sum()) > 0
    first, second = learner.classes[:2]
    for each in (learner, again):
        each.remove_class(second)
        assert each.classes == [first, "owl"]
        assert torch.equal(each.noise.counts, counts[[0, 2]][:, [0, 2]])
        feed(each, IMAGES[96:112], names[GIVEN[96:112]])
        assert each.noise.counts.shape == (3, 3)
    assert torch.equal(again.noise.counts, learner.noise.counts)


def test_a_class_that_joined_after_the_last_verdict_can_go_again() -> None:
    noise = NoiseEstimate(torch.ones(2, 2))
    noise.drop_class(2)
    assert torch.equal(noise.counts, torch.ones(2, 2))


@pytest.mark.parametrize("name", ["counts", "usual"])
@pytest.mark.parametrize("wrong", [torch.zeros(2, 3), torch.zeros(4, 4), torch.zeros(4), torch.zeros(2, 2).double()])
def test_a_saved_estimate_of_another_form_is_refused(wrong: torch.Tensor, name: str) -> None:
    saved = {**estimate().state(), name: wrong}
    with pytest.raises(ValueError, match=rf"noise.{name} should be float32 \(classes, classes\), but is"):
        estimate().load_state(saved, 3)


@pytest.mark.parametrize(("suggested", "counted"), [(0.05, 1.0), (0.2, 1.0), (0.4, 0.5), (0.8, 0.25)])
def test_a_label_that_the_image_suggests_hardly_counts_as_noise(suggested: float, counted: float) -> None:
    """Images of class 0 usually suggest class 1 with 0.1: twice that may be noise, more than that less and less."""
    noise = estimate()
    labels, images = torch.arange(2).repeat(8), torch.tensor([[0.85, 0.1, 0.05], [0.35, 0.36, 0.29]])
    noise.note(torch.eye(3)[labels], labels, images.repeat(8, 1))
    before, label = noise.counts, torch.tensor([1])
    found, image = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[1 - suggested, suggested, 0.0]])
    noise.note(found, label, image)
    added = (noise.counts - (1 - 1 / MEMORY) * before)[:, 1]
    # Of class 2 no image has been named yet. Class 1 is what the label says: the image cannot speak against it.
    np.testing.assert_allclose(added, [0.5 * counted, 0.3, 0.2], atol=1e-6)


def test_what_images_of_a_class_suggest_is_known_however_long_none_came() -> None:
    noise = estimate()
    noise.note(torch.eye(2)[[0]], torch.tensor([0]), torch.tensor([[0.9, 0.1]]))
    for _ in range(40):
        noise.note(torch.eye(2)[[1] * 100], torch.ones(100, dtype=torch.int64), torch.tensor([[0.0, 1.0]] * 100))
    before = noise.counts
    noise.note(torch.tensor([[1.0, 0.0]]), torch.tensor([1]), torch.tensor([[0.2, 0.8]]))
    assert float(noise.counts[0, 1] - (1 - 1 / MEMORY) * before[0, 1]) == pytest.approx(0.25)  # 0.8 for a usual 0.1


def test_the_noise_is_told_what_the_image_alone_suggests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what the neighbours say: they go by labels, which may be the noise."""
    noise, held, told = estimate(), as_samples(IMAGES[:30], GIVEN[:30]), []
    monkeypatch.setattr(noise, "note", lambda found, labels, predicted: told.append(predicted))
    batch, predicted = as_samples(IMAGES[30:34], GIVEN[30:34]), torch.rand(4, 3).softmax(dim=1)
    known = torch.ones(4, dtype=torch.bool)
    judge(batch.images, batch.labels, predicted, held, known, 3, noise, Neighbours())
    assert torch.equal(told[0], predicted)


def test_an_arrival_that_comes_back_with_another_picture_votes_with_that(tmp_path: Path) -> None:
    learner = tiny_learner(memory=24)
    feed(learner, IMAGES[:24], GIVEN[:24])
    gone = learner.memory.samples.arrivals[:4].tolist()
    learner.forget(gone)
    learner.correct(dict.fromkeys(gone, 1), images=255 - IMAGES[[24, 25, 26, 27]])
    again = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    first, second = (each.observe(IMAGES[30:38], GIVEN[30:38]).p_right for each in (learner, again))
    np.testing.assert_array_equal(first, second)


def test_what_images_usually_suggest_is_a_mean_over_those_that_are_named_as_labelled() -> None:
    noise, rng, sums = estimate(), np.random.default_rng(0), np.zeros((3, 3))
    for n in (5, 1, 8):
        predicted, labels = rng.dirichlet(np.ones(3), n), rng.integers(3, size=n)
        noise.note(torch.full((n, 3), 1 / 3), torch.from_numpy(labels), torch.from_numpy(predicted).float())
        sums *= (1 - 1 / MEMORY) ** n
        for row, label in zip(predicted, labels, strict=True):
            sums[label] += row * (row.argmax() == label)
    np.testing.assert_allclose(noise.usual, sums, rtol=1e-5, atol=1e-6)


def estimate() -> NoiseEstimate:
    return NoiseEstimate(torch.zeros(0, 0))


def note(noise: NoiseEstimate, found: torch.Tensor, labels: torch.Tensor) -> None:
    """Nothing is known of what the images alone suggest."""
    noise.note(found, labels, torch.full_like(found, torch.nan))


def matrix(noise: NoiseEstimate, n_classes: int) -> torch.Tensor:
    """Rows are true classes, columns labels."""
    return noise.likelihoods(torch.arange(n_classes), n_classes, n_classes).T


def test_with_more_classes_than_a_matrix_should_have_the_noise_is_expected_to_be_even() -> None:
    noise, n_classes = NoiseEstimate(torch.ones(3, 3)), MOST_CONFUSED + 1
    labels = torch.tensor([0, 5])
    note(noise, torch.rand(2, n_classes), labels)
    found = noise.likelihoods(labels, n_classes, 101)
    assert noise.counts.shape == (0, 0)
    np.testing.assert_allclose(found[[0, 1], labels], RIGHT, atol=1e-6)
    np.testing.assert_allclose(found.sum(dim=1) - RIGHT, (n_classes - 1) * (1 - RIGHT) / 100, rtol=1e-4)


# Verdicts ----------------------------------------------------------------------------------------------------------


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
    p = torch.from_numpy(learner.predict_proba(IMAGES[rows])) + Neighbours().votes(pixels, held, 3)
    expected = posterior(p / 2, learner.noise.likelihoods(labels, 3, 3))
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
    """The learner with verdicts comes to the same bits but in figures on them; without, it says that it has none.

    A trainer that learns from verdicts makes them in either case.
    """
    judging, silent = (tiny_learner(trainer=trainer) for _ in range(2))
    for start in range(0, 32, 8):
        rows = slice(start, start + 8)
        judging.observe(IMAGES[rows], GIVEN[rows])
        found = silent.observe(IMAGES[rows], GIVEN[rows], judge=False)
        assert np.isnan(found.p_right).all()
        assert found.suggested == GIVEN[rows].tolist()
    if judging.options.online_targets == "verdict":
        assert differing(tensors_of(judging), tensors_of(silent)) == []
        assert silent.status()["noise_rate"] == judging.status()["noise_rate"] is not None
    else:
        assert differing(tensors_of(judging), tensors_of(silent)) == ["monitor.sums", "noise.counts", "noise.usual"]
        assert silent.status()["noise_rate"] is silent.status()["agreement"] is None


def test_a_stream_batch_teaches_what_the_verdict_says() -> None:
    """The trainer gets the posterior of what it may be trusted with, and given labels where nothing is known."""
    learner = tiny_learner(None, memory=24, online_targets="verdict")
    seen: list[torch.Tensor] = []
    names = np.array(["cat", "dog", "owl"])
    feed(learner, IMAGES[:40], names[GIVEN[:40] % 2])
    learner.monitor.sums[5] = 0.45 * learner.monitor.sums[4]  # half way from no trust to full trust
    step = learner.trainer._run_online
    learner.trainer._run_online = lambda images, targets, *rest: seen.append(targets) or step(images, targets, *rest)
    found = learner.observe(IMAGES[40:48], names[GIVEN[40:48]])
    targets, known = seen[0][:8], np.isfinite(found.p_right)
    labels = np.array([learner.class_ids[name] for name in names[GIVEN[40:48]]])
    assert known.any()
    assert not known.all()
    np.testing.assert_allclose(targets[range(8), labels], np.where(known, (1 + found.p_right) / 2, 1.0), atol=1e-6)
    np.testing.assert_allclose(targets.sum(dim=1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("agreement", "trust"), [(0.0, 0.0), (NO_TRUST, 0.0), (0.45, 0.5), (FULL_TRUST, 1.0), (1.0, 1.0)]
)
def test_a_verdict_teaches_as_much_as_the_learner_agrees_with_arriving_labels(agreement: float, trust: float) -> None:
    nan, given = float("nan"), torch.eye(3)[:2]
    posterior = torch.tensor([[0.2, 0.8, 0.0], [nan, nan, nan]])
    verdict = Verdict(torch.tensor([0.2, nan]), posterior, torch.zeros(2))
    found = verdict.targets(given, torch.tensor(agreement, dtype=torch.float64))
    expected = torch.tensor([[1 - 0.8 * trust, 0.8 * trust, 0.0], [0.0, 1.0, 0.0]])
    torch.testing.assert_close(found, expected)


def test_a_held_sample_has_no_vote_on_itself_when_it_is_judged_again() -> None:
    images, labels = patterns(12)
    given = labels.copy()
    given[0] = (given[0] + 1) % 3
    held = as_samples(images, given)
    unsure = torch.full((12, 3), 1 / 3)
    p_right = judge_again(unsure, held, 3, estimate())
    assert int(p_right.argmin()) == 0
    others = Neighbours().votes(held.images[:1], held.take(slice(1, None)), 3)
    expected = posterior((unsure[:1] + others) / 2, estimate().likelihoods(held.labels[:1], 3, 3))[0, given[0]]
    torch.testing.assert_close(p_right[0], expected)


def test_the_memory_is_judged_again_once_so_many_samples_have_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "JUDGED_AGAIN", 20)
    learner = tiny_learner(memory=24, sampler="sieve", trainer="verdict")
    told: list[tuple[int, Tensor]] = []
    monkeypatch.setattr(
        type(learner.sampler), "judged_again",
        lambda self, held, p_right: (told.append((learner.seen, p_right)), held.notes)[1],
    )  # fmt: skip
    feed(learner, IMAGES[:64], GIVEN[:64])
    assert [seen for seen, _ in told] == [24, 48]  # when the memory could have been replaced
    assert all(((p >= 0) & (p <= 1)).all() for _, p in told)
