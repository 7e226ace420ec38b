"""Learners of vectors: the same methods, audit, saves and runs as for images, with noise and Mixup as augmentation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import puridiver
from puridiver import Learner, RunConfig
from puridiver.augment import augmentation_for, noisy
from puridiver.cli import main
from puridiver.learner.method_check import find_fault
from puridiver.memory import SAMPLERS
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.options import Options
from puridiver.runs.experiment import Experiment
from puridiver.trainers import TRAINERS
from tests.learner_samples import feed

D, CENTRES = 12, np.random.default_rng(7).normal(size=(4, 12)) * 3


def vectors(n: int, n_classes: int = 3, wrong: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Float32 (n, D) on an odd scale, given labels and true labels, (n,)."""
    rng = np.random.default_rng(seed)
    true = rng.integers(n_classes, size=n)
    found = (CENTRES[true] + rng.normal(size=(n, D))) * np.geomspace(0.01, 100, D) + 5
    given = np.where(rng.random(n) < wrong, rng.integers(n_classes, size=n), true)
    return found.astype(np.float32), given, true


def write_npz(path, wrong: float = 0.2):
    """Train and test vectors in an .npz file."""
    (x, given, true), (test_x, test, _) = vectors(240, wrong=wrong), vectors(60, seed=1)
    arrays = {"train_images": x, "train_labels": given, "train_true_labels": true}
    np.savez(path, **arrays, test_images=test_x, test_labels=test)
    return path


def test_it_learns_in_spite_of_wrong_labels_and_audits_them() -> None:
    x, given, true = vectors(400, wrong=0.3)
    learner = feed(Learner(3, (D,), 60, epochs=7), x, given, size=16)
    learner.consolidate()
    test, _, answer = vectors(100, seed=1)
    assert (learner.predict(test) == answer).mean() > 0.95
    assert learner.network == "mlp"
    assert "vectors 12" in repr(learner)
    rows = learner.audit()
    assert np.mean([true[row.arrival] == row.suggested_label for row in rows]) > 0.9


@pytest.mark.parametrize("name", [*SAMPLERS, *TRAINERS])
def test_every_method_takes_vectors_and_a_save_on_the_way_changes_nothing(name: str) -> None:
    family, kinds = ("sampler", SAMPLERS) if name in SAMPLERS else ("trainer", TRAINERS)
    quick = {"spr_budget": 0.0005} if "spr_budget" in kinds[name].own_options else {}
    assert not find_fault(family, name, network="mlp", **quick)


