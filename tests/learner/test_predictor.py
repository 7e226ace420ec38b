"""What predicts while the stream goes on: the network as it is, as memory training left it, or both."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from puridiver import Learner
from puridiver.learner.predictor import AVERAGE_FIRST, joined, snapshot_share, well_taught
from tests.learner_samples import SHAPE, feed, patterns, probabilities, tiny_learner

TEST = patterns(20, seed=9)[0]


def observe(learner: Learner, seed: int, n_classes: int = 3) -> None:
    feed(learner, *patterns(24, n_classes, seed))


def own(learner: Learner) -> np.ndarray:
    """What the network as it is says."""
    pixels = torch.from_numpy(TEST).permute(0, 3, 1, 2).contiguous()
    return probabilities(learner.trainer, pixels).numpy()


def learned(mode: str, **settings) -> tuple[Learner, np.ndarray]:
    """A learner that observed after a consolidation, and what it predicted before that."""
    learner = tiny_learner(online_prediction=mode, **settings)
    observe(learner, 0)
    np.testing.assert_array_equal(learner.predict_proba(TEST), own(learner))  # there is nothing else yet
    learner.consolidate()
    before = learner.predict_proba(TEST)
    np.testing.assert_array_equal(before, own(learner))
    observe(learner, 1)
    return learner, before


@pytest.mark.parametrize("trainer", ["puridiver", "dividemix", "spr"])
def test_the_consolidated_network_predicts_until_the_next_consolidation(trainer: str) -> None:
    learner, before = learned("consolidated", trainer=trainer)
    np.testing.assert_allclose(learner.predict_proba(TEST), before, atol=1e-6)
    if learner.trainer.learns_online:
        assert not np.allclose(own(learner), before, atol=1e-4)
    learner.consolidate()
    np.testing.assert_array_equal(learner.predict_proba(TEST), own(learner))
    assert not np.allclose(own(learner), before, atol=1e-4)


def test_weighed_by_how_well_each_named_the_labels_that_arrived_since(tmp_path: Path) -> None:
    learner, before = learned("weighed")
    share = float(snapshot_share(learner.predictor.state()["evidence"]))
    assert share != 0.5
    expected = share * before + (1 - share) * own(learner)
    np.testing.assert_allclose(learner.predict_proba(TEST), expected, atol=1e-6)
    np.testing.assert_array_equal(
        Learner.load(learner.save(tmp_path / "l")).predict_proba(TEST), learner.predict_proba(TEST)
    )
    learner.consolidate()  # its evidence begins anew
    assert not learner.predictor.state()["evidence"].any()


def test_the_network_and_the_average_of_its_weights_are_weighed_alike(tmp_path: Path) -> None:
    learner = tiny_learner(online_prediction="weighed", online_average=0.9, grow=True)

    def expected() -> np.ndarray:
        pixels = torch.from_numpy(TEST).permute(0, 3, 1, 2).contiguous()
        model, evidence = learner.trainer.models[0], learner.predictor.state()["evidence"]
        share = float(snapshot_share(evidence, AVERAGE_FIRST))
        network, average = (model.outputs(pixels, live=live).logits.softmax(dim=1).numpy() for live in (True, False))
        assert not np.allclose(network, average, atol=1e-3)
        np.testing.assert_allclose(learner.predict_proba(TEST, as_it_is=True), network, atol=1e-6)
        return share * average + (1 - share) * network

    observe(learner, 0)
    learner.consolidate()
    assert not learner.predictor.state()["evidence"].any()
    np.testing.assert_allclose(learner.predict_proba(TEST), own(learner), atol=1e-6)  # the average begins there
    observe(learner, 1)
    observe(learner, 4, n_classes=4)  # the average knows a new class at once
    assert learner.predictor.state()["evidence"].any()
    for each in (learner, Learner.load(learner.save(tmp_path / "l"), device="cpu"), learner.snapshot()):
        np.testing.assert_allclose(each.predict_proba(TEST), expected(), atol=1e-6)
    learner.remove_class(3)
    np.testing.assert_allclose(learner.predict_proba(TEST), expected(), atol=1e-6)
    training = learner.consolidation()
    next(training)
    np.testing.assert_array_equal(learner.predict_proba(TEST), own(learner))


@pytest.mark.parametrize(("size", "compared"), [(1, 6), (2, 6), (3, 6), (8, 3)])
def test_of_small_batches_of_known_classes_those_with_a_fourth_arrival_are_evidence(size: int, compared: int) -> None:
    learner = tiny_learner(trainer="verdict", online_prediction="weighed", online_average=0.9)
    for seed in range(4):
        observe(learner, seed)
    learner.consolidate()
    found, (images, labels) = [learner.predictor.state()["evidence"]], patterns(24, seed=5)
    for start in range(0, 24, size):
        learner.observe(images[start : start + size], labels[start : start + size])
        found.append(learner.predictor.state()["evidence"])
    assert sum(not torch.equal(a, b) for a, b in pairwise(found)) == compared


def test_the_snapshots_share_is_its_mean_lead_over_the_classes_that_arrived() -> None:
    assert float(snapshot_share(torch.zeros(3, 4))) == 0.5
    assert float(snapshot_share(torch.zeros(3, 4), prior=1.0)) == pytest.approx(1 / (1 + np.exp(-1)))
    # A class that the stream is full of counts as much as a rare one: 90 % against 80 %, and 0 of 2 against 2 of 2.
    evidence = torch.tensor([[90.0, 0, 0], [80, 2, 0], [100, 2, 0]])
    assert float(snapshot_share(evidence)) == pytest.approx(1 / (1 + np.exp(-40 * (-0.1 + 1) / 2)))
    assert float(snapshot_share(evidence[[1, 0, 2]])) == pytest.approx(1 - float(snapshot_share(evidence)), abs=1e-6)


LOWS = (7, 15)  # epochs after which the rate of warm restarts is low, and what is trained is good enough


@pytest.mark.parametrize(("mode", "trainer"), [("consolidated", "puridiver"), ("both", "dividemix"), ("both", "spr")])
def test_within_a_consolidation_predicts_what_did_before_until_it_comes_to_a_low(mode: str, trainer: str) -> None:
    learner, _ = learned(mode, trainer=trainer, snapshots=1)
    expected = learner.predict_proba(TEST)
    for epoch in learner.consolidation(epochs=18):
        if epoch == 17 or (epoch + 1 in LOWS and learner.trainer.learns_online):
            expected = own(learner)
        np.testing.assert_allclose(learner.predict_proba(TEST), expected, atol=1e-6)
        np.testing.assert_array_equal(learner.predict_proba(TEST, as_it_is=True), own(learner))
    np.testing.assert_array_equal(learner.predict_proba(TEST), own(learner))


@pytest.mark.parametrize("saved_after", [None, 1, 9, 16])
def test_the_networks_of_the_last_minima_predict_together(saved_after: int | None, tmp_path: Path) -> None:
    learner, _ = learned("consolidated", snapshots=2, grow=True)
    learner.observe(*patterns(8, 4, 5))  # a class that the snapshots before do not know
    members: list[np.ndarray] = []
    going = learner.consolidation(epochs=18)
    for done in range(1, 19):
        if done - 1 == saved_after:
            learner = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
            going = learner.consolidation()
        next(going)
        if done in (*LOWS, 18):
            members = [*members, own(learner)][-2:]
            np.testing.assert_allclose(learner.predict_proba(TEST), np.mean(members, axis=0), atol=1e-6)
    list(going)
    learner.observe(*patterns(8, 4, 5))
    np.testing.assert_allclose(learner.predict_proba(TEST), np.mean(members, axis=0), atol=1e-6)


def test_a_first_consolidation_before_which_no_label_taught_anything_has_nothing_to_lose() -> None:
    learner = tiny_learner(trainer="spr")
    observe(learner, 0)
    for _ in learner.consolidation(epochs=3):
        np.testing.assert_array_equal(learner.predict_proba(TEST), own(learner))


@pytest.mark.parametrize(("mode", "left_after"), [("consolidated", 9), ("both", 2), ("weighed", 2)])
def test_saved_within_a_consolidation_it_predicts_the_same(mode: str, left_after: int, tmp_path: Path) -> None:
    learner, _ = learned(mode, grow=True)
    learner.observe(*patterns(8, 4, 5))  # of another class, so that two copies know different ones
    going = learner.consolidation(epochs=18)
    for _ in range(left_after):
        next(going)
    loaded = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    assert not np.array_equal(learner.predict_proba(TEST), own(learner))
    np.testing.assert_array_equal(loaded.predict_proba(TEST), learner.predict_proba(TEST))
    for _ in zip(going, loaded.consolidation(), strict=True):
        np.testing.assert_array_equal(loaded.predict_proba(TEST), learner.predict_proba(TEST))
    assert not any("held0" in name for name in learner.predictor.state())


# 2 is before the first low that is served, 9 after it.
@pytest.mark.parametrize(
    ("trainer", "observed", "left_after"), [("puridiver", True, 9), ("puridiver", False, 2), ("spr", True, 2)]
)
def test_left_early_what_predicted_meanwhile_goes_on_to(
    trainer: str, observed: bool, left_after: int, tmp_path: Path
) -> None:
    learner, _ = learned("consolidated", trainer=trainer)
    if not observed:
        learner.consolidate()
    going = learner.consolidation(epochs=18)
    for _ in range(left_after):
        next(going)
    before = learner.predict_proba(TEST)
    loaded = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    assert loaded.status()["consolidation"] == {"epochs_done": left_after, "epochs": 18}
    going.close()
    np.testing.assert_allclose(learner.predict_proba(TEST), before, atol=1e-6)
    assert not np.allclose(own(learner), before, atol=1e-4)
    again = Learner.load(learner.save(tmp_path / "left"), device="cpu")
    for each in (learner, loaded, again):  # the second has left it only now
        observe(each, 4)
        np.testing.assert_allclose(each.predict_proba(TEST), before, atol=1e-6)
        assert each.status()["consolidation"] is None
        each.consolidate()
        np.testing.assert_array_equal(each.predict_proba(TEST), own(each))
        after = each.predict_proba(TEST)
        observe(each, 5)
        np.testing.assert_allclose(each.predict_proba(TEST), after, atol=1e-6)


@pytest.mark.parametrize("mode", ["consolidated", "both"])
def test_after_a_first_consolidation_that_was_left_the_network_that_learns_on_predicts(mode: str) -> None:
    """What the stream had taught by then must not predict for ever: it would soon be far behind."""
    learner = tiny_learner(online_prediction=mode)
    observe(learner, 0)
    next(learner.consolidation(epochs=9))
    observe(learner, 1)
    np.testing.assert_allclose(learner.predict_proba(TEST), own(learner), atol=1e-6)


def test_what_answers_judges_arrivals_also_after_a_first_consolidation_that_was_left() -> None:
    learner = tiny_learner(online_prediction="weighed")
    observe(learner, 0)
    next(learner.consolidation(epochs=9))
    x = torch.from_numpy(TEST).permute(0, 3, 1, 2).contiguous()
    found = learner.predictor.judge(x, torch.zeros(len(x), dtype=torch.int64), [False] * len(x), seen=0)
    np.testing.assert_array_equal(found.numpy(), learner.predict_proba(TEST))
    assert not np.allclose(own(learner), found.numpy(), atol=1e-4)


def test_a_snapshot_answers_for_what_it_was_taught_alone() -> None:
    now, then = torch.tensor([[0.1, 0.3, 0.2, 0.4]]), torch.tensor([[0.2, 0.3, 0.5]])  # the fourth class is new
    found = joined(now, then, torch.tensor([1.0, 1.0, 0.0]), 0.5)
    # The first two have 0.4 between them: the snapshot divides it as 2 to 3, the network as 1 to 3.
    expected = torch.tensor([[(0.16 + 0.1) / 2, (0.24 + 0.3) / 2, 0.2, 0.4]])
    torch.testing.assert_close(found, expected)


def shared(now: np.ndarray, then: np.ndarray, mode: str) -> np.ndarray:
    """The network's answer for new classes; in what is left, the snapshot's for the old ones, or the mean of both."""
    taught, share = torch.ones(then.shape[1]), 1.0 if mode == "consolidated" else 0.5
    return joined(torch.from_numpy(now), torch.from_numpy(then), taught, share).numpy()


@pytest.mark.parametrize("mode", ["consolidated", "both"])
def test_of_a_class_that_came_since_the_network_as_it_is_speaks_alone(mode: str, tmp_path: Path) -> None:
    learner, before = learned(mode, grow=True)
    observe(learner, 4, n_classes=4)
    for each in (learner, Learner.load(learner.save(tmp_path / mode), device="cpu")):
        found = each.predict_proba(TEST)
        np.testing.assert_allclose(found, shared(own(each), before, mode), atol=1e-5)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
        each.consolidate()
        kept = each.predict_proba(TEST)
        observe(each, 5, n_classes=4)
        np.testing.assert_allclose(each.predict_proba(TEST), shared(own(each), kept, mode), atol=1e-5)


def test_taught_is_what_has_half_a_fair_share_of_the_memory() -> None:
    labels = torch.tensor([0] * 11 + [1] * 4 + [2] * 3 + [4] * 6)  # 24 of four classes: 6 are a fair share
    assert well_taught(labels, 6).tolist() == [1, 1, 1, 0, 1, 0]
    assert well_taught(labels[labels != 2].repeat(2)[:-1], 5).tolist() == [1, 1, 0, 0, 1]
    assert well_taught(torch.tensor([0] * 30 + [1] * 7), 2).tolist() == [1, 0]
    assert well_taught(torch.tensor([2]), 3).tolist() == [0, 0, 1]


@pytest.mark.parametrize("mode", ["consolidated", "both"])
def test_a_class_that_the_memory_had_few_of_counts_as_one_that_came_since(mode: str) -> None:
    learner = tiny_learner(online_prediction=mode)
    images, labels = patterns(24, 2)
    few, third = (found[:1] for found in (images, np.full_like(labels, learner.classes[2])))
    learner.observe(np.concatenate([images[:7], few]), np.concatenate([labels[:7], third]))
    learner.consolidate()
    counts = np.unique([row.given_label for row in learner.audit()], return_counts=True)[1]
    assert sorted(counts.tolist())[0] < sum(counts) / 6
    before = learner.predict_proba(TEST)
    observe(learner, 1)
    np.testing.assert_allclose(learner.predict_proba(TEST), shared(own(learner), before[:, :2], mode), atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.1)])
@pytest.mark.parametrize(("mode", "average"), [("consolidated", 0.0), ("weighed", 0.0), ("weighed", 0.9)])
def test_captured_it_is_the_same(mode: str, average: float, precision: str, tolerance: float) -> None:
    """Over so many rounds that captured looks are replayed after the copy changed, and after a class was added."""
    found = []
    for graphs in (False, True):
        learner = Learner(
            3, SHAPE, 12, sampler="puridiver", trainer="puridiver", device="cuda", precision=precision, graphs=graphs,
            online_prediction=mode, online_average=average, batch_size=8, epochs=9, warmup_epochs=0, smallest_set=0,
            grow=True,
        )  # fmt: skip
        looks = []
        for seed in range(8):
            observe(learner, seed, n_classes=3 if seed < 5 else 4)
            looks += [learner.predict_proba(TEST) for _ in range(3)]  # eager, captured, replayed
            # Within it: what predicted before, then a low.
            looks += [learner.predict_proba(TEST) for epoch in learner.consolidation() if epoch in (0, 1, 7)]
            looks.append(learner.predict_proba(TEST))
        found.append([np.pad(look, ((0, 0), (0, 4 - look.shape[1]))) for look in looks])
    np.testing.assert_allclose(found[0], found[1], atol=tolerance)
