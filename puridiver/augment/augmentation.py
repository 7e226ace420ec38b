"""How a learner varies and mixes its samples: images by crop, mirror, policy and CutMix; vectors by noise and Mixup."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from puridiver.augment import views
from puridiver.augment.policies import POLICIES


class Augmentation:
    """Of images: crop and mirror, then for the strong view a policy; CutMix (Yun et al., ICCV 2019).

    Draws come from a generator on the host. A plan of mixing has a row for each batch of n: the n partners, then
    `mixing_width` numbers. `mix` and `share` apply a row to samples and to their soft targets.
    """

    mixing_width = 4

    def __init__(self, input_shape: tuple[int, ...], options: Mapping[str, Any]) -> None:
        self.input_shape, self.options = input_shape, options

    def moved(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """The usual augmentation."""
        return views.crop_flip_view(samples, self.options["crop_padding"], self.options["flip"], generator)

    def strong(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """s(.) of the paper."""
        return POLICIES[self.options["strong"]].apply(self.moved(samples, generator), generator)

    def weak(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        """w(.) of the paper: flip at random, alone or with a crop. Without flips always crop: views must differ."""
        o = self.options
        padding = 0 if o["flip"] and o["weak"] == "flip" else o["crop_padding"]
        return views.crop_flip_view(samples, padding, o["flip"], generator)

    def mixing_plan(self, steps: int, n: int, probability: float, generator: torch.Generator) -> Tensor:
        """Draw for many batches of n: int64 (steps, n + mixing_width). A batch is mixed with this probability.

        The numbers are a box y0, y1, x0, x1, which is empty where a batch is not mixed. It covers 1 - Beta(1, 1) of the
        image before it is clipped at the border.
        """
        partners = torch.rand(steps, n, generator=generator).argsort(dim=1)
        sides = (1 - views.beta_samples(steps, 1.0, generator)).sqrt().float()
        wanted = (torch.rand(steps, generator=generator) < probability) & (n > 1)
        box = []
        for length in self.input_shape[:2]:
            half = (length * sides * wanted).long() // 2
            centre = torch.randint(length, (steps,), generator=generator)
            box += [(centre - half).clamp(min=0), (centre + half).clamp(max=length)]
        return torch.cat([partners, torch.stack(box, dim=1)], dim=1)

    def left_alone(self, row: Tensor) -> Tensor:
        """Whether a row leaves its batch unmixed, bool ()."""
        y0, y1, x0, x1 = row[-4:]
        return (y0 >= y1) | (x0 >= x1)

    def mix(self, samples: Tensor, row: Tensor) -> Tensor:
        """Show in the box of each image the same box of its partner."""
        n, _, height, width = samples.shape
        partner, (y0, y1, x0, x1) = row[:n], row[n:]
        y = torch.arange(height, device=samples.device)
        x = torch.arange(width, device=samples.device)
        inside = ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
        return torch.where(inside, samples[partner], samples)

    def share(self, targets: Tensor, row: Tensor) -> Tensor:
        """A target keeps the share of the pixels that its image keeps."""
        partner, (y0, y1, x0, x1) = row[: len(targets)], row[len(targets) :]
        lam = 1 - ((y1 - y0) * (x1 - x0)).to(targets.dtype) / (self.input_shape[0] * self.input_shape[1])
        return lam * targets + (1 - lam) * targets[partner]


class VectorAugmentation(Augmentation):
    """Of vectors: noise of `vector_noise`, for the weak view half of it; Mixup in the place of CutMix."""

    mixing_width = 1

    def moved(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        return noisy(samples, self.options["vector_noise"], generator)

    def strong(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        return self.moved(samples, generator)

    def weak(self, samples: Tensor, generator: torch.Generator) -> Tensor:
        return noisy(samples, self.options["vector_noise"] / 2, generator)

    def mixing_plan(self, steps: int, n: int, probability: float, generator: torch.Generator) -> Tensor:
        """As for CutMix, the partner's share is uniform (here up to a half)."""
        plan = views.draw_mixup_plan(steps, n, 1.0, generator)
        left_alone = (torch.rand(steps, generator=generator) >= probability) | (n == 1)
        plan[left_alone, -1] = torch.ones(1, dtype=torch.float64).view(torch.int64)  # lam = 1
        return plan

    def left_alone(self, row: Tensor) -> Tensor:
        return (row[-1:].view(torch.float64) == 1).squeeze(0)

    def mix(self, samples: Tensor, row: Tensor) -> Tensor:
        return views.planned_mix(samples, row)

    def share(self, targets: Tensor, row: Tensor) -> Tensor:
        return views.planned_mix(targets, row)


def augmentation_for(input_shape: tuple[int, ...], options: Mapping[str, Any]) -> Augmentation:
    """For images (height, width, channels) or vectors (d,)."""
    kind = VectorAugmentation if len(input_shape) == 1 else Augmentation
    return kind(input_shape, options)


def noisy(vectors: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Add normal noise to vectors (N, d), in units of each number's standard deviation over the batch.

    A batch of one has no deviation and stays as it is.
    """
    noise = torch.randn(vectors.shape, generator=generator).to(vectors.device, non_blocking=True)
    return vectors + strength * vectors.std(dim=0, correction=0) * noise
