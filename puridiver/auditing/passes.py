"""One pass of an audit: a learner sees the whole set once, as a stream, then says what it thinks of every sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from puridiver import plugins
from puridiver.auditing.neighbours import neighbour_votes
from puridiver.auditing.settings import AuditSettings
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner
from puridiver.nets import choose_network
from puridiver.runtime.device import choose_runtime, steady_threads

# Not the default recipe, whose four steps a stream batch know wrong labels better by heart: it ranked as well
# (before it had the loss of arrival), but on digits with 40 % asymmetric noise the estimated rate fell from 35 to 21 %
# (docs/LOG.md).
RECIPE = "official"
# The set has an end: what a person has checked of it can take all of the memory.
KEEPS_CHECKED = {"checked_share": 1.0}

Advance = Callable[[int, str], None]  # so many samples' worth of work is done; what comes now


def say_nothing(amount: int, text: str) -> None:
    """An `Advance` for those who do not watch."""


@dataclass(frozen=True)
class Testimony:
    """What one learner says of every sample, in the order of the set."""

    order: np.ndarray  # int64 (N,): the sample that arrived first, second, ...
    in_memory: np.ndarray  # bool (N,): the learner trained on its label again and again, so its word counts little
    scores: np.ndarray  # float32 (N, C): the network's log-probabilities
    votes: np.ndarray  # float32 (N, C): shares of the neighbours' labels


def with_network(settings: AuditSettings, image_shape: tuple[int, int, int]) -> AuditSettings:
    """Settings that name their network."""
    plugins.load_all()
    device = choose_runtime(settings.device).device
    return dataclasses.replace(settings, network=choose_network(settings.network, image_shape, device))


def threads_of(settings: AuditSettings) -> AbstractContextManager[None]:
    """The threads that learners of these settings run on, so that a seed gives the same figures on every machine."""
    return steady_threads(choose_runtime(settings.device).device, settings.network)


class Begun(NamedTuple):
    """A learner in the middle of a pass: how many steps it has done, two for each part of the set."""

    learner: Learner
    steps: int


def run_pass(
    images: Tensor, given: np.ndarray, classes: list[Label], settings: AuditSettings, number: int, advance: Advance,
    checked: np.ndarray | None = None, begun: Begun | None = None, keep: Callable[[Begun], None] | None = None,
) -> tuple[Learner, Testimony]:  # fmt: skip
    """Let a new learner see the set once, in a random order of this pass, then judge it.

    `images` are uint8 (N, H, W, C), `given` class ids (N,), `checked` tells which of them a person has checked. `begun`
    is where an earlier process left the pass, and `keep` hears of each step, so that a later one can go on from it.
    """
    seed = pass_seed(settings, number)
    order = np.random.default_rng(seed).permutation(len(given))
    height, width, channels = images.shape[1:]
    learner, done = begun or Begun(
        Learner(
            classes, (height, width, channels), settings.memory_for(len(given)), recipe=RECIPE,
            network=settings.network, device=settings.device, seed=seed, **{**KEEPS_CHECKED, **settings.options},
        ),
        0,
    )  # fmt: skip
    text = f"pass {number + 1} of {settings.passes}"
    parts = np.array_split(order, min(settings.parts, len(order)))
    for step in range(2 * len(parts)):
        part, trains = parts[step // 2], bool(step % 2)
        if step < done:
            amount = learner.memory.capacity * settings.epochs_for(learner.memory.capacity) if trains else len(part)
            advance(amount, f"{text}: was done already")
            continue
        if trains:
            consolidate(learner, settings, lambda n: advance(n, f"{text}: memory"))
        else:
            _observe(learner, images, given, part, settings.batch, lambda n: advance(n, f"{text}: stream"))
            if checked is not None:
                tell_labels(learner, given, checked, order)
        if keep is not None and step + 1 < 2 * len(parts):
            keep(Begun(learner, step + 1))
    return learner, testify(learner, images, given, order, settings)


def pass_seed(settings: AuditSettings, number: int) -> int:
    return int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])


def _observe(
    learner: Learner, images: Tensor, given: np.ndarray, rows: np.ndarray, batch: int, done: Callable[[int], None]
) -> None:
    for start in range(0, len(rows), batch):
        chosen = rows[start : start + batch]
        learner.observe(images[torch.from_numpy(chosen)], [learner.classes[c] for c in given[chosen].tolist()])
        done(len(chosen))


def tell_labels(learner: Learner, given: np.ndarray, checked: np.ndarray, order: np.ndarray) -> int:
    """Tell a learner the labels of its memory as they are now, and which a person has checked; how many changed.

    `order` has the row of each arrival.
    """
    samples, new, changed = learner.memory.samples, dict[int, Label](), 0
    for arrival, label in zip(samples.arrivals.tolist(), samples.labels.tolist(), strict=True):
        row = order[arrival]
        changed += int(given[row]) != label
        if checked[row] or int(given[row]) != label:
            new[arrival] = learner.classes[int(given[row])]
    if new:
        learner.correct(new)
    return changed


def consolidate(learner: Learner, settings: AuditSettings, done: Callable[[int], None]) -> None:
    """Train on the memory for the audit's number of epochs."""
    capacity = learner.memory.capacity
    learner.consolidate(settings.epochs_for(capacity), lambda epoch: done(capacity))


def testify(
    learner: Learner, images: Tensor, given: np.ndarray, order: np.ndarray, settings: AuditSettings
) -> Testimony:
    """What a learner that saw the set in this order says of it now."""
    log_p, features = learner.look(images)
    labels = torch.from_numpy(given).to(features.device)
    votes = neighbour_votes(features, labels, len(learner.classes), settings.neighbours)
    in_memory = np.zeros(len(order), dtype=bool)
    in_memory[order[learner.memory.samples.arrivals.cpu().numpy()]] = True
    return Testimony(order, in_memory, log_p.cpu().numpy(), votes.cpu().numpy())
