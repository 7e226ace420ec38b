"""The trainer `verdict`: what memory samples teach, and steps that each replay other samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from puridiver.learner.learner import Learner
from puridiver.nets import Outputs
from puridiver.trainers import StreamBatch, Trainer
from tests.learner_samples import as_samples, feed, patterns, tiny_learner, tiny_trainer

IMAGES, LABELS = patterns(40)
NAN = float("nan")


def samples(labels: list[int], vectors: list[list[float]] | None, came_with: list[int]):
    kept = None if vectors is None else torch.tensor(vectors)
    found = as_samples(IMAGES[: len(labels)], np.array(labels))
    return replace(found, vectors=kept, came_with=torch.tensor(came_with))


def test_memory_samples_teach_their_targets_and_checked_ones_their_labels() -> None:
    trainer = tiny_trainer("verdict")
    kept = [[0.7, 0.2, 0.1], [0.1, 0.9, 0.0], [NAN, NAN, NAN], [0.5, 0.5, 0.0]]
    memory = samples([1, 0, 2, 0], kept, [-1, 1, -1, 0])  # a person has corrected the second, confirmed the fourth
    expected = torch.tensor([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    torch.testing.assert_close(trainer.memory_targets(memory), expected)


def test_samples_of_a_memory_without_vectors_teach_their_labels() -> None:
    found = tiny_trainer("verdict").memory_targets(samples([2, 0], None, [-1, -1]))
    assert found.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_targets_from_before_a_class_joined_or_left_are_probabilities_of_todays_classes() -> None:
    trainer = tiny_trainer("verdict")
    padded = samples([1, 2], [[0.4, 0.6, NAN], [0.3, 0.3, 0.4]], [-1, -1])  # beside targets of three classes
    torch.testing.assert_close(trainer.memory_targets(padded), torch.tensor([[0.4, 0.6, 0.0], [0.3, 0.3, 0.4]]))
    narrow = samples([1, 0], [[0.4, 0.6], [0.9, 0.1]], [-1, -1])
    torch.testing.assert_close(trainer.memory_targets(narrow), torch.tensor([[0.4, 0.6, 0.0], [0.9, 0.1, 0.0]]))
    without_one = samples([1, 0], [[0.2, 0.6, 0.0], [0.0, 0.0, 0.0]], [-1, -1])  # what is left of a removed class
    torch.testing.assert_close(trainer.memory_targets(without_one), torch.tensor([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]))


def watched(trainer, monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Images and targets of every online step from now on."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    step = trainer._online_step
    monkeypatch.setattr(
        trainer, "_run_online", lambda x, targets, *rest: seen.append((x, targets)) or step(x, targets, *rest)
    )
    return seen


@pytest.mark.parametrize(("n_replayed", "sizes"), [(9, [3, 3, 3]), (7, [3, 3, 1]), (4, [2, 2, 0]), (1, [1, 0, 0])])
def test_each_step_sees_the_batch_and_other_memory_samples(n_replayed, sizes, monkeypatch) -> None:
    trainer = tiny_trainer("verdict", replays=3, replay_size=4)
    stream, replay = as_samples(IMAGES[:4], LABELS[:4]), as_samples(IMAGES[4 : 4 + n_replayed], LABELS[4:][:n_replayed])
    replay = replace(replay, vectors=torch.rand(n_replayed, 3).softmax(dim=1))
    soft, seen = torch.rand(4, 3).softmax(dim=1), watched(trainer, monkeypatch)
    trainer.observe(StreamBatch(stream.images, stream.labels, replay, targets=soft))
    assert [len(images) - 4 for images, _ in seen] == sizes
    for images, targets in seen:
        assert torch.equal(images[:4], stream.images)
        assert torch.equal(targets[:4], soft)
    assert torch.equal(torch.cat([images[4:] for images, _ in seen]), replay.images)
    torch.testing.assert_close(torch.cat([targets[4:] for _, targets in seen]), replay.vectors)
    assert torch.equal(trainer.vectors, soft)


@pytest.mark.parametrize(
    ("n", "sizes"),
    [(1, [3]), (2, [3]), (3, [3, 3]), (4, [4, 4]), (5, [5, 5, 5]), (6, [6, 6, 6]), (40, [6, 6, 6])],
)
def test_a_small_batch_takes_its_share_of_steps_and_replay(n: int, sizes: list[int], monkeypatch) -> None:
    trainer = tiny_trainer("verdict", replays=3, replay_size=6)
    wanted = trainer.replay_size(n)
    stream, replay = as_samples(IMAGES[:n], LABELS[:n]), as_samples(IMAGES[:wanted], LABELS[:wanted])
    seen = watched(trainer, monkeypatch)
    trainer.observe(StreamBatch(stream.images, stream.labels, replay))
    assert [len(images) - n for images, _ in seen] == sizes
    assert torch.equal(torch.cat([images[n:] for images, _ in seen]), replay.images)


def test_without_a_memory_it_takes_as_many_steps_on_the_batch_alone(monkeypatch) -> None:
    trainer = tiny_trainer("verdict", replays=2, replay_size=5)
    assert trainer.replay_size(4) == 8
    stream, seen = as_samples(IMAGES[:4], LABELS[:4]), watched(trainer, monkeypatch)
    loss = trainer.observe(StreamBatch(stream.images, stream.labels))
    assert [len(images) for images, _ in seen] == [4, 4]
    trainer.observe(StreamBatch(stream.images, stream.labels))
    assert float(loss) > 0
    assert trainer.vectors.tolist() == trainer.one_hot(stream.labels).tolist()


def test_memory_training_goes_by_the_same_targets(monkeypatch) -> None:
    trainer = tiny_trainer("verdict")
    memory = samples([0] * 16, [[0.2, 0.3, 0.5]] * 16, [-1] * 15 + [0])
    put = {}
    monkeypatch.setattr(trainer.buffers, "put", lambda name, value: put.update({name: value}))
    monkeypatch.setattr(trainer, "run_plan", lambda *anything: None)
    trainer.memory_epoch(memory, 0)
    torch.testing.assert_close(put["targets"], trainer.memory_targets(memory))


def test_the_memory_keeps_what_each_verdict_taught(tmp_path) -> None:
    """Through evictions, a class that joins, a removed class and a save."""
    names, told = np.array(["cat", "dog", "owl"]), {}
    learner = tiny_learner(["cat", "dog"], sampler="sieve", trainer="verdict", memory=24, grow=True)
    observe = learner.trainer.observe

    def listening(batch: StreamBatch) -> torch.Tensor:
        loss = observe(batch)
        told.update(zip(range(learner.seen, learner.seen + len(batch.images)), batch.targets, strict=True))
        return loss

    learner.trainer.observe = listening
    feed(learner, IMAGES[:16], names[LABELS[:16] % 2])
    feed(learner, IMAGES[16:], names[LABELS[16:]])
    del learner.trainer.observe
    held = learner.memory.samples
    assert held.vectors.shape == (24, 3)
    assert held.vectors[:, 2].isnan().any()  # of those that came before the third class
    assert min(held.arrivals.tolist()) < 16 < len(told) == 40
    for arrival, vector in zip(held.arrivals.tolist(), held.vectors.nan_to_num(), strict=True):
        assert torch.equal(vector[: len(told[arrival])], told[arrival])
    again = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
    for each in (learner, again):
        targets, stays = each.trainer.memory_targets(held), held.labels != 1
        each.remove_class("dog")
        left = targets[stays][:, [0, 2]]
        found = each.trainer.memory_targets(each.memory.samples)
        torch.testing.assert_close(found, left / left.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("swaps_sides", [False, True])
def test_memory_training_mirrors_where_arrivals_show_that_sides_do_not_matter(swaps_sides: bool, tmp_path) -> None:
    images, labels = patterns(400)  # bright rows; turned, bright columns: a mirror image looks like another class
    images = np.swapaxes(images, 1, 2) if swaps_sides else images
    noisy = np.where(np.arange(400) % 4, labels, (labels + 1) % 3)
    learner = tiny_learner(
        [0, 1, 2], sampler="sieve", trainer="verdict", online_lr=0.05, crop_padding=0, memory_flip="auto"
    )
    assert not learner.trainer.mirrors  # nothing has arrived
    feed(learner, images, noisy)
    trainer = Learner.load(learner.save(tmp_path / "saved"), device="cpu").trainer
    assert trainer.mirrors == learner.trainer.mirrors == (not swaps_sides)
    plain = as_samples(images, labels).images
    is_changed = (trainer.memory_view(plain) != plain).flatten(1).any(dim=1)
    assert is_changed.float().mean() == pytest.approx(0.0 if swaps_sides else 0.5, abs=0.1)


@pytest.mark.parametrize(("n_same", "n_mirrored", "mirrors"), [(200, 190, True), (200, 160, False), (60, 60, False)])
def test_mirrors_need_evidence_from_before_each_batch_is_learnt(n_same, n_mirrored, mirrors, monkeypatch) -> None:
    """The network names so many of 1,000 arrivals, and of their mirror images, in the end."""
    trainer = tiny_trainer("verdict", flip=False, memory_flip="auto")
    told, learnt = [n_same, n_mirrored], []

    def outputs(images: torch.Tensor) -> Outputs:
        assert len(learnt) == 0  # in this batch
        logits = torch.zeros(2, len(images) // 2, 3)
        for which in (0, 1):
            logits[which, : told[which] // 10, 0] = 1.0
            logits[which, told[which] // 10 :, 1] = 1.0
        return Outputs(torch.empty(0), logits.flatten(0, 1))

    monkeypatch.setattr(trainer.models[0], "outputs", outputs)
    monkeypatch.setattr(Trainer, "observe", lambda self, batch: learnt.append(1) or torch.zeros(()))
    images = torch.zeros(100, 1, 8, 8, dtype=torch.uint8)
    for _ in range(60):  # 6,000 arrivals, of which about a thousand count
        learnt.clear()
        trainer.observe(StreamBatch(images, torch.zeros(100, dtype=torch.int64)))
    assert trainer.buffers["named_labels"].tolist() == pytest.approx(told, rel=0.06)
    assert trainer.mirrors == mirrors


def test_memory_training_follows_flip_and_strong_where_a_user_sets_them() -> None:
    settings = {"sampler": "sieve", "trainer": "verdict", "network": "convnet", "memory": 10, "device": "cpu"}
    images = torch.randint(256, (40, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def views(**options: Any) -> tuple[Any, torch.Tensor]:
        trainer = Learner(classes=2, input_shape=(28, 28, 1), crop_padding=0, **settings, **options).trainer
        return trainer, trainer.memory_view(images)

    default, seen = views()
    assert (default.options.memory_policy, default.options.memory_flip) == ("autoaugment", "auto")
    assert not torch.equal(seen, images)
    trainer, seen = views(strong="none", flip=False)
    assert (trainer.options.memory_policy, trainer.options.memory_flip) == ("strong", "flip")
    assert torch.equal(seen, images)
    assert views(flip=False, memory_flip="auto")[0].options.memory_flip == "auto"
    with pytest.raises(ValueError, match="memory_policy is an option for images"):
        Learner(classes=2, input_shape=(8,), **{**settings, "network": "mlp"}, memory_policy="none")


def test_flip_asks_for_mirror_images_and_memory_flip_for_no_comparison() -> None:
    stream = as_samples(IMAGES, LABELS)
    for options, mirrors in (({"flip": True}, True), ({"flip": False, "memory_flip": "flip"}, False)):
        trainer = tiny_trainer("verdict", **options)
        trainer.observe(StreamBatch(stream.images, stream.labels))
        assert trainer.buffers["named_labels"].tolist() == [0, 0]
        assert trainer.mirrors == mirrors


def informed(**settings: Any) -> tuple[Learner, np.ndarray, np.ndarray]:
    """A learner that knows its classes, and images to ask it about with their labels."""
    settings = {"epochs": 3, "online_lr": 0.05, "online_average": 0.9, "crop_padding": 0, **settings}
    learner = tiny_learner(3, 60, sampler="sieve", trainer="verdict", **settings)
    return feed(learner, *patterns(300)), *patterns(60, seed=1)


def test_memory_training_that_does_harm_is_undone(tmp_path) -> None:
    learner, images, labels = informed(lr=30.0, online_prediction="network")
    before = learner.predict_proba(images)
    assert (before.argmax(axis=1) == labels).mean() > 0.9
    training = learner.consolidation()
    next(training)
    assert (learner.predict_proba(images).argmax(axis=1) == labels).mean() < 0.6  # what there is to undo
    saved = learner.save(tmp_path / "saved")
    for each in (learner, Learner.load(saved, device="cpu")):
        list(training if each is learner else each.consolidation())
        np.testing.assert_array_equal(each.predict_proba(images), before)
        feed(each, *patterns(32, seed=2))  # and it learns on
        assert (each.predict(images) == labels).mean() > 0.9


@pytest.mark.parametrize("is_loaded", [False, True])
def test_harm_is_undone_if_memory_training_stops_early(is_loaded: bool, tmp_path) -> None:
    learner, images, labels = informed(lr=30.0, online_prediction="network")
    before = learner.predict_proba(images)
    training = learner.consolidation()
    next(training)
    if is_loaded:  # and observing ends what it was saved in
        learner = Learner.load(learner.save(tmp_path / "saved"), device="cpu")
        feed(learner, *patterns(1, seed=2))
    else:
        training.close()
        np.testing.assert_array_equal(learner.predict_proba(images), before)
    assert (learner.predict(images) == labels).mean() > 0.9


def test_memory_training_that_does_no_harm_is_kept() -> None:
    learner, images, labels = informed()
    before = learner.predict_proba(images)
    learner.consolidate()
    assert not np.array_equal(learner.predict_proba(images), before)
    assert (learner.predict(images) == labels).mean() > 0.9


@pytest.mark.parametrize(
    ("lost", "won", "undone"), [(4, 0, False), (5, 0, True), (8, 2, False), (9, 2, True), (0, 9, False)]
)
def test_it_is_undone_if_it_loses_more_than_chance_explains(lost: int, won: int, undone: bool, monkeypatch) -> None:
    trainer, memory = tiny_trainer("verdict", online_average=0.9), samples([0] * 40, None, [-1] * 40)
    before, after = torch.zeros(2, 40, 3)
    before[:, 1], after[:, 1] = 1.0, 1.0  # wrong
    before[20:, 0], after[20:, 0] = 2.0, 2.0  # right all the time
    before[:lost, 0], after[lost : lost + won, 0] = 2.0, 2.0
    model = trainer.models[0]
    monkeypatch.setattr(model, "outputs", lambda _: Outputs(torch.empty(0), before if model.through_average else after))
    model.leave_average()
    for value in model.average.values():
        value.fill_(7.0)
    trainer._keep_the_better(memory)
    assert not model.through_average
    assert all((value == 7.0).all() == undone for value in trainer.networks[0].parameters())
