"""The split of the memory into C, R and U against equations 4 to 8 put together by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver import equations
from puridiver.options import Options
from puridiver.recipes import recipe
from puridiver.trainers.split import SET_NAMES, Split, prediction_weights, split_memory
from tests import reference

N_CLASSES = 4
PAPER, OFFICIAL = recipe("paper"), recipe("official")


@dataclass(frozen=True)
class Case:
    logits: Tensor  # (N, C)
    labels: Tensor  # (N,)

    def split(self, options: Options = PAPER, checked: Tensor | None = None) -> Split:
        nobody = torch.zeros(len(self.labels), dtype=torch.bool)
        arrivals = torch.arange(100, 100 + len(self.labels))
        return split_memory(self.logits, self.labels, arrivals, nobody if checked is None else checked, options)


def typical_case(seed: int) -> Case:
    """A network that has learnt: most labels fit, some contradict a sure prediction, some an unsure one."""
    rng = np.random.default_rng(seed)
    labels, kind = rng.integers(N_CLASSES, size=60), rng.choice(3, size=60, p=[0.6, 0.2, 0.2])
    predicted = np.where(kind == 0, labels, (labels + rng.integers(1, N_CLASSES, size=60)) % N_CLASSES)
    height = np.where(kind == 2, rng.normal(1.2, 0.3, 60), rng.normal(5, 1.2, 60))
    logits = rng.normal(scale=0.4, size=(60, N_CLASSES))
    logits[np.arange(60), predicted] += height
    return Case(torch.from_numpy(logits).float(), torch.from_numpy(labels))


@dataclass(frozen=True)
class Expected:
    clean: list[int]
    certain: list[int]
    uncertain: list[int]
    p_g: np.ndarray
    p_u: np.ndarray  # 0 outside the noisy set
    p_m: list[list[float]]


def by_hand(case: Case, o: Options) -> Expected:
    """Equations 4 to 7, one after the other, with scikit-learn's mixtures."""
    settings = (o.mixture_iterations, o.mixture_tolerance, o.mixture_floor)
    logits, labels = case.logits.double().tolist(), case.labels.tolist()
    rows = zip(logits, labels, strict=True)
    loss = np.array([reference.cross_entropy(row, reference.one_hot(label, N_CLASSES)) for row, label in rows])
    p_g = reference.sklearn_posterior(loss, o.mixture_scale, *settings)
    clean, noisy = reference.split_at_half(p_g, range(len(loss)))
    p_m = [reference.softmax(row) for row in logits]
    u = np.array([reference.uncertainty(p_m[i]) for i in noisy])
    p_u = np.zeros(len(loss))
    p_u[noisy] = reference.sklearn_posterior(u, False, *settings)  # uncertainties are never scaled
    return Expected(clean, *reference.split_at_half(p_u, noisy), p_g, p_u, p_m)


def rows(mask: Tensor) -> list[int]:
    return mask.nonzero().flatten().tolist()


seeds = pytest.mark.parametrize("seed", range(3))
mixtures = pytest.mark.parametrize(
    "options",
    [PAPER, recipe("paper", mixture_scale=True, mixture_iterations=10, mixture_tolerance=1e-2, mixture_floor=5e-4)],
    ids=["sklearn_defaults", "released_program"],
)


@seeds
@mixtures
def test_sets_and_posteriors_are_equations_4_to_7(seed: int, options: Options) -> None:
    case = typical_case(seed)
    split, expected = case.split(options), by_hand(case, options)
    assert rows(split.clean) == expected.clean
    assert rows(split.relabel) == expected.certain
    assert rows(split.unlabelled) == expected.uncertain
    np.testing.assert_allclose(split.p_clean.numpy(), expected.p_g, atol=1e-3)
    np.testing.assert_allclose(split.p_certain.numpy(), expected.p_u, atol=1e-3)
    np.testing.assert_allclose(split.p_model.numpy(), expected.p_m, atol=1e-5)


@seeds
@pytest.mark.parametrize("relabel_set", ["low_uncertainty", "high_uncertainty"])
def test_every_sample_is_in_exactly_one_set_and_ablations_use_one_loss(seed: int, relabel_set: str) -> None:
    case = typical_case(seed)
    split = case.split(recipe("paper", relabel_set=relabel_set))
    sets = {"clean": split.clean, "relabel": split.relabel, "unlabelled": split.unlabelled}
    for code, name in enumerate(SET_NAMES):
        assert rows(split.codes() == code) == rows(sets[name])
    assert split.sets().sizes() == tuple(int(sets[name].sum()) for name in SET_NAMES)
    assert split.arrivals.tolist() == list(range(100, 160))
    assert torch.equal(case.split(recipe("paper", relabel_set=relabel_set, consistency=False)).relabel, ~split.clean)
    assert torch.equal(case.split(recipe("paper", relabel_set=relabel_set, relabel=False)).unlabelled, ~split.clean)


# Equation 8 on the sets ----------------------------------------------------------------------------------------


@seeds
def test_targets_are_equation_8_on_r_and_given_labels_elsewhere(seed: int) -> None:
    case = typical_case(seed)
    split, expected = case.split(), by_hand(case, PAPER)
    targets = equations.refurbish(prediction_weights(split, PAPER, torch.Generator()), split.p_model, case.labels)
    for i, label in enumerate(case.labels.tolist()):
        soft = reference.refurbished(expected.p_u[i], expected.p_m[i], label)
        wanted = soft if i in expected.certain else reference.one_hot(label, N_CLASSES)
        np.testing.assert_allclose(targets[i].numpy(), wanted, atol=1e-3)


def test_released_weights_put_the_clean_component_first_by_a_fair_or_a_loaded_coin() -> None:
    case = typical_case(1)
    fair, loaded = (recipe("paper", relabel_weight=name) for name in ("unsorted_loss", "unsorted_loss_by_share"))
    split = case.split(loaded)
    share = float(split.clean.float().mean())
    assert 0.6 < share < 0.9
    draws = [prediction_weights(split, loaded, torch.Generator().manual_seed(seed)) for seed in range(400)]
    first = (1 - split.p_clean) * split.relabel  # the prediction weighs what the clean component does not
    second = split.p_clean * split.relabel
    counts = [sum(torch.equal(draw, weights) for draw in draws) for weights in (first, second)]
    assert sum(counts) == len(draws)
    assert counts[0] / len(draws) == pytest.approx(share, abs=0.08)
    fairly = [prediction_weights(split, fair, torch.Generator().manual_seed(seed)) for seed in range(400)]
    assert sum(torch.equal(draw, first) for draw in fairly) / len(fairly) == pytest.approx(0.5, abs=0.08)


# Odd memories --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [PAPER, OFFICIAL])
def test_a_label_that_a_person_has_checked_is_clean_whatever_its_loss(options: Options) -> None:
    case = typical_case(0)
    doubted = ~case.split(options).clean
    checked = doubted & (torch.arange(60) % 2 == 0)
    split = case.split(options, checked)
    assert checked.any()
    assert (doubted & ~checked).any()
    assert torch.equal(split.clean, ~doubted | checked)
    assert (split.p_clean[checked] == 1).all()
    assert torch.equal(split.p_clean[~checked], case.split(options).p_clean[~checked])
    assert not (split.relabel | split.unlabelled)[checked].any()
    generator = torch.Generator().manual_seed(0)
    assert (prediction_weights(split, options, generator)[checked] == 0).all()
