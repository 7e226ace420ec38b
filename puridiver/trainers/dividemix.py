"""DivideMix (Li et al., 2020): two networks divide the samples for each other and learn semi-supervised."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment
from puridiver.equations import refurbish, soft_cross_entropy
from puridiver.mixture import MixtureSettings, fit_mixture
from puridiver.samples import Samples
from puridiver.trainers.base import Trainer

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


def negative_entropy(logits: Tensor) -> Tensor:
    """Mean of sum_c p_c log p_c: penalises sure predictions in the warm-up under asymmetric noise."""
    log_p = F.log_softmax(logits, dim=1)
    return (log_p.exp() * log_p).sum(dim=1).mean()


class DivideMix(Trainer):
    """Co-divide by loss mixture, co-refine labels, co-guess the rest, MixMatch."""

    name = "dividemix"
    title = "DivideMix"
    summary = "two networks split the memory for each other by loss; co-refinement, co-guessing, MixUp"
    n_networks = 2

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        if epoch < self.options.baseline_warmup:
            for k in range(2):
                self._warmup_epoch(memory, k)
            return
        p_clean = [self._p_clean(memory, k) for k in range(2)]
        weight = ramp(epoch, self.options.baseline_warmup, self.options.ramp_epochs, self.options.unlabelled_weight)
        for k in range(2):
            self._semi_supervised_epoch(memory, k, p_clean[1 - k], weight)

    def probabilities(self, images: Tensor) -> Tensor:
        """The mean of both networks, as its authors evaluate it."""
        return sum(self.outputs(images, k).logits.softmax(dim=1) for k in range(2)) / 2  # type: ignore[return-value]

    def _p_clean(self, memory: Samples, network: int) -> Tensor:
        logits = self.outputs(memory.images, network).logits.float()
        losses = F.cross_entropy(logits, memory.labels, reduction="none")
        return fit_mixture(losses, settings=MIXTURE).low_posterior.float()

    def _warmup_epoch(self, memory: Samples, network: int) -> None:
        if self.context.hint is None or self.context.hint.kind != "asym":
            self.plain_epoch(memory, network=network)
            return
        views, targets = self.strong_view(memory.images), self.one_hot(memory.labels)
        for rows in self.batches(len(memory)):
            logits = self.networks[network].train()(self.to_float(views[rows])).float()
            loss = soft_cross_entropy(logits, targets[rows]).mean() + negative_entropy(logits)
            self.step(network, loss)

    def _semi_supervised_epoch(self, memory: Samples, network: int, p_clean: Tensor, weight: float) -> None:
        labelled = (p_clean >= 0.5).nonzero().squeeze(1)
        unlabelled = (p_clean < 0.5).nonzero().squeeze(1)
        if min(len(labelled), len(unlabelled)) <= SMALLEST_SET:
            self.plain_epoch(memory, network=network)
            return
        views = [self.strong_view(memory.images) for _ in range(2)]
        batches = self.batches(len(labelled))
        size = min(self.options.batch_size, len(unlabelled))
        for rows in batches:
            others = torch.randperm(len(unlabelled), generator=self.generator)[:size].to(rows.device)
            x, u = labelled[rows], unlabelled[others]
            inputs, targets = self._guess(network, views, x, u, p_clean[x], memory.labels[x])
            self.step(network, self._mixmatch_loss(network, inputs, targets, 2 * len(x), weight))

    @torch.no_grad()
    def _guess(
        self, network: int, views: list[Tensor], x: Tensor, u: Tensor, p_clean: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Co-refined labels of x and co-guessed ones of u, with the images of both views, labelled first."""
        own, other = self.networks[network].train(), self.networks[1 - network].eval()
        x_views = [self.to_float(view[x]) for view in views]
        u_views = [self.to_float(view[u]) for view in views]
        seen_x = torch.stack([own(v).softmax(dim=1) for v in x_views]).mean(dim=0)
        seen_u = torch.stack([net(v).softmax(dim=1) for net in (own, other) for v in u_views]).mean(dim=0)
        target_x = sharpen(refurbish(1 - p_clean, seen_x.float(), labels), self.options.sharpen)
        target_u = sharpen(seen_u.float(), self.options.sharpen)
        return torch.cat(x_views + u_views), torch.cat([target_x, target_x, target_u, target_u])

    def _mixmatch_loss(self, network: int, inputs: Tensor, targets: Tensor, n_labelled: int, weight: float) -> Tensor:
        draw = augment.draw_mixup(len(inputs), self.options.mixup_alpha, self.generator, keep_majority=True)
        logits = self.networks[network].train()(augment.mix(inputs, draw)).float()
        targets = augment.mix(targets, draw)
        l_x = soft_cross_entropy(logits[:n_labelled], targets[:n_labelled]).mean()
        l_u = (logits[n_labelled:].softmax(dim=1) - targets[n_labelled:]).square().mean()
        return l_x + weight * l_u + prior_penalty(logits.softmax(dim=1))
