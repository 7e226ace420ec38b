"""DivideMix (Li et al., 2020): two networks divide the samples for each other and learn semi-supervised."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.equations import refurbish, soft_cross_entropy
from puridiver.memory import Samples
from puridiver.mixture import MixtureSettings, fit_mixture
from puridiver.options import Option
from puridiver.trainers.base import BASELINE_WARMUP, Trainer

MIXTURE = MixtureSettings(scale=True, max_iterations=10, tolerance=1e-2, covariance_floor=5e-4)
SMALLEST_SET = 2  # a labelled or unlabelled set this small cannot fill a batch: the epoch is plain


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """p^(1/T), normalised over classes."""
    powered = p.pow(1 / temperature)
    return powered / powered.sum(dim=1, keepdim=True)


def ramp(epoch: int, warmup: int, length: int, weight: float) -> float:
    """The unlabelled loss's weight: grows linearly after the warm-up."""
    return weight * min(max((epoch - warmup) / length, 0), 1)


def prior_penalty(p: Tensor) -> Tensor:
    """KL divergence of the mean prediction from the uniform prior: keeps all classes alive."""
    prior = 1 / p.shape[1]
    return (prior * (prior / p.mean(dim=0).clamp(min=1e-12)).log()).sum()


def mixmatch_plans(trainer: Trainer, labelled: Tensor, unlabelled: Tensor) -> Iterator[tuple[Tensor, int, int]]:
    """Plans of the steps of an epoch on these rows, and how many labelled and unlabelled rows a step takes."""
    o, generator = trainer.options, trainer.generator
    n_u = min(o.batch_size, len(unlabelled))
    for rows in trainer.batch_parts(len(labelled)):
        steps, n_x = rows.shape
        others = torch.rand(steps, len(unlabelled), generator=generator).argsort(dim=1)[:, :n_u]
        mixup = augment.draw_mixup_plan(steps, 2 * (n_x + n_u), o.mixup_alpha, generator)
        yield torch.cat([labelled[rows], unlabelled[others], mixup], dim=1), n_x, n_u


def mixmatch_loss(logits: Tensor, targets: Tensor, n_labelled: int, weight: Tensor) -> Tensor:
    """Cross-entropy of the labelled samples, which come first; the others' squared errors, weighed; the prior, ()."""
    l_x = soft_cross_entropy(logits[:n_labelled], targets[:n_labelled]).mean()
    l_u = (logits[n_labelled:].softmax(dim=1) - targets[n_labelled:]).square().mean()
    return l_x + weight * l_u + prior_penalty(logits.softmax(dim=1))


class DivideMix(Trainer):
    """Co-divide by loss mixture, co-refine labels, co-guess the rest, MixMatch."""

    name = "dividemix"
    title = "DivideMix"
    summary = "two networks split the memory for each other by loss; co-refinement, co-guessing, MixUp"
    n_networks = 2
    own_options = {
        "baseline_warmup": BASELINE_WARMUP,
        "sharpen": Option(0.5, "temperature of sharpening", low=1e-3),
        "mixup_alpha": Option(4.0, "MixUp's alpha", low=1e-3),
        "unlabelled_weight": Option(25.0, "final weight of the unlabelled loss", low=0),
        "ramp_epochs": Option(16, "epochs over which that weight grows", low=1),
    }

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        if epoch < self.options.baseline_warmup:
            told_asymmetric = self.context.hint is not None and self.context.hint.kind == "asym"
            for k in range(2):
                self.plain_epoch(memory, network=k, entropy_weight=float(told_asymmetric))
            return
        p_clean = [self._p_clean(memory, k) for k in range(2)]
        clean = self.runtime.read(torch.stack(p_clean) >= 0.5)  # at once: the host waits here, and not amid the epoch
        weight = ramp(epoch, self.options.baseline_warmup, self.options.ramp_epochs, self.options.unlabelled_weight)
        for k in range(2):
            self._semi_supervised_epoch(memory, k, p_clean[1 - k], clean[1 - k], weight)

    def memory_view(self, images: Tensor) -> Tensor:
        """Crops and mirrors alone, as its authors and the released program have it."""
        return self.augmentation.moved(images, self.generator)

    def probabilities(self, logits_of: Callable[[int], Tensor]) -> Tensor:
        """The mean of both networks (its authors add their logits, the released program asks the first alone)."""
        return (logits_of(0).softmax(dim=1) + logits_of(1).softmax(dim=1)) / 2

    def _p_clean(self, memory: Samples, network: int) -> Tensor:
        logits = self.models[network].outputs(memory.images).logits
        losses = F.cross_entropy(logits, memory.labels, reduction="none")
        return fit_mixture(losses, settings=MIXTURE).low_posterior.float()

    def _semi_supervised_epoch(
        self, memory: Samples, network: int, p_clean: Tensor, clean: Tensor, weight: float
    ) -> None:
        """`clean` is which of `p_clean` are at least a half, on the host."""
        labelled, unlabelled = clean.nonzero().squeeze(1), (~clean).nonzero().squeeze(1)
        if min(len(labelled), len(unlabelled)) <= SMALLEST_SET:
            self.plain_epoch(memory, network=network)
            return
        for i in range(2):
            self.buffers.put(f"views{i}", self.next_memory_view(memory))
        self.buffers.put("labels", memory.labels)
        self.buffers.put("p_clean", p_clean)
        self.buffers.put("weight", torch.full((), weight, device=self.runtime.device))
        for plan, n_x, n_u in mixmatch_plans(self, labelled, unlabelled):
            self.run_plan(self._mixmatch_step, plan, network, n_x, n_u)

    def _mixmatch_step(self, row: Tensor, network: int, n_x: int, n_u: int) -> None:
        x, u, mixup = row[:n_x], row[n_x : n_x + n_u], row[n_x + n_u :]
        inputs, targets = self._guess(network, x, u)
        logits = self.models[network].logits(augment.planned_mix(inputs, mixup))
        targets = augment.planned_mix(targets, mixup)
        self.models[network].step(mixmatch_loss(logits, targets, 2 * n_x, self.buffers["weight"]))

    @torch.no_grad()
    def _guess(self, network: int, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """Co-refined labels of x and co-guessed ones of u, with the images of both views, labelled first."""
        own, other = self.models[network], self.models[1 - network]
        x_views = [augment.to_float(self.buffers[f"views{i}"][x]) for i in range(2)]
        u_views = [augment.to_float(self.buffers[f"views{i}"][u]) for i in range(2)]
        seen_x = torch.stack([own.logits(v).softmax(dim=1) for v in x_views]).mean(dim=0)
        guesses = [own.logits(v) for v in u_views] + [other.logits(v, train_norm=False) for v in u_views]
        seen_u = torch.stack([guess.softmax(dim=1) for guess in guesses]).mean(dim=0)
        distrust = 1 - self.buffers["p_clean"][x]
        target_x = sharpen(refurbish(distrust, seen_x, self.buffers["labels"][x]), self.options.sharpen)
        target_u = sharpen(seen_u, self.options.sharpen)
        return torch.cat(x_views + u_views), torch.cat([target_x, target_x, target_u, target_u])
