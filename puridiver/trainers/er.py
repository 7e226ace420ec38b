"""Plain experience replay, the loop that a user would write first: Adam on each batch and some of the memory."""

from puridiver.runtime.adam import adam
from puridiver.runtime.model import OptimiserMaker
from puridiver.trainers.base import Trainer


class ExperienceReplay(Trainer):
    """One step on each stream batch, joined by `batch_size` memory samples; the live network predicts.

    With the sampler `rsv` this is the baseline that a method has to beat; `replay=never` is naive online training.
    """

    name = "er"
    title = "experience replay"
    summary = "one Adam step on each batch and an equal number of memory samples; no training on the memory alone"
    suits = {
        "batch_size": 16, "epochs": 0, "replay": "always", "online_lr": 1e-3, "lr": 1e-3, "online_steps": 1,
        "online_cutmix": 0.0, "online_prediction": "network", "strong": "none", "crop_padding": 0, "flip": False,
        "vector_noise": 0.0, "cutmix": 0.0, "head": "linear",
    }  # fmt: skip

    def optimiser(self) -> OptimiserMaker:
        return adam
