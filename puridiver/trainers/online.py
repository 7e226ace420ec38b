"""Learning online: what one step on the stream learns from and tells, and all that is random about it."""

from typing import NamedTuple

import torch
from torch import Tensor

from puridiver.augment import Augmentation
from puridiver.augment.views import crop_flip, draw_crop_flip
from puridiver.memory import Samples
from puridiver.options import Options

PLANS_AT_ONCE = 16  # steps for which all that is random is drawn at once


class StreamBatch(NamedTuple):
    """A batch of the stream, and the memory samples that join it."""

    images: Tensor  # uint8 (N, C, H, W), or vectors
    labels: Tensor  # (N,): class ids
    replay: Samples | None = None  # augmented already
    freeze_norm: bool = False  # BatchNorm goes by its running statistics
    targets: Tensor | None = None  # (N, C): what the batch teaches instead of its labels


class OnlineBatch(NamedTuple):
    """What one online step learns from: the stream's samples, then the replayed ones."""

    images: Tensor  # uint8 (N, C, H, W)
    targets: Tensor  # (N, C): shares of classes
    n_stream: int
    vectors: Tensor  # (R, d): those that replayed samples were kept with; (0, 0) without any


class Learnt(NamedTuple):
    """What an online step tells."""

    loss: Tensor  # (): the batch's cross-entropy, Eq. 3
    logits: Tensor  # (N, C): of the training pass


class OnlinePlans:
    """Draws what is random about online steps, many steps at once: small draws cost a host more than they should.

    A plan is a row of integers: the mixing of n images and, with the option `online_crop_flip`, a move of each.
    """

    def __init__(self, options: Options, augmentation: Augmentation, generator: torch.Generator) -> None:
        self._options, self._augmentation, self._generator = options, augmentation, generator
        self.stock: Tensor | None = None  # (plans, width): those to come

    def next(self, n: int, n_stream: int) -> Tensor:
        """The plan of a step on n images, of which the first come from the stream."""
        o, stock = self._options, self.stock
        mixing = n + self._augmentation.mixing_width
        if stock is None or not len(stock) or stock.shape[1] != mixing + 3 * n * o.online_crop_flip:
            stock = self._augmentation.mixing_plan(PLANS_AT_ONCE, n, o.online_cutmix, self._generator)
            if o.online_crop_flip:
                moves = draw_crop_flip(PLANS_AT_ONCE * n, o.crop_padding, o.flip, self._generator)
                stock = torch.cat([stock, *moves.view(3, PLANS_AT_ONCE, n)], dim=1)
        plan, self.stock = stock[0], stock[1:]
        if o.online_crop_flip:  # leave replayed samples as they are: their views have moved
            moves = plan[mixing:].view(3, n)
            moves[:2, n_stream:], moves[2, n_stream:] = o.crop_padding, 0
        return plan

    def applied(self, plan: Tensor, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Images and soft targets, moved and mixed by a plan."""
        n = len(images)
        mixing = n + self._augmentation.mixing_width
        if self._options.online_crop_flip:
            images = crop_flip(images, plan[mixing:].view(3, n), self._options.crop_padding)
        if self._options.online_cutmix:
            images = self._augmentation.mix(images, plan[:mixing])
            targets = self._augmentation.share(targets, plan[:mixing])
        return images, targets

    def load(self, stock: Tensor | None) -> None:
        if stock is not None and (stock.ndim != 2 or stock.dtype != torch.int64):
            raise ValueError(f"online_plans should be int64 (plans, width), but is {tuple(stock.shape)}")
        self.stock = stock
