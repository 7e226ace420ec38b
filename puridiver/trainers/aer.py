"""AER, alternate experience replay (Millunzi et al., "May the forgetting be with you", BMVC 2024)."""

import torch
from torch import Tensor

from puridiver.options import Option
from puridiver.trainers.base import TrainerContext
from puridiver.trainers.er_ace import AsymmetricReplay
from puridiver.trainers.online import StreamBatch


class AlternateReplay(AsymmetricReplay):
    """ER-ACE that replays in every other block of stream batches, and fills the memory in the blocks between.

    Without replay the network forgets wrong labels of the memory sooner than right ones: the losses by which a sampler
    such as `abs` then goes tell them apart. Its authors alternate epochs over a task, and rewind the network after
    those without replay. A stream passes once: here blocks of batches alternate, and nothing is rewound.
    """

    name = "aer"
    title = "AER"
    summary = "ER-ACE with and without replay in turns; the memory changes while nothing is replayed"
    own_options = {"aer_block": Option(16, "stream batches with, and then without, replay", low=1)}

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self._batches = 0  # that were observed

    def _forgets(self, batch: int) -> bool:
        return batch // self.options.aer_block % 2 == 0

    def replay_size(self, n_stream: int) -> int:
        return 0 if self._forgets(self._batches) else super().replay_size(n_stream)

    @property
    def fills_memory(self) -> bool:
        return self._forgets(self._batches - 1)

    def observe(self, batch: StreamBatch) -> Tensor:
        loss = super().observe(batch)
        self._batches += 1
        return loss

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "batches": torch.tensor(self._batches)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        self._batches = int(tensors["batches"])
