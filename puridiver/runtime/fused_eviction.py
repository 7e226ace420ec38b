"""A Triton kernel for PuriDivER's evictions, one after the other.

As torch's operations an arriving sample took about sixty small kernels, more than its four training steps. Here one
program admits all arrivals and drops as many. Only `puridiver.memory.puridiver` may import this module, since it needs
Triton.
"""
# mypy: ignore-errors
# (Triton compiles kernels from their source: their arguments have no Python types)

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _among(value, weight, count):
    """z-scores among the members, as `equations.standardise_among`."""
    mean = tl.sum(value * weight, 0) / count
    centred = value - mean
    variance = tl.sum(centred * centred * weight, 0) / count
    return centred / tl.maximum(tl.sqrt(variance), 1e-4 * tl.abs(mean) + 1e-8)


@triton.jit(do_not_specialize=["n", "n_old", "n_classes", "capacity"])
def _evict_kernel(
    losses, cosines, labels, favours, living, class_counts, sums_of_cosines, balance, tie_breakers,
    n, n_old, n_classes, capacity,
    STANDARDISE: tl.constexpr, BLOCK: tl.constexpr, CLASS_BLOCK: tl.constexpr,
):  # fmt: skip
    row, class_id = tl.arange(0, BLOCK), tl.arange(0, CLASS_BLOCK)
    exists, is_class = row < n, class_id < n_classes
    loss = tl.load(losses + row, mask=exists, other=0)
    label = tl.load(labels + row, mask=exists, other=-1)
    favour = tl.load(favours + row, mask=exists, other=0)
    alive = tl.load(living + row, mask=exists, other=0)
    sums = tl.load(sums_of_cosines + row, mask=exists, other=0)
    counts = tl.load(class_counts + class_id, mask=is_class, other=0)
    alpha = tl.load(balance)
    arrival = n_old
    while arrival < n:
        own = tl.load(labels + arrival)
        alive = tl.where(row == arrival, 1, alive)
        counts += tl.where(class_id == own, 1.0, 0.0).to(counts.dtype)
        cosine = tl.load(cosines + arrival.to(tl.int64) * n + row, mask=exists, other=0)
        sums += tl.where(label == own, cosine, 0)
        if arrival >= capacity:
            tie_breaker = tl.load(tie_breakers + (arrival - n_old) * n_classes + class_id, mask=is_class, other=0)
            largest = tl.argmax(tl.where(is_class, counts + tie_breaker, -1), 0)
            members = (alive == 1) & (label == largest)
            weight = members.to(loss.dtype)
            count = tl.maximum(tl.sum(weight, 0), 1)
            purity, similarity = loss, sums / count
            if STANDARDISE:
                purity, similarity = _among(purity, weight, count), _among(similarity, weight, count)
            score = (1 - alpha) * purity + alpha * similarity
            worst = tl.argmax(tl.where(members, score + favour, float("-inf")), 0)
            alive = tl.where(row == worst, 0, alive)
            counts -= tl.where(class_id == largest, 1.0, 0.0).to(counts.dtype)
            cosine = tl.load(cosines + worst.to(tl.int64) * n + row, mask=exists, other=0)
            sums -= tl.where(label == largest, cosine, 0)
        arrival += 1
    tl.store(living + row, alive, mask=exists)


def evict(
    loss: Tensor, u: Tensor, y: Tensor, favour: Tensor, alive: Tensor, counts: Tensor, cosine_sums: Tensor,
    alpha: Tensor, ties: Tensor, capacity: int, standardise: bool,
) -> Tensor:  # fmt: skip
    """Who is alive after the last `len(ties)` rows came one by one, each dropping the worst of the largest class."""
    living = alive.to(torch.int32)
    block = triton.next_power_of_2(len(y))
    _evict_kernel[(1,)](
        loss.contiguous(), u @ u.T, y, favour, living, counts, cosine_sums, alpha, ties.contiguous(),
        len(y), len(y) - len(ties), ties.shape[1], capacity,
        STANDARDISE=standardise, BLOCK=block, CLASS_BLOCK=triton.next_power_of_2(ties.shape[1]),
        num_warps=4 if block <= 1024 else 8,
    )  # fmt: skip
    return living.bool()
