"""PuriDivER's sampler against the supplement's Algorithm 1 in plain loops."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver import equations
from puridiver.memory import Samples
from puridiver.memory.base import surviving_rows
from puridiver.memory.puridiver import Eviction, PuriDivERSampler
from puridiver.options import Options
from puridiver.runtime.device import Runtime
from tests import reference
from tests.memory.fakes import FixedNetwork, checked, moment, stream, with_labels

NOBODY = torch.zeros(1_000, dtype=torch.bool)  # has checked any of these labels


@dataclass(frozen=True)
class Pool:
    """Losses, features and labels of some samples, and the classifier's weights; float64."""

    loss: np.ndarray
    f: np.ndarray
    y: list[int]
    w: np.ndarray

    def eviction(self, alpha: float, standardise: bool) -> Eviction:
        y, w = torch.tensor(self.y), torch.from_numpy(self.w)
        u = equations.relevant_directions(torch.from_numpy(self.f), y, w)
        return Eviction(torch.from_numpy(self.loss), u, y, len(w), torch.tensor(alpha), standardise, NOBODY[: len(y)])

    def scores(self, memory: list[int], alpha: float, standardise: bool) -> dict[int, float]:
        return reference.scores(self.loss, self.f, self.y, self.w, memory, alpha, standardise)


def random_pool(n: int, n_classes: int, seed: int, d: int = 6) -> Pool:
    rng = np.random.default_rng(seed)
    f = np.maximum(rng.normal(size=(n, d)), 0)
    return Pool(rng.gamma(1.0, 2.0, n), f, rng.integers(n_classes, size=n).tolist(), rng.normal(size=(n_classes, d)))


def living(eviction: Eviction) -> list[int]:
    return eviction.alive.nonzero().flatten().tolist()


def largest_class_rows(memory: list[int], y: list[int], ties: Tensor) -> list[int]:
    """The rows of the class with the most samples; ties go to the larger tie-breaker."""
    labels = {y[i] for i in memory}
    most = max(sum(y[i] == c for i in memory) for c in labels)
    chosen = max((c for c in labels if sum(y[i] == c for i in memory) == most), key=lambda c: float(ties[c]))
    return [i for i in memory if y[i] == chosen]


@pytest.mark.parametrize(("seed", "n_classes"), [(0, 1), (1, 3)])
@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize("from_largest", [False, True])
def test_every_drop_is_the_highest_score_from_scratch(
    seed: int, n_classes: int, standardise: bool, from_largest: bool
) -> None:
    pool, alpha, capacity = random_pool(24, n_classes, seed), 0.4, 10
    generator = torch.Generator().manual_seed(seed)
    eviction = pool.eviction(alpha, standardise)
    eviction.admit(capacity)
    for row in range(capacity, 24):
        eviction.admit(row + 1)
        memory = living(eviction)
        expected = pool.scores(memory, alpha, standardise)
        ties = torch.rand(n_classes, generator=generator)
        candidates = largest_class_rows(memory, pool.y, ties) if from_largest else memory
        eviction.drop_worst(ties if from_largest else None)
        assert set(memory) - set(living(eviction)) == {max(candidates, key=lambda i: expected[i])}
        assert surviving_rows(eviction.alive, capacity).tolist() == living(eviction)


def seen_by(network: FixedNetwork, samples: Samples) -> Pool:
    """What the network thinks of the samples, worked out again in float64."""
    x = samples.images.flatten(1).double().numpy() / 255
    f = np.maximum(x @ network.projection.double().numpy(), 0)
    w = network.class_weights.double().numpy()
    labels = samples.labels.tolist()
    rows = zip((f @ w.T).tolist(), labels, strict=True)
    loss = [reference.cross_entropy(logits, reference.one_hot(label, len(w))) for logits, label in rows]
    return Pool(np.array(loss), f, labels, w)


