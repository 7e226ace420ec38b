"""What a run keeps of its memory for the report, against the learner's own audit and the true labels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from puridiver import Learner
from puridiver.metrics.memory_snapshot import UNKNOWN
from puridiver.metrics.trace import memory_snapshot, split_trace
from puridiver.runs import folder as runs
from puridiver.trainers import SET_NAMES
from tests.learner_samples import TINY, differing, patterns, tensors_of


def trained(trainer: str = "puridiver", **settings) -> Learner:
    learner = Learner(["a", "b", "c"], (8, 8, 1), 12, device="cpu", trainer=trainer, **{**TINY, **settings})
    images, labels = patterns(48)
    learner.observe(images, [learner.classes[i] for i in labels])
    learner.consolidate()
    return learner


@pytest.fixture(params=["puridiver", "plain", "dividemix"])
def learner(request: pytest.FixtureRequest) -> Learner:
    return trained(request.param)


def truth(learner: Learner) -> torch.Tensor:
    """True labels of which every third differs from the given one."""
    given = learner.memory.samples.labels
    return torch.where(torch.arange(len(given)) % 3 == 0, (given + 1) % 3, given)


def test_losses_and_uncertainties_are_those_of_the_network_now(learner):
    samples, true = learner.memory.samples, truth(learner)
    logits = learner.trainer.outputs(samples.images).logits
    trace = split_trace(learner, true)
    expected = F.cross_entropy(logits, samples.labels, reduction="none")
    np.testing.assert_allclose(trace["losses"], expected.numpy(), atol=1e-4)
    highest = logits.softmax(dim=1).max(dim=1).values
    np.testing.assert_allclose(trace["uncertainties"], 1 - highest.numpy(), atol=1e-4)
    assert trace["right"] == (samples.labels == true).int().tolist()
    assert trace["guess_right"] == (logits.argmax(dim=1) == true).int().tolist()


def test_the_sets_are_those_of_the_audit_with_every_trainer(learner):
    trace = split_trace(learner, truth(learner))
    sets = {row.arrival: row.set for row in learner.audit()}
    assert [SET_NAMES[code] for code in trace["sets"]] == [sets[a] for a in learner.memory.samples.arrivals.tolist()]
    for name in ("loss_mixture", "uncertainty_mixture"):
        assert set(trace[name]) == {"weights", "means", "variances", "offset", "span"}
        assert sum(trace[name]["weights"]) == pytest.approx(1)


def test_a_trace_is_strict_json_also_where_the_network_has_failed():
    learner = trained("plain")
    with torch.no_grad():
        next(learner.trainer.networks[0].parameters()).fill_(float("nan"))
    trace = json.loads(runs.to_json(split_trace(learner, truth(learner))))
    assert trace["losses"] == [None] * 12


def test_a_label_that_nobody_knows_is_neither_right_nor_wrong():
    learner = trained("plain")
    true = truth(learner)
    true[:2] = UNKNOWN
    trace = split_trace(learner, true)
    assert trace["right"][:2] == trace["guess_right"][:2] == [None, None]
    assert None not in trace["right"][2:]


def test_the_snapshot_is_the_memory_with_its_audit(learner):
    samples, true = learner.memory.samples, truth(learner)
    snapshot = memory_snapshot(learner, true)
    np.testing.assert_array_equal(snapshot.images, samples.images.permute(0, 2, 3, 1).numpy())
    np.testing.assert_array_equal(snapshot.given, samples.labels.numpy())
    np.testing.assert_array_equal(snapshot.true, true.numpy())
    for row in learner.audit():
        (i,) = np.flatnonzero(snapshot.arrivals == row.arrival)
        assert learner.classes[snapshot.given[i]] == row.given_label
        assert learner.classes[snapshot.suggested[i]] == row.suggested_label
        assert snapshot.p_correct[i] == pytest.approx(row.p_correct)
        assert SET_NAMES[snapshot.sets[i]] == row.set


def test_large_images_are_kept_as_thumbnails():
    learner = Learner(3, (100, 80, 3), 4, device="cpu", trainer="plain", network="small", **{**TINY, "epochs": 1})
    images = np.full((4, 100, 80, 3), 200, dtype=np.uint8)
    images[:, :50] = 40
    learner.observe(images, [0, 1, 2, 0])
    kept = memory_snapshot(learner, torch.zeros(4, dtype=torch.int64)).images
    assert kept.shape == (4, 64, 51, 3)
    assert (kept[:, 0].max(), kept[:, -1].min()) == (40, 200)


def test_looking_changes_no_bit_of_the_learner(learner):
    before = tensors_of(learner)
    split_trace(learner, truth(learner))
    memory_snapshot(learner, truth(learner))
    assert differing(before, tensors_of(learner)) == []
