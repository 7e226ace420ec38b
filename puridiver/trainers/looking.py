"""Looking through a network without learning: passes of as many images as fit, and predictions by two states of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.nets import Outputs
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import Trainee
from puridiver.runtime.plans import Captured

logger = logging.getLogger(__name__)

# Images of one forward pass without gradients. Bounds memory; larger passes are not faster on a CPU, and on an H200
# (ResNet-18: 3.8, 3.7, 3.5 and 3.4 µs an image at 500, 620, 1,032 and 2,064) not by much. 520 takes memory and batch of
# the CIFAR-10 protocol at once, and 10,000 test images in parts of 500, a shape that the memory has captured already.
# With 1,280 for every look a run held 3.9 GB of the GPU's memory; with 640, some commits before, 2.65.
USUAL_PASS = {"cpu": 256, "cuda": 520}
LARGE_PASS = {"cpu": 256, "cuda": 1280}
SMALLEST_PASS = 16
FAIR_ENOUGH = 0.5  # of a fair share of the memory, for a class to count as taught


class Look:
    """Features and logits of uint8 images by one network; fewer at a time once the GPU's memory did not suffice."""

    def __init__(self, trainee: Trainee, runtime: Runtime, to_float: Callable[[Tensor], Tensor]) -> None:
        self.trainee, self.runtime = trainee, runtime
        self._pass = Captured(runtime, lambda images: trainee.outputs(to_float(images)), copies=True)
        self._smaller = 1  # by how much passes are smaller than usual, for want of memory

    def __call__(self, images: Tensor, large_passes: bool = False) -> Outputs:
        found = self._try(images, large_passes)
        while found is None:  # not within `except`, which keeps what the try had allocated
            found = self._try(images, large_passes)
        return found

    def _try(self, images: Tensor, large_passes: bool) -> Outputs | None:
        """None where memory did not suffice and fewer images are to be tried."""
        usual = (LARGE_PASS if large_passes else USUAL_PASS)[self.runtime.device.type]
        most = max(1, min(len(images), max(SMALLEST_PASS, usual // self._smaller)))
        try:
            parts = [self._pass(part, version=self.trainee.view) for part in even_parts(images, most)]
        except torch.OutOfMemoryError:
            if most <= SMALLEST_PASS:
                raise
            while usual // self._smaller >= most:
                self._smaller *= 2
            fewer = max(SMALLEST_PASS, usual // self._smaller)
            logger.warning("out of GPU memory: looking at %d images at a time from now on", fewer)
            return None
        if len(parts) == 1:
            return parts[0]
        return Outputs(torch.cat([p.features for p in parts]), torch.cat([p.logits for p in parts]))


def even_parts(images: Tensor, most: int) -> list[Tensor]:
    """Parts of at most so many images, of few different sizes: each size is a step to capture."""
    n_parts = max(1, -(-len(images) // most))
    return list(images.split(max(1, -(-len(images) // n_parts))))


def well_taught(labels: Tensor, n_classes: int) -> Tensor:
    """1 for each class that has at least half a fair share of a memory's labels, else 0: (C,).

    Of a class with a sample or two a network learns next to nothing from that memory, while the stream may soon bring
    many: so that the one taught is not to be asked about it.
    """
    counts = F.one_hot(labels, n_classes).sum(dim=0)
    fair_share = counts.sum() / (counts > 0).sum().clamp(min=1)
    return (counts >= FAIR_ENOUGH * fair_share).float()


def by_both(now: Tensor, then: Tensor, taught: Tensor, then_alone: bool) -> Tensor:
    """Predictions of a network as it is and as memory training left it, joined, (N, C).

    `now` is (N, C); `then` (N, C') and `taught` (C',), 1 or 0, know the classes of then. Of a class that was not
    taught, or came since, `now` speaks alone; what is left of 1 the others share, by `then` or by the mean of both.
    """
    n_new = now.shape[1] - len(taught)
    taught = F.pad(taught, (0, n_new))
    then = F.pad(then, (0, n_new)) * taught
    left = (now * taught).sum(dim=1, keepdim=True)
    then = left * then / then.sum(dim=1, keepdim=True).clamp(min=1e-12)
    old = then if then_alone else (then + now * taught) / 2
    return old + now * (1 - taught)
