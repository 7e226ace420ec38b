"""SPR's trainer, Self-Replay (Kim et al., ICCV 2021): the base learns without labels, a copy of it with them."""

import copy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.memory import Samples
from puridiver.nets import initialise_afresh
from puridiver.options import Option
from puridiver.runtime.adam import adam
from puridiver.runtime.model import OptimiserMaker
from puridiver.spr import ENCODER_OPTIONS, Encoder, scaled_epochs
from puridiver.trainers.base import Trainer, TrainerContext
from puridiver.trainers.online import StreamBatch


class SelfReplay(Trainer):
    """Whenever half of what is at hand is new, the base goes on learning from all of it by SimCLR.

    A consolidation fine-tunes a fresh copy of the base, with a fresh classifier, on the memory and its labels. Until
    the first one there is nothing to predict with; between two the last copy predicts.
    """

    name = "spr"
    title = "Self-Replay"
    summary = "SPR: self-supervised learning online; a copy is fine-tuned on the memory's labels"
    learns_online = False
    own_options = {
        "spr_base_epochs": Option(
            3000, "self-supervised epochs of the base for each delay buffer; 0: no Self-Replay", low=0
        ),
        "finetune_lr": Option(2e-3, "learning rate (Adam) of the copy that is trained on the memory", low=0),
        "finetune_clip": Option(0.5, "largest entry of a gradient of that copy", low=1e-6),
        **ENCODER_OPTIONS,
    }

    def __init__(self, context: TrainerContext) -> None:
        super().__init__(context)
        self.base = Encoder(copy.deepcopy(self.networks[0]), self.runtime, self.options)
        self.base.restart(self.generator)
        self._unseen = 0  # samples that came since the base last learnt

    def optimiser(self) -> OptimiserMaker:
        return partial(adam, clip=self.options.finetune_clip)

    def observe(self, batch: StreamBatch) -> Tensor:
        """Labels teach nothing online; the loss is that of the last fine-tuned copy."""
        return F.cross_entropy(self.models[0].outputs(batch.images).logits, batch.labels)

    def on_candidates(self, pool: Samples, n_old: int) -> None:
        self._unseen += len(pool) - n_old
        if 2 * self._unseen < len(pool):
            return
        epochs = scaled_epochs(self.options.spr_base_epochs, self.options.spr_budget)
        self.base.learn(pool.images, epochs, self.generator)
        self._unseen = 0

    def begin_consolidation(self, memory: Samples) -> None:
        network = self.networks[0]
        learnt = {name: value for name, value in self.base.network.state_dict().items() if not name.startswith("head.")}
        network.load_state_dict(learnt, strict=False)  # in place
        initialise_afresh(network.head, self.generator)

    def memory_rate(self, epoch: int, epochs: int) -> float:
        return self.options.finetune_lr

    def memory_epoch(self, memory: Samples, epoch: int) -> None:
        self.buffers.put("images", memory.images)
        self.buffers.put("labels", memory.labels)
        self.run_plan(self._finetuning_step, self.batch_parts(len(memory))[0])

    def _finetuning_step(self, row: Tensor) -> None:
        logits = self.models[0].logits(self.buffers["images"][row])
        self.models[0].step(F.cross_entropy(logits, self.buffers["labels"][row]))

    def state(self) -> dict[str, Tensor]:
        base = {f"base.{name}": value for name, value in self.base.network.state_dict().items()}
        return {**super().state(), **base, "unseen": torch.tensor(self._unseen)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        self.base.network.load_state_dict(
            {name.removeprefix("base."): value for name, value in tensors.items() if name.startswith("base.")}
        )
        self._unseen = int(tensors["unseen"])