@pytest.mark.parametrize(
    ("n", "n_old", "capacity", "n_classes"),
    [(24, 16, 16, 3), (24, 0, 10, 4), (13, 12, 12, 2), (20, 5, 12, 3), (12, 1, 1, 3), (14, 8, 8, 1)],
)
@pytest.mark.parametrize(("alpha", "batch_loss"), [(-1.0, 0.4), (-1.0, 2.5), (0.3, 2.5)])
def test_choice_is_the_supplements_algorithm_1(
    n: int, n_old: int, capacity: int, n_classes: int, alpha: float, batch_loss: float
) -> None:
    network, pool = FixedNetwork(n_classes, seed=n), stream(n, n_classes, seed=n)
    sampler = PuriDivERSampler(Options(alpha=alpha))
    rows = sampler.choose(pool, n_old, capacity, moment(network, n_classes, batch_loss=batch_loss))
    seen, used = seen_by(network, pool), alpha if alpha >= 0 else reference.adaptive_alpha(batch_loss)
    assert rows.tolist() == reference.algorithm_1(seen.loss, seen.f, seen.y, seen.w, n_old, capacity, used)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_only_classes_that_lose_a_sample_are_scored_and_the_choice_is_the_same(
    seed: int, captured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where steps are captured, of large images alone, and in passes of few sizes."""
    pool = with_labels([*[0, 1, 2, 3] * 8, *([0, 1] if seed % 2 else [2, 3, 1]) * 4], seed)
    sampler = PuriDivERSampler(Options(evict_from="largest_class", standardise_scores=True, purity_by="margin"))
    few, all_ = FixedNetwork(4, seed), FixedNetwork(4, seed)
    now = moment(few, 4)
    if captured:
        monkeypatch.setattr("puridiver.memory.puridiver.LARGE_IMAGE", pool.images[0].nbytes)
        monkeypatch.setattr("puridiver.memory.puridiver.ROWS_AT_A_TIME", 8)
        now = dataclasses.replace(now, runtime=Runtime(torch.device("cpu"), graphs=True))
    rows = sampler.choose(pool, 32, 32, now)
    assert not captured or few.images_seen % 8 == 0
    monkeypatch.setattr(
        "puridiver.memory.puridiver.rows_of_losing_classes", lambda labels, *_: torch.arange(len(labels))
    )
    again = PuriDivERSampler(sampler.options)
    assert rows.tolist() == again.choose(pool, 32, 32, moment(all_, 4)).tolist()
    assert few.images_seen < all_.images_seen == len(pool)


@pytest.mark.parametrize(
    ("alpha", "batch_loss", "used"), [(-1.0, 4.0, 0.125), (-1.0, 0.2, 0.5), (0.0, 4.0, 0.0), (0.9, 4.0, 0.9)]
)
def test_the_balance_in_use_can_be_read(alpha: float, batch_loss: float, used: float) -> None:
    sampler = PuriDivERSampler(Options(alpha=alpha))
    sampler.choose(stream(3, 2), 0, 5, moment(FixedNetwork(2), 2, batch_loss=batch_loss))
    assert float(sampler.diagnostics()["alpha"]) == pytest.approx(used)


@pytest.mark.parametrize("weight", [0.0, 0.5, 20.0])
def test_the_loss_on_arrival_counts_by_its_weight(weight: float) -> None:
    """Wrong labels that have been fitted since: low losses today, high ones on arrival."""
    network, pool = FixedNetwork(3), stream(20, 3)
    today = np.array(seen_by(network, pool).loss)
    on_arrival = np.linspace(3, 0, 20)[np.argsort(np.argsort(today))]
    noted = dataclasses.replace(pool, notes=torch.from_numpy(on_arrival).float())
    rows = PuriDivERSampler(Options(alpha=0.0, arrival_weight=weight)).choose(noted, 10, 10, moment(network, 3))
    assert sorted(rows.tolist()) == sorted(np.argsort(today + weight * on_arrival)[:10].tolist())


def test_by_margin_labels_that_the_network_agrees_with_count_alike() -> None:
    network, pool = FixedNetwork(3), stream(20, 3)
    logits = network.outputs(pool.images)[1].tolist()
    margins = np.array([max(row) - row[y] for row, y in zip(logits, pool.labels.tolist(), strict=True)])
    rows = PuriDivERSampler(Options(alpha=0.0, purity_by="margin")).choose(pool, 10, 10, moment(network, 3))
    assert sum(margins == 0) > 1, "the sample should have labels that the network agrees with"
    assert sorted(margins[rows]) == pytest.approx(sorted(margins)[:10])


def test_the_loss_that_a_corrected_label_had_on_arrival_no_longer_counts() -> None:
    """It was of the wrong label; it must not move the scores of the others of its class either."""
    options = Options(alpha=0.4, arrival_weight=1.0, standardise_scores=True, evict_from="largest_class")
    network, pool = FixedNetwork(2), with_labels([0] * 20)
    corrected, found = torch.arange(20) == 7, []
    for of_the_wrong_label in (0.0, 9.0):
        notes = torch.linspace(0, 2, 20).masked_fill(corrected, of_the_wrong_label)
        noted = checked(dataclasses.replace(pool, notes=notes), corrected)
        found.append(PuriDivERSampler(options).choose(noted, 10, 10, moment(network, 2)).tolist())
    assert found[0] == found[1]
    assert 7 in found[0]


@pytest.mark.parametrize("evict_from", ["memory", "largest_class"])
def test_a_label_that_a_person_has_checked_goes_after_all_others_of_its_class(evict_from: str) -> None:
    network, pool = FixedNetwork(2), with_labels([0] * 20)
    loss = seen_by(network, pool).loss
    highest = np.argsort(loss)[::-1].tolist()
    told = torch.zeros(20, dtype=torch.bool)
    told[highest[:4]] = True
    sampler = PuriDivERSampler(Options(alpha=0.0, evict_from=evict_from))
    rows = sampler.choose(checked(pool, told), 10, 10, moment(network, 2))
    assert set(range(20)) - set(rows.tolist()) == set(highest[4:14])
    # Where there are too many to keep, their scores decide after all.
    rows = sampler.choose(checked(pool, ~told), 10, 10, moment(network, 2))
    dropped = sorted(set(range(20)) - set(rows.tolist()))
    assert set(highest[:4]) < set(dropped)
    assert loss[rows].max() <= loss[dropped].min() + 0.01


def test_a_sample_that_cannot_be_judged_goes_first() -> None:
    """A network that answers nan for one sample must not spoil the scores of its class."""

    class Blind(FixedNetwork):
        def outputs(self, images: Tensor, *, large_passes: bool = False) -> tuple[Tensor, Tensor]:
            features, logits = super().outputs(images)
            features[3], logits[3] = torch.nan, torch.nan
            return features, logits

    pool = with_labels([0] * 6)
    for options in (Options(), Options(standardise_scores=True, evict_from="largest_class")):
        rows = PuriDivERSampler(options).choose(pool, 5, 5, moment(Blind(2), 2))
        assert rows.tolist() == [0, 1, 2, 4, 5]
