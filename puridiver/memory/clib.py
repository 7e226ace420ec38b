"""CLIB's sampler: sample-wise importance (Koh et al., "Online continual learning on class incremental blurry task
configuration with anytime inference", ICLR 2022, section 4.1)."""

from collections import Counter

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.memory.base import Moment, Sampler, Samples
from puridiver.options import Option

IMPORTANCE, LOSS = 0, 1  # columns of the notes


def moved_importance(importance: Tensor, decrease: Tensor, trained: Tensor, decay: float) -> Tensor:
    """H_i <- H_i + (1 - decay) * (decrease - mean of H over the batch) for each sample i of a training batch, (N,).

    `decrease` is by how much the mean loss of the memory fell with the batch, `trained` (N,) who was in it. (The
    released program subtracts that mean with the other sign and divides it once more by the size of the batch.)
    """
    size = trained.sum().clamp(min=1)
    change = (1 - decay) * (decrease - (importance * trained).sum() / size)
    return torch.where(trained, importance + change, importance)


class SampleImportance(Sampler):
    """Takes every sample; the largest class drops the one whose training helped the memory least.

    The importance of a sample is a moving average of how much the mean loss of the memory fell when the sample was
    replayed. A new sample begins with the mean of its class.
    """

    name = "clib"
    title = "CLIB"
    summary = "evicts, from the largest class, the sample whose replay lowers the memory's loss least"
    n_notes = 2
    own_options = {"clib_decay": Option(0.9, "decay of the average of a sample's importance", low=0, high=1)}

    def note_arrivals(self, batch: Samples, moment: Moment) -> Tensor:
        return torch.zeros(len(batch), self.n_notes, device=batch.labels.device)

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        logits = moment.network.outputs(pool.images)[1]
        losses = F.cross_entropy(logits.float(), pool.labels, reduction="none")
        if n_old and moment.replayed is not None:
            old = pool.notes[:n_old]
            decrease = (old[:, LOSS] - losses[:n_old]).mean()
            trained = torch.isin(pool.arrivals[:n_old], moment.replayed)
            old[:, IMPORTANCE] = moved_importance(old[:, IMPORTANCE], decrease, trained, self.options.clib_decay)
        pool.notes[:, LOSS] = losses
        importance = moment.runtime.read(pool.notes[:, IMPORTANCE]).tolist()
        rows = survivors(moment.runtime.read(pool.labels).tolist(), importance, n_old, capacity)
        pool.notes[:, IMPORTANCE] = moment.runtime.move(torch.tensor(importance))
        return torch.tensor(rows, dtype=torch.int64)


def survivors(labels: list[int], importance: list[float], n_old: int, capacity: int) -> list[int]:
    """The rows that stay when each new one enters; `importance` gets the new ones' own, the mean of their class."""
    held = list(range(n_old))
    for row in range(n_old, len(labels)):
        of_class = [importance[k] for k in held if labels[k] == labels[row]]
        known = of_class or [importance[k] for k in held]
        importance[row] = sum(known) / len(known) if known else 0.0
        if len(held) == capacity:
            counts = Counter(labels[k] for k in held)
            if labels[row] in counts:
                counts[labels[row]] += 1
            largest = max(sorted(counts), key=counts.__getitem__)
            held.remove(min((k for k in held if labels[k] == largest), key=importance.__getitem__))
        held.append(row)
    return held
