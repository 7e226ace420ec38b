"""Training by a loss of one's own: as `plain` in everything but the loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import puridiver
from puridiver import plugins
from puridiver.cli import main
from puridiver.equations import soft_cross_entropy
from puridiver.method_check import find_faults, ignored_options
from puridiver.trainers import TRAINERS, Trainer
from tests.learner_samples import as_samples, differing, patterns, tensors_of, tiny_learner, tiny_trainer
from tests.trainers.test_training import train_logits

pytestmark = pytest.mark.usefixtures("forgotten_plugins")

IMAGES, LABELS = patterns(40)
# All that plain training may do: mixed images, a rest of 12 = 8 + 4 rows, several online steps with replay.
EVERYTHING = {
    "cutmix": 0.7, "online_cutmix": 0.6, "last_batch": "trained", "online_steps": 2, "replay": "always", "epochs": 3,
}  # fmt: skip


class CrossEntropyAgain(puridiver.LossTrainer):
    """What `plain` does, by way of the hook."""

    name = "cross-entropy-again"

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return soft_cross_entropy(logits, targets)


class Squares(puridiver.LossTrainer):
    """The Brier score."""

    name = "squares"

    def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits.softmax(dim=1) - targets).square().sum(dim=1)


class ByHand(Trainer):
    """Plain epochs with steps of its own."""

    name = "by-hand"

    def memory_epoch(self, memory, epoch):
        for rows, images, targets in self.memory_batches(memory):
            assert len(rows) == len(images) == len(targets)
            self.step(0, soft_cross_entropy(self.trainees[0].logits(images), targets).mean())


class RowsAlone(Trainer):
    """What the documents used to show: neither CutMix nor the last batch."""

    name = "rows-alone"

    def memory_epoch(self, memory, epoch):
        views = self.next_memory_view(memory)
        for rows in self.batch_rows(len(memory)):
            self.step(0, F.cross_entropy(self.trainees[0].logits(self.to_float(views[rows])), memory.labels[rows]))


def learnt(trainer: object, consolidated: bool = True, **options: object) -> dict[str, Tensor]:
    learner = tiny_learner(sampler="puridiver", trainer=trainer, **{**EVERYTHING, **options})
    for start in range(0, 40, 8):
        learner.observe(IMAGES[start : start + 8], LABELS[start : start + 8])
        if start == 16 and consolidated:
            learner.consolidate()
    return tensors_of(learner)


@pytest.mark.parametrize("trainer", [CrossEntropyAgain, ByHand])
@pytest.mark.parametrize("recipe", ["official", "paper", "puridiver"])
def test_by_cross_entropy_it_is_plain_training_to_the_bit(trainer, recipe) -> None:
    assert differing(learnt("plain", recipe=recipe), learnt(trainer, recipe=recipe)) == []


def test_another_loss_changes_memory_epochs_and_by_choice_the_online_step() -> None:
    plain, weights = learnt("plain", consolidated=False), "trainer.network0.head.linear.weight"
    assert weights in differing(plain, learnt(Squares, consolidated=False))
    assert differing(plain, learnt(Squares, consolidated=False, **{"squares.online": False})) == []
    assert weights in differing(learnt("plain"), learnt(Squares, **{"squares.online": False}))


def test_an_online_step_goes_down_the_gradient_of_the_own_loss() -> None:
    plugins.as_name(Squares)
    trainer = tiny_trainer("squares", momentum=0.0, weight_decay=0.0, online_lr=0.5)
    batch = as_samples(IMAGES[:8], LABELS[:8])
    bias = trainer.networks[0].head.linear.bias
    before = bias.detach().clone()
    p = train_logits(trainer, batch.images).softmax(dim=1).detach().requires_grad_()
    logits = p.log().detach().requires_grad_()
    (logits.softmax(dim=1) - F.one_hot(batch.labels, 3)).square().sum(dim=1).mean().backward()
    loss = trainer.observe(batch.images, batch.labels)
    torch.testing.assert_close(bias.detach(), before - 0.5 * logits.grad.sum(dim=0), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(loss, F.cross_entropy(p.detach().log(), batch.labels))  # Eq. 3 stays cross-entropy's


def test_it_goes_by_cutmix_and_the_last_batch_as_plain_does() -> None:
    plugins.as_name(Squares)
    assert ignored_options("squares") == ignored_options("plain") == []


def test_who_takes_rows_alone_is_told_what_it_ignores(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.as_name(RowsAlone)
    assert find_faults("trainer", "rows-alone") == []
    assert ignored_options("rows-alone") == ["cutmix", "last_batch"]
    monkeypatch.setattr(RowsAlone, "ignores", ("cutmix", "last_batch"))
    assert ignored_options("rows-alone") == []


def test_spr_ignores_what_it_says() -> None:
    ignored = TRAINERS["spr"].ignores
    assert ignored == ("cutmix", "last_batch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TRAINERS["spr"], "ignores", ())
        assert tuple(ignored_options("spr")) == ignored


IGNORING = """
import puridiver, torch

@puridiver.register
class Nothing(puridiver.Trainer):
    '''Learns nothing from its memory.'''
    name = "nothing"
    {ignores}
    def memory_epoch(self, memory, epoch):
        pass
"""


@pytest.mark.parametrize("said", [True, False])
def test_a_run_notes_what_a_plugin_says_it_ignores(tmp_path: Path, capsys, said: bool) -> None:
    path = tmp_path / "ignoring.py"
    path.write_text(IGNORING.format(ignores='ignores = ("cutmix",)' if said else ""))
    quick = ["--stream-limit", "20", "--test-limit", "50", "--epochs", "1"]
    assert main(["run", "--plugin", str(path), "--trainer", "nothing", "--set", "cutmix=1", *quick]) == 0
    captured = capsys.readouterr()
    told = "nothing does not go by cutmix: it changes nothing here"
    assert (told in " ".join((captured.out + captured.err).split())) == said


def test_check_notes_what_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ignoring.py"
    path.write_text(IGNORING.format(ignores=""))
    assert main(["methods", "--plugin", str(path), "--check"]) == 0
    assert "trainer nothing: note: cutmix and last_batch change nothing with it" in capsys.readouterr().out


def test_a_loss_that_is_not_one_of_each_sample_is_an_error() -> None:
    class Mean(puridiver.LossTrainer):
        """Forgets that it is asked for each."""

        name = "mean"

        def sample_losses(self, logits: Tensor, targets: Tensor) -> Tensor:
            return soft_cross_entropy(logits, targets).mean()

    learner = tiny_learner(sampler="rsv", trainer=Mean)
    with pytest.raises(ValueError, match=r"the loss of each sample, of shape \(8,\), but returned \(\)"):
        learner.observe(IMAGES[:8], LABELS[:8])


def test_a_loss_trainer_without_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="trainer 'empty' should have sample_losses"):
        puridiver.register(type("Empty", (puridiver.LossTrainer,), {"name": "empty"}))
