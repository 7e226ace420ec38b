"""The testimonies of all passes put together: one score a class for every sample, and what to say in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from puridiver.auditing.passes import Testimony

# The network's word against the neighbours': a network is surer than it should be. Chosen on planted noise, with the
# number of neighbours, as told in docs/AUDIT.md.
NETWORK_WEIGHT = 0.3
SMALLEST_SHARE = 0.01  # of a class among the neighbours' labels, so that its logarithm is finite


@dataclass(frozen=True)
class Evidence:
    """What is known of every sample without its own label having been learnt (much)."""

    pass_scores: np.ndarray  # float64 (P, N, C): each pass's word, log-probabilities up to a constant
    weights: np.ndarray  # float64 (P, N): 0 where the pass kept the sample in its memory
    choices: np.ndarray  # int64 (P, N): the class that each pass's network takes a sample for
    votes: np.ndarray  # float64 (N, C): mean shares of the neighbours' labels

    def scores(self, passes: np.ndarray | None = None) -> np.ndarray:
        """Mean of the passes' words, (N, C); of these passes (with repeats) where some are named."""
        chosen = np.arange(len(self.weights)) if passes is None else passes
        weights = unless_all_zero(self.weights[chosen])
        return np.einsum("pn,pnc->nc", weights, self.pass_scores[chosen]) / weights.sum(axis=0)[:, None]

    def agreeing(self, suggested: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many passes take each sample for the suggested class, of how many that may be asked, both (N,)."""
        asked = unless_all_zero(self.weights)
        return ((self.choices == suggested) * asked).sum(axis=0).astype(int), asked.sum(axis=0).astype(int)


def unless_all_zero(weights: np.ndarray) -> np.ndarray:
    """The weights; all ones for a sample that every pass kept in its memory."""
    return np.where(weights.any(axis=0), weights, 1.0)


def put_together(testimonies: Sequence[Testimony]) -> Evidence:
    """A pass's word on a sample is its network's and its neighbours' together; memories do not testify."""
    votes = np.stack([t.votes.astype(np.float64) for t in testimonies])
    networks = np.stack([t.scores.astype(np.float64) for t in testimonies])
    weights = np.stack([(~t.in_memory).astype(np.float64) for t in testimonies])
    asked = unless_all_zero(weights)
    return Evidence(
        pass_scores=NETWORK_WEIGHT * networks + np.log(votes + SMALLEST_SHARE),
        weights=weights,
        choices=networks.argmax(axis=2),
        votes=np.einsum("pn,pnc->nc", asked, votes) / asked.sum(axis=0)[:, None],
    )
