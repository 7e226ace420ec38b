"""What happens to a batch of the stream: a learner judges its labels, learns it and offers it to the memory.

The caller holds the learner's lock.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from puridiver.learner import inputs
from puridiver.learner.inputs import Label, SourceId
from puridiver.learner.verdicts import Observed, Verdict, judge, judge_again, nothing_known
from puridiver.memory import Moment, Samples
from puridiver.runtime.device import learning
from puridiver.trainers import StreamBatch

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner

# The memory's labels are judged again after this many arrivals; those of a larger memory after as many as it holds.
JUDGED_AGAIN = 512
NEW = 2.0  # times the memory's share of a class: until so many of its labels have arrived, a class is new


def observe(
    learner: Learner, images: Tensor, labels: list[Label], ids: list[SourceId] | None, wants_verdicts: bool
) -> Observed:
    """Take in a checked batch, as `Learner.observe` says."""
    numbers, new = inputs.class_ids(labels, learner.class_ids, learner.grow)
    learner.consolidating.abandon("observing")
    if new:
        learner.set_classes(learner.classes + new)
    first, n_parts = learner.seen, -(-len(images) // learner.trainer.most_at_once)
    verdicts = list[Verdict | None]()
    with learning():
        for part, part_numbers in zip(images.tensor_split(n_parts), numbers.tensor_split(n_parts), strict=True):
            verdicts.append(_learn(learner, part, part_numbers, wants_verdicts))
            learner.seen += len(part)
            learner.seen_of.update(part_numbers.tolist())
            learner.predictor.publish(learnt_online=learner.trainer.learns_online)
            period = max(JUDGED_AGAIN, learner.capacity)  # so that it costs a pass for each arrival at the most
            if learner.sampler.wants_verdicts and learner.seen // period > (learner.seen - len(part)) // period:
                _judge_memory(learner)
    arrivals = range(first, learner.seen)
    if ids is not None:  # not before: if learning fails, the next samples would inherit them
        learner.edits.remember_ids(arrivals, ids)
    p_right = np.full(len(labels), np.nan, np.float32)
    suggested = list(labels)
    if wants_verdicts:
        told = [torch.stack([each.p_right, each.suggested]) for each in verdicts if each is not None]
        p_right, classes = learner.runtime.read(torch.cat(told, dim=1)).numpy()
        for row in np.flatnonzero(np.isfinite(p_right)):
            suggested[row] = learner.classes[int(classes[row])]
    return Observed(arrivals, p_right, suggested)


def _learn(learner: Learner, images: Tensor, numbers: Tensor, wanted: bool) -> Verdict | None:
    """Train on a stream batch and offer it to the memory; returns the verdict on it from before that, if wanted."""
    options, trainer, memory, sampler = learner.options, learner.trainer, learner.memory, learner.sampler
    x, y = learner.as_samples(learner.runtime.move(images)), learner.runtime.move(numbers)
    # BatchNorm has no statistics of one: memory samples join a single image before any consolidation.
    replays = options.replay == "always" or (
        options.replay == "after_first_consolidation" and (learner.consolidations > 0 or len(x) == 1)
    )
    replayed = None
    if replays and len(memory.samples) and trainer.learns_online and (size := trainer.replay_size(len(x))):
        generator = learner.generators["sampler"]
        replayed = memory.replay(size, trainer.replay_view, generator, trainer.replay_ahead)
    full = len(memory.samples) == memory.capacity
    freeze = options.online_batchnorm == "frozen_when_full" and sampler.freezes_norm and full
    refines = options.online_targets == "verdict"
    verdict = _verdict(learner, x, y, numbers, wanted or refines or sampler.wants_verdicts)
    targets = verdict.targets(trainer.one_hot(y), learner.monitor.agreement) if verdict and refines else None
    loss = trainer.observe(StreamBatch(x, y, replayed, freeze, targets))
    learner.monitor.note(loss, verdict, y)
    if trainer.fills_memory:
        arrivals = torch.arange(learner.seen, learner.seen + len(x), device=x.device)
        own = torch.zeros(len(x), device=x.device), torch.full_like(y, -1), trainer.vectors
        now = moment(
            learner, loss, None if replayed is None else replayed.arrivals, verdict.p_right if verdict else None
        )
        memory.update(Samples(x, y, arrivals, *own), now, trainer.on_candidates)
    return verdict


def _verdict(learner: Learner, x: Tensor, y: Tensor, numbers: Tensor, wanted: bool) -> Verdict | None:
    """What is known of the arriving labels; None if nobody wants to know."""
    n_of = [learner.seen_of[number] for number in numbers.tolist()]
    is_new = [n < NEW * learner.capacity / len(learner.classes) for n in n_of]
    predicted, n_seen = learner.predictor.judge(x, y, is_new, learner.seen, wanted), _classes_seen(learner)
    if not wanted:
        return None
    if predicted is None or n_seen < 2:
        return nothing_known(y, len(learner.classes))
    if not (learner.trainer.learns_online or learner.consolidations):
        predicted = torch.full_like(predicted, torch.nan)
    known = learner.runtime.move(torch.tensor(n_of) > 0)
    return judge(x, y, predicted, learner.memory.held(), known, n_seen, learner.noise, learner.neighbours)


def _judge_memory(learner: Learner) -> None:
    """Tell the sampler how likely the labels that it holds are right, by what the learner knows now."""
    held, n_seen = learner.memory.samples, _classes_seen(learner)
    if len(held) > 1 and n_seen > 1:
        p_right = judge_again(learner.predictor.predict(held.images)[0], held, n_seen, learner.noise)
        learner.memory.samples = replace(held, notes=learner.sampler.judged_again(held, p_right))


def _classes_seen(learner: Learner) -> int:
    return sum(n > 0 for n in learner.seen_of.values())


def moment(
    learner: Learner, loss: Tensor | None = None, replayed: Tensor | None = None, p_right: Tensor | None = None
) -> Moment:
    """What a sampler is told: with the loss of the batch that has arrived, or else that of the last ones."""
    trainer, generator = learner.trainer, learner.generators["sampler"]
    return Moment(
        trainer.models[0], learner.monitor.loss if loss is None else loss, len(learner.classes), learner.seen,
        generator, partial(trainer.strong_view, generator=generator), learner.runtime, learner.seen_of,
        replayed, p_right,
    )  # fmt: skip
