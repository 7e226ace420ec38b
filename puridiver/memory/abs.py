"""ABS, asymmetric balanced sampling (Millunzi et al., "May the forgetting be with you", BMVC 2024)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.equations import among_present
from puridiver.memory.base import Moment, Sampler, Samples
from puridiver.options import Option


def drop_chances(losses: Tensor, current: Tensor) -> Tensor:
    """How likely each memory sample makes room, (N,): of current classes (N,) by its loss, of others by minus its loss.

    Both groups go by their share of the memory. Losses are scaled to [0, 1] in each group.
    """
    chances = torch.zeros_like(losses)
    for group, sign in ((current, 1), (~current, -1)):
        if group.any():
            scores = sign * losses[group]
            scores = scores - scores.min()
            if not scores.any():
                scores = torch.ones_like(scores)
            chances[group] = scores / scores.sum() * len(scores) / len(losses)
    return chances


class AsymmetricSampling(Sampler):
    """A reservoir of a batch's lowest losses that drops high losses of classes that arrive, and low ones of others.

    So the memory is clean where the stream still brings samples, and keeps the telling ones of what has passed. Its
    authors go by tasks; here a class is current if the batch has it. Each batch the losses of `batch_size` random
    memory samples are renewed. Free places take whatever comes.
    """

    name = "abs"
    title = "ABS"
    summary = "drops high losses of the classes that arrive, and low losses of the others"
    own_options = {
        "abs_left_out": Option(0.75, "share of a batch, those of the highest losses, that a full memory ignores",
                               low=0, high=1)
    }  # fmt: skip

    def choose(self, pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        self._renew_losses(pool, n_old, moment)
        losses, labels = moment.runtime.read(pool.notes).double(), moment.runtime.read(pool.labels)
        arrived, current = losses[n_old:], torch.isin(labels, labels[n_old:])
        n_offered = max(1, round((1 - self.options.abs_left_out) * len(arrived)))
        offered = set((arrived.argsort(stable=True)[:n_offered] + n_old).tolist())
        slots = list(range(n_old))
        for row in range(n_old, len(pool)):
            if len(slots) < capacity:
                slots.append(row)
            elif row in offered and self._accepts(moment, row - n_old, capacity):
                chances = drop_chances(losses[slots], current[slots])
                slots[int(torch.multinomial(chances, 1, generator=moment.generator))] = row
        return torch.tensor(slots, dtype=torch.int64)

    def _renew_losses(self, pool: Samples, n_old: int, moment: Moment) -> None:
        """Note the losses of the batch, and of some memory samples."""
        some = torch.randperm(n_old, generator=moment.generator)[: self.options.batch_size]
        rows = moment.runtime.move(torch.cat([some, torch.arange(n_old, len(pool))]))
        asked = pool.take(rows)
        logits = moment.network.outputs(asked.images)[1].float()
        targets = F.one_hot(asked.labels[len(some) :], logits.shape[1])
        logits = torch.cat([logits[: len(some)], among_present(logits[len(some) :], targets)])
        losses = F.cross_entropy(logits, asked.labels, reduction="none")
        pool.notes.index_copy_(0, rows, losses)

    def _accepts(self, moment: Moment, nth: int, capacity: int) -> bool:
        """By the reservoir's chance: places / samples offered so far."""
        seen = max(capacity, round((1 - self.options.abs_left_out) * (moment.seen_before + nth)))
        return int(torch.randint(seen, (), generator=moment.generator)) < capacity
