"""Blurry tasks: every task sees all classes, most samples come from its major ones (section 3, Eq. 1)."""

from __future__ import annotations

import numpy as np

from puridiver.streams.checks import IntArray, as_labels, check_share
from puridiver.streams.flows import plan_flows
from puridiver.streams.tasks import Tasks, random_groups


def blurry_tasks(
    given_labels: IntArray,
    n_classes: int,
    n_tasks: int,
    minor_share: float,
    rng: np.random.Generator,
    rest_to_last: bool = False,
) -> Tasks:
    """Eq. 1: cut samples into blurry-L tasks by their given labels; L is `minor_share`.

    Each class is major in one task and minor in all others. In every task the samples of minor classes are
    the share L of all, to within one sample; every sample arrives exactly once.
    """
    labels = as_labels(given_labels, n_classes)
    check_share("minor share", minor_share)
    if n_tasks == 1 and minor_share > 0:
        raise ValueError(f"a single task has no minor classes: its minor share should be 0, but got {minor_share}")
    groups = random_groups(n_classes, n_tasks, rng, rest_to_last)
    pools = [[rng.permutation(np.flatnonzero(labels == c)) for c in group] for group in groups]
    sizes = np.array([sum(map(len, pool)) for pool in pools])
    flows = plan_flows(sizes, np.array([len(group) for group in groups]), minor_share)
    parts: list[list[IntArray]] = [[] for _ in groups]
    for task, pool in enumerate(pools):
        leaving, kept = _split_pool(pool, int(flows[task].sum()))
        parts[task].append(kept)
        destinations = deal(flows[task])
        for other, part in enumerate(parts):
            part.append(leaving[destinations == other])
    return Tasks([rng.permutation(np.concatenate(part)) for part in parts], groups)


def _split_pool(pool: list[IntArray], n_leaving: int) -> tuple[IntArray, IntArray]:
    """(leaving, kept): the same share of each class leaves; both sorted by class."""
    quota = largest_remainder(np.array([len(samples) for samples in pool]), n_leaving)
    leaving = [samples[:n] for samples, n in zip(pool, quota, strict=True)]
    kept = [samples[n:] for samples, n in zip(pool, quota, strict=True)]
    return np.concatenate(leaving), np.concatenate(kept)


def largest_remainder(weights: IntArray, total: int) -> IntArray:
    """Whole numbers in proportion to the weights, with this total: down, then up at the largest rests."""
    if total == 0:
        return np.zeros(len(weights), dtype=np.int64)
    # In whole numbers throughout, so that equal remainders tie exactly (and the earlier class wins).
    shares, remainders = np.divmod(weights * total, weights.sum())
    up = np.argsort(-remainders, kind="stable")[: total - shares.sum()]
    shares[up] += 1
    return shares


def deal(counts: IntArray) -> IntArray:
    """A sequence with `counts[t]` copies of each t in which every stretch holds each t in nearly its share.

    The j-th copy of t sorts at (j + 0.5) / counts[t]. A class that owns a stretch of the sequence is thereby
    spread evenly over the tasks.
    """
    labels = np.repeat(np.arange(len(counts)), counts)
    keys = np.concatenate([(np.arange(n) + 0.5) / n for n in counts.tolist() if n] or [np.empty(0)])
    return labels[np.argsort(keys, kind="stable")]
