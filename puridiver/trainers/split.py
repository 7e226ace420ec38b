"""Dividing the memory into clean (C), re-label (R) and unlabelled (U) sets: equations 4 to 8 put together."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import equations
from puridiver.mixture import Mixture, MixtureSettings, fit_mixture
from puridiver.options import Option, Options

SPLIT_OPTIONS = {
    "relabel": Option(True, "re-label part of the noisy set (Eq. 8); off: consistency on all of it"),
    "consistency": Option(True, "consistency loss on part of the noisy set (Eq. 10); off: re-label all of it"),
    "relabel_set": Option(
        "low_uncertainty", "which part of the noisy set is re-labelled [row 4]", ("low_uncertainty", "high_uncertainty")
    ),
    "mixture_scale": Option(False, "min-max scale losses before the mixture is fitted [row 10]"),
    "mixture_iterations": Option(100, "EM iterations at most [row 10]", low=1),
    "mixture_tolerance": Option(1e-3, "EM stops below this change of the log-likelihood [row 10]", low=0),
    "mixture_floor": Option(1e-6, "added to the variances of the mixture [row 10]", low=0),
}

SET_NAMES = ("clean", "relabel", "unlabelled")
CLEAN, RELABEL, UNLABELLED = range(3)  # indices into SET_NAMES


class Sets(NamedTuple):
    """A split as the host knows it, (N,) each: which samples, the set of each, and their predicted classes."""

    arrivals: Tensor
    codes: Tensor  # indices into SET_NAMES
    guesses: Tensor

    def sizes(self) -> tuple[int, int, int]:
        """|C|, |R|, |U|."""
        counts = self.codes.bincount(minlength=3).tolist()
        return counts[0], counts[1], counts[2]


class Split(NamedTuple):
    """Which memory sample is in which set, and what the network thinks of each."""

    arrivals: Tensor  # (N,): which samples these are
    clean: Tensor  # (N,) masks; every sample is in exactly one
    relabel: Tensor
    unlabelled: Tensor
    p_clean: Tensor  # (N,): p_G(g | loss), Eq. 4
    p_certain: Tensor  # (N,): p_G(u | U(x)); 0 outside the noisy set
    p_model: Tensor  # (N, C): softmax outputs
    loss: Tensor  # (N,)
    loss_mixture: Mixture
    uncertainty_mixture: Mixture

    def codes(self) -> Tensor:
        """0, 1, 2 for the set of each sample, an index into SET_NAMES."""
        return self.relabel.long() + 2 * self.unlabelled.long()

    def suggested(self, labels: Tensor) -> Tensor:
        """The class that each sample should have, (N,): the label where that is clean, else the predicted class."""
        return torch.where(self.clean, labels, self.p_model.argmax(dim=1))

    def sets(self) -> Sets:
        """A copy on the host, in one transfer."""
        return Sets(*torch.stack([self.arrivals, self.codes(), self.p_model.argmax(dim=1)]).cpu())


def split_memory(logits: Tensor, labels: Tensor, arrivals: Tensor, checked: Tensor, options: Options) -> Split:
    """Equations 5 to 7 on the network's outputs for the whole memory; labels that a person has checked are clean."""
    p_model = logits.float().softmax(dim=1)
    loss = F.cross_entropy(logits.float(), labels, reduction="none")
    settings = MixtureSettings(
        options.mixture_scale, options.mixture_iterations, options.mixture_tolerance, options.mixture_floor
    )
    loss_mixture = fit_mixture(loss, settings=settings)
    p_clean = loss_mixture.low_posterior.masked_fill(checked, 1.0)
    clean, noisy = equations.split_by_posterior(p_clean, torch.ones_like(checked))
    uncertainty_mixture = fit_mixture(equations.uncertainty(p_model), noisy, settings._replace(scale=False))
    relabel, unlabelled = equations.split_by_posterior(uncertainty_mixture.low_posterior, noisy)
    if options.relabel_set == "high_uncertainty":
        relabel, unlabelled = unlabelled, relabel
    if not options.consistency:
        relabel, unlabelled = noisy, torch.zeros_like(noisy)
    elif not options.relabel:
        relabel, unlabelled = torch.zeros_like(noisy), noisy
    return Split(
        arrivals, clean, relabel, unlabelled,
        p_clean.float(), uncertainty_mixture.low_posterior.float(),
        p_model, loss, loss_mixture, uncertainty_mixture,
    )  # fmt: skip


def prediction_weights(split: Split, options: Options, generator: torch.Generator) -> Tensor:
    """Eq. 8's weight of the prediction, (N,): 0 outside R, where the given label holds.

    The released program weighs the GIVEN label by component 0 of a loss mixture in no fixed order (row 5). A coin
    decides here which component comes first: a fair one, or one that puts the clean component first as often as there
    are clean samples (row 28), as scikit-learn's start does by taking any sample for its first centre.
    """
    if options.relabel_weight == "uncertainty":
        return split.p_certain * split.relabel
    draw = float(torch.rand((), generator=generator))  # a number: whoever launches this does not wait for the share
    if options.relabel_weight == "unsorted_loss_by_share":
        clean_first = split.clean.float().mean() > draw
        return torch.where(clean_first, 1 - split.p_clean, split.p_clean) * split.relabel
    return (split.p_clean if draw < 0.5 else 1 - split.p_clean) * split.relabel
