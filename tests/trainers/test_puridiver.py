"""PuriDivER's trainer against equations 5 to 11 computed by hand, its batches and its ablations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.augment import POLICIES
from puridiver.augment.views import crop_flip_view
from puridiver.trainers import Split
from puridiver.trainers.batches import clean_full_plans, proportional_plans
from puridiver.trainers.puridiver import PassShape
from tests.learner_samples import as_samples, differing, patterns, tiny_trainer
from tests.trainers.samples import (
    CLEAN,
    RELABEL,
    UNLABELLED,
    consolidate,
    hand_made_split,
    split_of_sizes,
    train_logits,
    watch_plans,
)

IMAGES, LABELS = patterns(24)
MEMORY = as_samples(IMAGES, LABELS)


def no_mix(n: int) -> Tensor:
    """A row of a CutMix plan whose box is empty."""
    return torch.cat([torch.arange(n), torch.zeros(4, dtype=torch.int64)])


# The loss of one batch ---------------------------------------------------------------------------------------------


def loss_by_loops(strong: np.ndarray, weak: np.ndarray, codes: list[int], targets: np.ndarray, options) -> float:
    """Equations 9 to 11 (or rows 6 and 7 of the reference) from logits, sample by sample.

    `weak` has a row for each unlabelled sample, in order.
    """

    def softmax(logits: np.ndarray) -> np.ndarray:
        e = np.exp(logits - logits.max())
        return e / e.sum()

    losses: dict[int, list[float]] = {CLEAN: [], RELABEL: [], UNLABELLED: []}
    others = iter(weak)
    for logits, code, target in zip(strong, codes, targets, strict=True):
        if code != UNLABELLED:
            losses[code].append(float(-(target * np.log(softmax(logits))).sum()))
        elif options.consistency_distance == "softmax_l2":
            losses[code].append(float(np.sqrt(((softmax(logits) - softmax(next(others))) ** 2).sum())))
        else:
            losses[code].append(float(((logits - next(others)) ** 2).mean()))
    supervised = losses[CLEAN] + losses[RELABEL]
    if options.loss_weights == "equation":
        return float(np.mean(supervised)) + options.eta * float(np.mean(losses[UNLABELLED] or [0]))
    shares = {code: len(found) / len(codes) for code, found in losses.items()}
    return sum(shares[code] * float(np.mean(found)) for code, found in losses.items() if found)


def held(split: Split, targets: Tensor, strong: Tensor, weak: Tensor, **more: Tensor) -> dict[str, Tensor]:
    """What a step reads of the memory."""
    return {"unlabelled": split.unlabelled, "targets": targets, "views": strong, "weak": weak, **more}


@pytest.mark.parametrize("distance", ["softmax_l2", "logit_mse"])
@pytest.mark.parametrize(("weights", "eta"), [("equation", 1.0), ("equation", 0.3), ("batch_share", 1.0)])
@pytest.mark.parametrize("n_tail", [3, 5])
def test_the_loss_of_a_batch_is_equation_11(distance, weights, eta, n_tail):
    trainer = tiny_trainer("puridiver", consistency_distance=distance, loss_weights=weights, eta=eta)
    codes = [0, 0, 0, 1, 1, 2, 2, 2]
    split = hand_made_split(codes)
    targets = torch.rand(8, 3, generator=torch.Generator().manual_seed(1)).softmax(dim=1)
    strong, weak = MEMORY.images[:8], MEMORY.images[:8].flip(3)
    rows = torch.tensor([1, 0, 2, 4, 3, 6, 5, 7])  # sorted by set, as every plan sorts them

    tail = rows[8 - n_tail :]
    logits = train_logits(trainer, torch.cat([strong[rows], weak[tail]])).double().numpy()
    expected = loss_by_loops(logits[:8], logits[-3:], [codes[r] for r in rows], targets[rows].numpy(), trainer.options)
    found = trainer._loss(
        held(split, targets, strong, weak), rows, no_mix(8 - n_tail), PassShape(8, n_tail, 8 - n_tail, 0)
    )
    assert float(found.detach()) == pytest.approx(expected, rel=1e-4)
    found.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in trainer.networks[0].parameters())


@pytest.mark.parametrize("n_mixed", [5, 3])  # C and R, or C alone (row 21)
@pytest.mark.parametrize("n_predicted", [2, 3])  # R, and where the numbers of C differ also a clean sample
def test_what_the_step_predicts_of_weak_views_is_mixed_into_the_labels(n_mixed, n_predicted, monkeypatch):
    trainer = tiny_trainer("puridiver", loss_weights="batch_share", consistency_distance="logit_mse")
    codes, given = [0, 0, 0, 1, 1, 2, 2, 2], torch.tensor([2, 0, 1, 0, 2, 1, 1, 0])
    split, rows = hand_made_split(codes), torch.tensor([1, 0, 2, 4, 3, 6, 5, 7])
    weights = torch.tensor([0.0, 0.0, 0.0, 0.8, 0.3, 0.0, 0.0, 0.0])  # of the prediction; 0 outside R
    strong, weak = MEMORY.images[:8], MEMORY.images[:8].flip(3)
    partners, (y0, y1, x0, x1) = torch.arange(n_mixed).flip(0), (1, 5, 2, 8)

    mixed = strong[rows].clone()
    for i in range(n_mixed):
        mixed[i, :, y0:y1, x0:x1] = strong[rows[partners[i]], :, y0:y1, x0:x1]
    again = rows[5 - n_predicted : 5]
    logits = train_logits(trainer, torch.cat([mixed, weak[rows[5:]], weak[again]])).double()
    soft = torch.nn.functional.one_hot(given, 3).double()
    for row, seen in zip(again.tolist(), logits[11:].softmax(dim=1), strict=True):
        soft[row] = weights[row] * seen + (1 - weights[row]) * soft[row]
    kept = 1 - (y1 - y0) * (x1 - x0) / 64
    targets = soft[rows].clone()
    for i in range(n_mixed):
        targets[i] = kept * soft[rows[i]] + (1 - kept) * soft[rows[partners[i]]]
    in_order = [codes[row] for row in rows.tolist()]
    wanted = loss_by_loops(logits[:8].numpy(), logits[8:11].numpy(), in_order, targets.numpy(), trainer.options)

    unlike = torch.full((8, 3), torch.nan)  # what was predicted before the epoch, of the rows that are predicted now
    unlike[rows[: 5 - n_predicted]] = soft[rows[: 5 - n_predicted]].float()
    unlike[rows[5:]] = soft[rows[5:]].float()
    memory = held(split, unlike, strong, weak, labels=given, weights=weights)
    plan = torch.cat([partners, torch.tensor([y0, y1, x0, x1])])
    monkeypatch.setattr(trainer.models[0], "logits", lambda _: logits.requires_grad_())
    found = trainer._loss(memory, rows, plan, PassShape(8, 3, n_mixed, n_predicted))
    assert float(found.detach()) == pytest.approx(wanted, rel=1e-4)
    found.backward()
    assert logits.grad is not None
    assert logits.grad[:8].any()
    assert not logits.grad[11:].any()  # a label is no way for gradients


@pytest.mark.parametrize("cutmix_sets", ["labelled", "clean"])
@pytest.mark.parametrize("relabel_view", ["before_epoch", "in_step"])
@pytest.mark.parametrize("planner", [proportional_plans, clean_full_plans])
def test_an_epoch_runs_the_plan_of_its_sets_and_of_the_last_batch(cutmix_sets, relabel_view, planner, monkeypatch):
    trainer = tiny_trainer(
        "puridiver", cutmix_sets=cutmix_sets, relabel_view=relabel_view, cutmix=0.5, last_batch="trained",
        set_batches=planner.__name__.removesuffix("_plans"),
    )  # fmt: skip
    split = split_of_sizes(13, 9, 7)
    monkeypatch.setattr(trainer, "_divide", lambda *_: split)
    drawn = torch.Generator()
    drawn.set_state(trainer.generator.get_state())
    calls = watch_plans(trainer, monkeypatch)
    trainer.memory_epoch(as_samples(*patterns(29)), 0)
    for plan, (_, steps, (shape,)) in zip(planner(split.codes(), 8, drawn, True), calls, strict=True):
        n = plan.rows.shape[1]
        n_head = n - plan.n_tail
        mixed = n_head if cutmix_sets == "labelled" else plan.n_clean
        assert torch.equal(steps[:, :n], plan.rows)
        assert shape == PassShape(n, plan.n_tail, mixed, n_head - plan.n_clean if relabel_view == "in_step" else 0)
        assert (steps[:, n : n + mixed].sort(dim=1).values == torch.arange(mixed)).all()
        assert steps.shape[1] == n + mixed + 4


@pytest.mark.parametrize(
    ("options", "padding"),
    [({"flip": True}, 0), ({"flip": True, "weak": "crop_flip"}, 2), ({"flip": False}, 2)],  # a view has to differ
)
def test_views_crop_flip_and_the_strong_one_adds_the_policy(options, padding):
    images, source = MEMORY.images, torch.Generator().manual_seed(0)
    options = {"crop_padding": 2, "strong": "autoaugment", **options}
    weak, strong = (tiny_trainer("puridiver", **options) for _ in range(2))
    source.set_state(weak.generator.get_state())
    assert torch.equal(
        weak.augmentation.weak(images, weak.generator), crop_flip_view(images, padding, options["flip"], source)
    )
    source.set_state(strong.generator.get_state())
    moved = crop_flip_view(images, 2, options["flip"], source)
    assert torch.equal(strong.strong_view(images), POLICIES["autoaugment"].apply(moved, source))


# Epochs ------------------------------------------------------------------------------------------------------------


def state_after(name: str, **options) -> dict[str, Tensor]:
    trainer = tiny_trainer(name, strong="autoaugment", crop_padding=1, cutmix=0.5, **options)
    consolidate(trainer, MEMORY, 3)
    # Only PuriDivER divides the memory, also where it does nothing with the sets.
    return {key: value.clone() for key, value in trainer.state().items() if not key.startswith("sets.")}


def test_without_relabelling_and_consistency_epochs_are_plain_to_the_last_bit():
    plain = state_after("plain")
    assert differing(state_after("puridiver", relabel=False, consistency=False), plain) == []
    assert differing(state_after("puridiver", warmup_epochs=3), plain) == []
    assert differing(state_after("puridiver", warmup_epochs=2), plain)


@pytest.mark.parametrize(
    ("codes", "options", "plain"),
    [
        ([0] * 20 + [1] * 2 + [2] * 2, {"smallest_set": 2}, True),
        ([0] * 18 + [1] * 3 + [2] * 3, {"smallest_set": 2}, False),
        ([0] * 19 + [1] * 3 + [2] * 2, {"smallest_set": 2}, True),
        ([0] * 22 + [1] * 1 + [2] * 1, {"smallest_set": 0}, False),
        ([0] * 20 + [1] * 4, {"smallest_set": 2, "consistency": False}, False),
        ([0] * 20 + [2] * 4, {"smallest_set": 2, "relabel": False}, False),
        ([0] * 1 + [1] * 12 + [2] * 11, {"smallest_set": 0}, True),
        ([1] * 20 + [2] * 4, {}, True),  # nothing is clean
        ([0] * 3 + [1] * 18 + [2] * 3, {}, False),  # re-labelling has run away ...
        ([0] * 3 + [1] * 18 + [2] * 3, {"fewest_clean": 0.5}, True),  # ... and the guard stops it
        ([0] * 13 + [1] * 8 + [2] * 3, {"fewest_clean": 0.5}, False),
    ],
)
@pytest.mark.parametrize("set_batches", ["proportional", "clean_full"])
def test_sets_that_are_too_small_make_the_epoch_plain(codes, options, plain, set_batches, monkeypatch):
    trainer = tiny_trainer("puridiver", set_batches=set_batches, **options)
    monkeypatch.setattr(trainer, "_divide", lambda *_: hand_made_split(codes))
    calls = watch_plans(trainer, monkeypatch)
    trainer.memory_epoch(MEMORY, 0)
    assert {call.step for call in calls} == {"_plain_step" if plain else "_set_step"}