def test_cnll_divides_a_memory_of_vectors_and_trains_on_both_parts() -> None:
    vectors = np.random.default_rng(0).normal(size=(96, 4)).astype(np.float32)
    learner = Learner(2, (4,), 64, sampler="cnll", trainer="cnll", device="cpu", epochs=2, batch_size=8)
    learner.observe(vectors, np.random.default_rng(1).integers(2, size=96))
    learner.consolidate()
    assert np.isfinite(learner.predict_proba(vectors)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, D + 1)), r"shape \(N, 12\), but got \(2, 13\)"),
        (np.zeros(D), r"a single vector is a batch of one"),
        (np.full((2, D), np.nan), "nan or infinity"),
        (np.full((2, D), 1e300), "nan or infinity"),
        (np.zeros((0, D)), "the batch is empty"),
        (np.full((2, D), "a"), "numbers, but got an array of <U1"),
        (torch.zeros(2, D, dtype=torch.complex64), "real numbers"),
        ([[1.0], [1.0, 2.0]], "all of one length"),
    ],
)
def test_vectors_that_cannot_be_used_are_refused(given, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Learner(2, (D,), 10).observe(given, [0, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input_shape": (0,)}, r"or \(d,\) of vectors, but got \(0,\)"),
        ({"input_shape": (D,), "flip": False}, "flip is an option for images, but the input is vectors"),
        ({"input_shape": (8, 8, 1), "vector_noise": 0.5}, "vector_noise is an option for vectors"),
        ({"input_shape": (D,), "network": "small"}, r"network 'small' takes images .* shape \(12,\)"),
        ({"input_shape": (8, 8, 1), "network": "mlp"}, r"network 'mlp' takes vectors"),
    ],
)
def test_settings_that_do_not_suit_the_input_are_refused(settings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Learner(2, **settings)


def test_noise_is_in_deviations_of_each_number_and_none_for_a_single_vector() -> None:
    x = torch.from_numpy(vectors(2000)[0])
    added = noisy(x, 0.5, torch.Generator().manual_seed(0)) - x
    torch.testing.assert_close(added.std(dim=0), 0.5 * x.std(dim=0), rtol=0.1, atol=0)
    assert torch.equal(noisy(x[:1], 0.5, torch.Generator()), x[:1])


def test_mixup_equals_a_loop_and_has_its_probability() -> None:
    mixing, n = augmentation_for((D,), Options()), 4
    x, targets = torch.from_numpy(vectors(n)[0]), torch.eye(n)
    plan = mixing.mixing_plan(4000, n, 0.3, torch.Generator().manual_seed(0))
    assert plan.shape == (4000, n + mixing.mixing_width)
    own_share = plan[:, -1].view(torch.float64)
    assert own_share.min() >= 0.5
    assert math.isclose((own_share < 1).double().mean(), 0.3, abs_tol=0.03)
    row = plan[own_share.argmin()]
    share = float(own_share.min())
    for i, partner in enumerate(row[:n].tolist()):
        torch.testing.assert_close(mixing.mix(x, row)[i], share * x[i] + (1 - share) * x[partner])
        torch.testing.assert_close(mixing.share(targets, row)[i], share * targets[i] + (1 - share) * targets[partner])
    assert (mixing.mixing_plan(50, 1, 1.0, torch.Generator())[:, -1].view(torch.float64) == 1).all()


def test_a_run_on_an_npz_of_vectors_keeps_a_memory_that_a_report_can_show(tmp_path) -> None:
    data = str(write_npz(tmp_path / "v.npz"))
    config = RunConfig(data=data, tasks=2, memory=30, epochs=3, diversity=True, data_root=str(tmp_path))
    summary = Experiment(config).run(tmp_path / "run", keep_learner=True)
    assert summary["network"] == "mlp"
    assert summary["last_accuracy"] > 0.9
    assert summary["memory_diversity"] > 0
    assert MemorySnapshot.read(tmp_path / "run" / "memory.safetensors").images.shape == (30, 4, 4, 1)


def test_noise_that_depends_on_the_instance_takes_vectors(tmp_path) -> None:
    data = str(write_npz(tmp_path / "v.npz", wrong=0.0))
    experiment = Experiment(RunConfig(data=data, tasks=2, noise="instance-30"))
    assert 0.2 < (experiment.manifest.realised_noise or 0) < 0.4


def test_the_commands_take_vectors(tmp_path, capsys) -> None:
    data, run = str(write_npz(tmp_path / "v.npz")), str(tmp_path / "run")
    quiet = ["--epochs", "2", "--memory", "20", "--quiet"]
    assert main(["run", "--data", data, "--tasks", "1", *quiet, "--out", run]) == 0
    assert main(["learn", run, data, "--out", str(tmp_path / "later"), "--epochs", "2", "--quiet"]) == 0
    assert main(["audit", data, "--passes", "1", *quiet, "--out", str(tmp_path / "audit")]) == 0
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "later"), data]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 61  # a heading, and the test vectors
    picture = tmp_path / "a.png"
    picture.write_bytes(b"")
    assert main(["predict", run, str(picture)]) != 0
    assert "takes vectors of an .npz file" in capsys.readouterr().err


def test_an_audit_finds_wrong_labels_of_vectors() -> None:
    x, given, true = vectors(150, wrong=0.15)
    report = puridiver.audit(x, given, passes=1, memory=50, epochs=7)
    worst = report.ranking()[: int((given != true).sum())]
    assert (given != true)[worst].mean() > 0.8


@pytest.mark.gpu
@pytest.mark.parametrize("trainer", TRAINERS)
def test_captured_steps_on_vectors_learn_what_plain_ones_learn(trainer: str) -> None:
    x, given, _ = vectors(64)
    quick = {"spr_budget": 0.0005} if "spr_budget" in TRAINERS[trainer].own_options else {}
    found = []
    for graphs in (True, False):
        learner = Learner(3, (D,), 20, trainer=trainer, device="cuda", graphs=graphs, epochs=3, **quick)
        feed(learner, x, given).consolidate()
        found.append(learner.predict_proba(x))
    np.testing.assert_allclose(*found, atol=1e-3)
