"""CLIB's trainer: memory-only training and an adaptive rate (Koh et al., ICLR 2022, sections 4.2 and 4.3)."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.memory import Samples
from puridiver.options import Option
from puridiver.trainers.base import TrainerContext
from puridiver.trainers.er import ExperienceReplay
from puridiver.trainers.online import StreamBatch


@dataclass
class RateSearch:
    """Tries a high and a low rate in turns, and moves both towards the one under which the loss falls faster."""

    high: float
    step: float  # the low rate's share of the high one
    trials: int  # of each rate, before they are compared
    significance: float
    is_high: bool = True
    falls: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})  # of the loss, by `is_high`

    @property
    def rate(self) -> float:
        return self.high if self.is_high else self.high * self.step

    def tried(self, fall: float) -> None:
        """Note by how much the loss fell at the present rate; the other rate is next."""
        self.falls[self.is_high] = [*self.falls[self.is_high], fall][-self.trials :]
        self.is_high = not self.is_high
        if len(self.falls[True]) == len(self.falls[False]) == self.trials:
            from scipy.stats import ttest_ind  # a slow import

            p = ttest_ind(self.falls[False], self.falls[True], equal_var=False, alternative="greater").pvalue
            if p < self.significance:
                self._move(self.high * self.step)
            elif p > 1 - self.significance:
                self._move(self.high / self.step)

    def _move(self, high: float) -> None:
        self.high, self.falls = high, {True: [], False: []}


class MemoryOnly(ExperienceReplay):
    """Learns from random memory samples alone; stream samples first have to enter the memory.

    While there is no memory it learns from the stream batch. Every `clib_period` batches it measures by how much the
    loss of the memory samples that stayed has fallen, and adapts the rate.
    """

    name = "clib"
    title = "CLIB"
    summary = "a step on random memory samples alone for each stream batch, at a rate that adapts"
    replay_ahead = 1  # the newest samples are learnt from the memory alone
    own_options = {
        "clib_period": Option(10, "stream batches after which the other rate is tried", low=1),
        "clib_trials": Option(10, "trials of each rate before both are compared", low=2),
        "clib_rate_step": Option(0.95, "the low rate's share of the high one", low=0.1, high=0.999),
        "clib_significance": Option(0.05, "significance at which both rates move (Welch's t-test)", low=0, high=0.5),
    }

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        o = self.options
        self.search = RateSearch(o.online_lr, o.clib_rate_step, o.clib_trials, o.clib_significance)
        self._batches = 0
        self._measured: tuple[Tensor, Tensor] | None = None  # arrivals and losses of the memory, (N,) each, on the host

    def observe(self, batch: StreamBatch) -> Tensor:
        self.models[0].set_rate(self.search.rate)
        if batch.replay is None:
            return super().observe(batch)
        loss = F.cross_entropy(self.models[0].outputs(batch.images).logits, batch.labels)
        super().observe(StreamBatch(batch.replay.images, batch.replay.labels, freeze_norm=batch.freeze_norm))
        return loss

    def on_candidates(self, pool: Samples, n_old: int) -> None:
        self._batches += 1
        if self._batches % self.options.clib_period or not n_old:
            return
        memory = pool.take(slice(n_old))
        losses = F.cross_entropy(self.models[0].outputs(memory.images).logits, memory.labels, reduction="none")
        arrivals, losses = self.runtime.read(memory.arrivals), self.runtime.read(losses)
        if self._measured is not None and (fall := fallen(*self._measured, arrivals, losses)) is not None:
            self.search.tried(fall)
        self._measured = arrivals, losses

    def state(self) -> dict[str, Tensor]:
        tensors, search = super().state(), self.search
        tensors["rates"] = torch.tensor([search.high, search.is_high, self._batches], dtype=torch.float64)
        for is_high, falls in search.falls.items():
            tensors[f"falls{is_high:d}"] = torch.tensor(falls, dtype=torch.float64)
        if self._measured is not None:
            tensors |= dict(zip(("measured.arrivals", "measured.losses"), self._measured, strict=True))
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        high, is_high, batches = tensors["rates"].tolist()
        self.search.high, self.search.is_high, self._batches = high, bool(is_high), int(batches)
        self.search.falls = {is_high: tensors[f"falls{is_high:d}"].tolist() for is_high in (True, False)}
        measured = [tensors.get(f"measured.{name}") for name in ("arrivals", "losses")]
        self._measured = None if measured[0] is None or measured[1] is None else (measured[0].cpu(), measured[1].cpu())


def fallen(arrivals: Tensor, losses: Tensor, later_arrivals: Tensor, later_losses: Tensor) -> float | None:
    """By how much the mean loss fell of the samples that are in both measurements; None without any."""
    before = dict(zip(arrivals.tolist(), losses.tolist(), strict=True))
    falls = [
        before[arrival] - loss
        for arrival, loss in zip(later_arrivals.tolist(), later_losses.tolist(), strict=True)
        if arrival in before
    ]
    return sum(falls) / len(falls) if falls else None
