"""GCE, SCE, ELR and the entropy term against loops from their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from puridiver.equations import negative_entropy
from puridiver.trainers.elr import AVERAGES
from puridiver.trainers.gce import generalised_cross_entropy
from tests import reference
from tests.learner_samples import as_samples, patterns, tiny_trainer
from tests.trainers.samples import consolidate

IMAGES, LABELS = patterns(29)
MEMORY = as_samples(IMAGES, LABELS)


def batch(seed: int, n: int = 12, n_classes: int = 5) -> tuple[Tensor, Tensor]:
    """Logits and targets: half of them one-hot, half of two classes."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randint(n_classes, (n,), generator=generator) for _ in range(2))
    share = torch.rand(n, 1, generator=generator).where(torch.arange(n)[:, None] % 2 == 0, torch.ones(n, 1))
    one, other = (torch.nn.functional.one_hot(labels, n_classes).float() for labels in (first, second))
    return 4 * torch.randn(n, n_classes, generator=generator), share * one + (1 - share) * other


@pytest.mark.parametrize("q", [0.01, 0.7, 1.0])
def test_gce_is_the_formula(q: float) -> None:
    logits, targets = batch(1)
    found = tiny_trainer("gce", n_classes=5, **{"gce_q": q}).sample_losses(logits, targets)
    expected = [
        reference.generalised_cross_entropy(*pair, q) for pair in zip(logits.tolist(), targets.tolist(), strict=True)
    ]
    assert found.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_gce_has_a_finite_gradient_where_a_label_seems_impossible() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    generalised_cross_entropy(logits, torch.tensor([[0.0, 1.0]]), 0.7).sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(("alpha", "beta", "log_zero"), [(0.1, 1.0, -4.0), (6.0, 0.1, -6.0), (1.0, 0.0, -4.0)])
def test_sce_is_the_formula(alpha: float, beta: float, log_zero: float) -> None:
    logits, targets = batch(3)
    options = {"sce_alpha": alpha, "sce_beta": beta, "sce_log_zero": log_zero}
    found = tiny_trainer("sce", n_classes=5, **options).sample_losses(logits, targets)
    rows = zip(logits.tolist(), targets.tolist(), strict=True)
    expected = [reference.symmetric_cross_entropy(*row, alpha, beta, log_zero) for row in rows]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("cutmix", [0.0, 0.5])
def test_elr_is_the_formula_over_epochs(cutmix: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only predictions on whole images move the averages; CutMix mixes averages as it mixes labels."""
    trainer = tiny_trainer("elr", cutmix=cutmix, last_batch="trained", **{"elr_weight": 2.0, "elr_decay": 0.6})
    rows: list[Tensor] = []
    logits: list[Tensor] = []
    losses: list[float] = []
    (model,) = trainer.models
    step, look, learn = trainer._regularised_step, model.logits, model.step

    def looked(x: Tensor) -> Tensor:
        found = look(x)
        logits.append(found.detach())
        return found

    def watched(row: Tensor, n: int) -> None:
        rows.append(row)
        step(row, n)

    monkeypatch.setattr(trainer, "_regularised_step", watched)
    monkeypatch.setattr(model, "logits", looked)
    monkeypatch.setattr(model, "step", lambda loss: (losses.append(float(loss.detach())), learn(loss)))
    consolidate(trainer, MEMORY, 3)
    averages = np.zeros((29, 3))
    expected = [elr_loss(averages, row, seen.tolist()) for row, seen in zip(rows, logits, strict=True)]
    assert len(expected) == 3 * 4  # 29 = 3 * 8 + 5
    assert losses == pytest.approx(expected, rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(trainer.buffers[AVERAGES].numpy(), averages, atol=1e-5)


def elr_loss(averages: np.ndarray, row: Tensor, logits: list[list[float]]) -> float:
    """The mean loss of a batch by its row of the plan; moves the averages."""
    n = len(logits)
    rows, partners, (y0, y1, x0, x1) = row[:n].tolist(), row[n : 2 * n].tolist(), row[2 * n :].tolist()
    boxed = (y1 - y0) * (x1 - x0) / 64
    if boxed == 0:
        for i, k in enumerate(rows):
            averages[k] = reference.early_learning_average(averages[k], logits[i], 0.6)
    total = 0.0
    for i, k in enumerate(rows):
        own, other = (np.array(reference.one_hot(int(LABELS[j]), 3)) for j in (k, rows[partners[i]]))
        average = (1 - boxed) * averages[k] + boxed * averages[rows[partners[i]]]
        total += reference.early_learning_loss(logits[i], (1 - boxed) * own + boxed * other, average, 2.0)
    return total / n


def test_negative_entropy_is_the_loop_and_bounded() -> None:
    logits, _ = batch(0)
    rows = [reference.softmax(row) for row in logits.tolist()]
    expected = sum(sum(p * math.log(p) for p in row) for row in rows) / len(rows)
    assert float(negative_entropy(logits)) == pytest.approx(expected, rel=1e-4)
    assert float(negative_entropy(torch.zeros(3, 4))) == pytest.approx(-math.log(4))
    assert float(negative_entropy(torch.tensor([[500.0, 0.0, -500.0]]))) == pytest.approx(0)
