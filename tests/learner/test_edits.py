"""Corrections, removals and other sizes of the memory: what is dropped or unknown, what waits, and what is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import Learner
from puridiver.errors import DataError
from puridiver.learner import edits as edits_module
from puridiver.learner import storage
from puridiver.learner.observation import moment
from puridiver.memory import SAMPLERS
from puridiver.trainers import TRAINERS
from tests.learner_samples import SHAPE, differing, feed, patterns, tensors_of, tiny_learner

IMAGES, LABELS = patterns(96)
IDS = [f"photo-{row}.png" for row in range(96)]


def fed(n: int = 48, **settings: Any) -> Learner:
    return feed(tiny_learner(**settings), IMAGES[:n], LABELS[:n], ids=IDS[:n])


def held(learner: Learner) -> dict[int, int]:
    """Labels by arrival."""
    samples = learner.memory.held()
    return dict(zip(samples.arrivals.tolist(), samples.labels.tolist(), strict=True))


def evicted(learner: Learner, n: int = 2) -> list[int]:
    """The last arrivals that the memory does not hold."""
    return [arrival for arrival in range(learner.seen) if arrival not in held(learner)][-n:]


def reloaded(learner: Learner, folder: Path) -> Learner:
    return Learner.load(learner.save(folder / "saved"), device="cpu")


# Dropped and unknown -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_id", [False, True])
def test_a_dropped_sample_comes_back_with_its_image_and_is_told_from_an_unknown_one(by_id: bool) -> None:
    learner = fed()
    (gone,), stays = evicted(learner, 1), next(iter(held(learner)))
    keys: list[Any] = [IDS[gone], IDS[stays], "never.png"] if by_id else [gone, stays, 5000]
    found = learner.correct(dict.fromkeys(keys, 2), by_id=by_id)
    assert found == ([keys[1]], [keys[0]], [keys[2]], [])
    found = learner.correct(dict.fromkeys(keys, 2), by_id=by_id, images=IMAGES[[gone, stays, 0]])
    assert found == (keys[:2], [], [keys[2]], [])
    row = next(row for row in learner.audit() if row.arrival == gone)
    assert (row.given_label, row.checked, row.id) == (2, True, IDS[gone])
    assert np.array_equal(image_of(learner, gone), IMAGES[gone])
    assert len(learner.memory) == learner.capacity
    assert learner.seen == 48
    learner.correct({gone: None})
    assert held(learner)[gone] == 2  # nobody knows any more what it came with


def image_of(learner: Learner, arrival: int) -> np.ndarray:
    samples = learner.memory.held()
    return samples.images[samples.arrivals == arrival][0].permute(1, 2, 0).numpy()


def test_images_that_do_not_fit_change_nothing() -> None:
    learner = fed()
    before = tensors_of(learner)
    for images, message in ((IMAGES[:2], "images should be 1, one for each correction"), (IMAGES[:1, :4], "shape")):
        with pytest.raises(ValueError, match=message):
            learner.correct({0: 1}, images=images)
    assert differing(before, tensors_of(learner)) == []


def test_ids_are_remembered_for_a_while_after_their_samples_are_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(edits_module, "REMEMBERED_IDS", 16)
    learner = fed(96)
    assert len(learner.source_ids) <= learner.capacity + 2 * 16 + 8
    assert learner.held_ids() == {arrival: IDS[arrival] for arrival in held(learner)}
    old = next(arrival for arrival in range(96) if arrival not in held(learner))
    for each in (learner, reloaded(learner, tmp_path)):
        assert each.correct({IDS[evicted(each, 1)[0]]: 1}, by_id=True).dropped
        assert each.correct({IDS[old]: 1}, by_id=True).unknown
        assert each.correct({old: 1}).dropped


# What waits for the end of a consolidation ---------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [False, True])
def test_edits_wait_for_the_end_of_a_consolidation_and_are_saved(saved: bool, tmp_path: Path) -> None:
    learner, plain = fed(), fed()
    stays, other, goes = list(held(learner))[:3]
    gone, taken_back = evicted(learner)
    going = learner.consolidation(3)
    next(going)
    before = held(learner)
    named = [stays, other, gone, taken_back, 5000]
    found = learner.correct(dict.fromkeys(named, 1), images=IMAGES[[stays, other, gone, taken_back, 0]])
    assert found == ([], [], [5000], named[:4])
    assert learner.correct({taken_back: None, other: None}).queued == [taken_back, other]
    assert learner.forget([goes, taken_back, 5000]) == 2
    assert learner.correct({goes: 1}, images=IMAGES[[goes]]).dropped == [goes]
    assert held(learner) == before
    assert learner.status()["pending"] == 5
    if saved:
        loaded = reloaded(learner, tmp_path)
        list(going)
        list(loaded.consolidation())
        assert differing(tensors_of(learner), tensors_of(loaded)) == []
        learner = loaded
    else:
        list(going)
    plain.consolidate(3)
    plain.forget([goes])
    plain.correct({stays: 1, other: None})
    plain.correct({gone: 1}, images=IMAGES[[gone]])
    assert learner.status()["pending"] == 0
    assert held(learner) == held(plain)
    assert held(learner)[stays] == held(learner)[gone] == 1
    assert goes not in held(learner)
    assert goes not in learner.held_ids()


def test_what_waits_is_applied_if_a_loaded_learner_observes_instead(tmp_path: Path) -> None:
    learner = fed()
    going = learner.consolidation(3)
    next(going)
    goes = next(iter(held(learner)))
    learner.forget([IDS[goes]], by_id=True)
    loaded = reloaded(learner, tmp_path)
    assert goes in held(loaded)
    loaded.resize(30)  # a larger memory disturbs nobody
    assert goes in held(loaded)
    loaded.observe(IMAGES[48:56], LABELS[48:56])
    assert goes not in held(loaded)
    assert loaded.status()["pending"] == 0


@pytest.mark.parametrize("odd", [{"arrival": 500}, {"label": 3}, {"arrival": "x"}, {"forget": None}])
def test_a_damaged_queue_is_told(odd: dict[str, Any], tmp_path: Path) -> None:
    learner = fed()
    next(iter(learner.consolidation(2)))
    settings, tensors = storage.load(learner.save(tmp_path))
    row = {"arrival": 1, "label": 1, "forget": False}
    storage.save(tmp_path, {**settings, "pending": [row | odd]}, tensors)
    with pytest.raises(DataError, match="pending"):
        Learner.load(tmp_path, device="cpu")
    storage.save(tmp_path, {**settings, "pending": [row]}, {**tensors, "pending.1": torch.zeros(1, 8, 8)})
    with pytest.raises(DataError, match="pending images should be"):
        Learner.load(tmp_path, device="cpu")


# Forgetting, classes and sizes, with every method --------------------------------------------------------------------

PAIRS = [(sampler, "plain") for sampler in SAMPLERS] + [("rsv", trainer) for trainer in TRAINERS if trainer != "plain"]


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_every_method_forgets_loses_a_class_and_goes_on_after_a_load(
    sampler: str, trainer: str, tmp_path: Path
) -> None:
    learner = fed(40, sampler=sampler, trainer=trainer, memory=16, grow=True)
    learner.consolidate(1)
    feed(learner, IMAGES[40:48], LABELS[40:48])
    taken = list(held(learner))[:3]
    assert learner.forget([*taken, 5000]) == 3
    assert not set(taken) & set(held(learner))
    learner.resize(8)
    assert 0 < len(held(learner)) <= 8
    learner.remove_class(1)
    assert learner.classes == [0, 2]
    kept = {arrival: learner.classes[number] for arrival, number in held(learner).items()}
    assert kept == {arrival: int(LABELS[arrival]) for arrival in kept}
    assert learner.predict_proba(IMAGES[:4]).shape == (4, 2)
    loaded = reloaded(learner, tmp_path)
    for each in (learner, loaded):
        each.observe(IMAGES[48:64], LABELS[48:64])  # the class is a new one now
        each.resize(24)
        each.consolidate(1)
    assert learner.classes == [0, 2, 1]
    assert differing(tensors_of(learner), tensors_of(loaded)) == []


def test_after_a_class_is_removed_the_others_are_predicted_as_before() -> None:
    learner = fed(memory=16, online_prediction="weighed")
    learner.consolidate(8)
    feed(learner, IMAGES[48:56], LABELS[48:56])
    before, snapshot = learner.predict_proba(IMAGES, as_it_is=True), learner.snapshot()
    answered = learner.predict_proba(IMAGES)
    learner.remove_class(1)
    expected = before[:, [0, 2]] / before[:, [0, 2]].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(learner.predict_proba(IMAGES, as_it_is=True), expected, atol=1e-5)
    assert learner.predict_proba(IMAGES).shape == (96, 2)
    np.testing.assert_allclose(snapshot.predict_proba(IMAGES), answered, atol=1e-6)
    for label in (1, "cat"):
        with pytest.raises(ValueError, match=r"one of the classes 0, 2, and not the last one"):
            learner.remove_class(label)
    learner.remove_class(0)
    with pytest.raises(ValueError, match="not the last one"):
        learner.remove_class(2)


def test_a_correction_away_from_a_removed_class_stays() -> None:
    learner = fed()
    arrival = next(arrival for arrival, label in held(learner).items() if label == 0)
    learner.correct({arrival: 2})
    learner.remove_class(0)
    learner.correct({arrival: None})
    assert learner.classes[held(learner)[arrival]] == 2


@pytest.mark.parametrize("sampler", ["rsv", "crsv", "gbs"])
def test_a_smaller_memory_keeps_to_the_rule_of_its_sampler(sampler: str) -> None:
    """Over many trials the reservoirs keep old and new alike, and the balanced ones the same of each class."""
    learner = feed(tiny_learner(sampler=sampler, memory=24), IMAGES[:24], LABELS[:24])
    chosen, samples = np.zeros(24), learner.memory.samples
    for _ in range(100):
        rows = learner.sampler.shrink(samples, 6, moment(learner))
        chosen[rows] += 1
        if sampler != "rsv":
            assert sorted(samples.labels[rows].tolist()) == [0, 0, 1, 1, 2, 2]
    if sampler != "gbs":  # which keeps what came first
        assert chosen[:12].sum() == pytest.approx(300, abs=40)


def test_a_learner_without_samples_is_resized_too() -> None:
    for learner in (tiny_learner(None), tiny_learner(sampler="spr")):
        learner.resize(20)
        feed(learner, IMAGES[:40], LABELS[:40])
        assert len(learner.memory.held()) <= 20
        with pytest.raises(ValueError, match="memory should be a whole number, at least 1 sample"):
            learner.resize(0)


@pytest.mark.gpu
@pytest.mark.parametrize("graphs", [False, True])
def test_captured_steps_go_on_after_every_kind_of_change(graphs: bool) -> None:
    learner = Learner(
        3, SHAPE, 16, sampler="puridiver", trainer="puridiver", device="cuda", precision="float32", graphs=graphs,
        batch_size=8, epochs=9, warmup_epochs=0, smallest_set=0, grow=True,
    )  # fmt: skip
    changes = [
        lambda: learner.correct({0: 2, 1: 1, 2: 0}, images=IMAGES[:3]), lambda: learner.forget(list(held(learner))[:2]),
        lambda: learner.resize(10), lambda: learner.remove_class(1), lambda: learner.resize(20),
    ]  # fmt: skip
    for change in changes:
        for _ in range(2):
            feed(learner, IMAGES, LABELS)
            learner.consolidate()
            feed(learner, IMAGES[:16], LABELS[:16])
        change()
        snapshot = learner.snapshot()
        np.testing.assert_allclose(snapshot.predict_proba(IMAGES), learner.predict_proba(IMAGES), atol=1e-3)
        assert len(learner.memory) <= learner.capacity
    assert learner.classes == [0, 2, 1]  # it came again
