"""Dividing the memory into clean (C), re-label (R) and unlabelled (U) sets: equations 4 to 8 put together."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

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


@dataclass(frozen=True)
class Sets:
    """What the host wants to know of a split, (N,) each: which samples, the set of each, and their predicted classes.

    On the host, so that nobody who looks at it has to wait for what the device does meanwhile.
    """

    arrivals: Tensor
    codes: Tensor  # indices into SET_NAMES
    guesses: Tensor

    def sizes(self) -> tuple[int, int, int]:
        """|C|, |R|, |U|."""
        counts = self.codes.bincount(minlength=3).tolist()
        return counts[0], counts[1], counts[2]


@dataclass(frozen=True)
class Split:
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

    def sets(self) -> Sets:
        """The split as the host knows it, in one copy."""
        return Sets(*torch.stack([self.arrivals, self.codes(), self.p_model.argmax(dim=1)]).cpu())

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, those of the mixtures as `loss_mixture.means`."""
        found: dict[str, Tensor] = {}
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, Mixture):
                found |= {f"{part.name}.{inner.name}": getattr(value, inner.name) for inner in fields(value)}
            else:
                found[part.name] = value
        return found

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Split:
        """The split whose `tensors` these are."""
        parts: dict[str, Any] = {name: value for name, value in tensors.items() if "." not in name}
        for name in ("loss_mixture", "uncertainty_mixture"):
            parts[name] = Mixture(**{inner.name: tensors[f"{name}.{inner.name}"] for inner in fields(Mixture)})
        return cls(**parts)


def split_memory(logits: Tensor, labels: Tensor, arrivals: Tensor, checked: Tensor, options: Options) -> Split:
    """Equations 5 to 7 on the network's outputs for the whole memory; labels that a person has checked are clean."""
    p_model = logits.float().softmax(dim=1)
    loss = F.cross_entropy(logits.float(), labels, reduction="none")
    settings = MixtureSettings(
        options.mixture_scale, options.mixture_iterations, options.mixture_tolerance, options.mixture_floor
    )
    loss_mixture = fit_mixture(loss, settings=settings)
    p_clean = loss_mixture.low_posterior.masked_fill(checked, 1.0)
    everything = torch.ones_like(labels, dtype=torch.bool)
    clean, noisy = equations.split_by_posterior(p_clean, everything)
    unscaled = MixtureSettings(False, settings.max_iterations, settings.tolerance, settings.covariance_floor)
    uncertainty_mixture = fit_mixture(equations.uncertainty(p_model), noisy, unscaled)
    certain, uncertain = equations.split_by_posterior(uncertainty_mixture.low_posterior, noisy)
    relabel, unlabelled = {
        "low_uncertainty": (certain, uncertain),
        "high_uncertainty": (uncertain, certain),
    }[options.relabel_set]
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
    """Eq. 8's weight of the prediction, (N,): 0 outside R, where the given label holds."""
    return _PREDICTION_WEIGHTS[options.relabel_weight](split, generator) * split.relabel


def _uncertainty_weight(split: Split, generator: torch.Generator) -> Tensor:
    return split.p_certain


def _unsorted_loss_weight(split: Split, generator: torch.Generator) -> Tensor:
    """The released program weighs the GIVEN label by component 0 of a loss mixture that is in no fixed order.

    scikit-learn's start decides there which component comes first; a fair coin stands for it here.
    """
    swapped = bool(torch.rand((), generator=generator) < 0.5)
    return split.p_clean if swapped else 1 - split.p_clean


def _unsorted_loss_weight_by_share(split: Split, generator: torch.Generator) -> Tensor:
    """The same, with a coin as loaded as there (row 28).

    That start takes any of the samples for its first centre, so that the component of low losses comes first about as
    often as a sample has a low loss.
    """
    draw = float(torch.rand((), generator=generator))  # a number: whoever launches it does not wait for the share
    low_first = split.clean.float().mean() > draw
    return torch.where(low_first, 1 - split.p_clean, split.p_clean)


_PREDICTION_WEIGHTS = {
    "uncertainty": _uncertainty_weight,
    "unsorted_loss": _unsorted_loss_weight,
    "unsorted_loss_by_share": _unsorted_loss_weight_by_share,
}
