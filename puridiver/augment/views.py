"""What trainers do to batches: crop and flip, Mixup, and the scaling to network input.

Mixup (Zhang et al., ICLR 2018) mixes a batch with a permutation of itself. A plan holds the draws of many batches as
int64 rows on the device. Applying a row reads no value on the host.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def draw_crop_flip(n: int, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Draw the top and the left (0 to 2 * padding) of each crop and, if `flip`, whether to mirror it: int64 (3, n)."""
    places = torch.randint(2 * padding + 1, (2, n), generator=generator)
    coin = torch.rand(1, n, generator=generator) < 0.5
    return torch.cat([places, coin.long() * flip])


def crop_flip(images: Tensor, draw: Tensor, padding: int) -> Tensor:
    """Crop each zero-padded image at its own place, then mirror those that the draw says."""
    top, left, flip = draw.to(images.device, non_blocking=True)
    cropped = images
    if padding:
        n, _, height, width = images.shape
        # a view of all possible crops: (N, C, 2 * padding + 1, 2 * padding + 1, H, W)
        crops = F.pad(images, [padding] * 4).unfold(2, height, 1).unfold(3, width, 1)
        cropped = crops[torch.arange(n, device=images.device), :, top, left]
    return torch.where(flip.bool().view(-1, 1, 1, 1), cropped.flip(3), cropped)


def crop_flip_view(images: Tensor, padding: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Crop and flip at random."""
    return crop_flip(images, draw_crop_flip(len(images), padding, flip, generator), padding)


def draw_mixup_plan(steps: int, n: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draw for many batches of n: int64 (steps, n + 1), the partners, then the bits of lam as float64.

    As in MixMatch, lam is the larger of the two shares.
    """
    partners = torch.rand(steps, n, generator=generator).argsort(dim=1)
    beta = beta_samples(steps, alpha, generator)
    lam = torch.maximum(beta, 1 - beta)
    return torch.cat([partners, lam.view(torch.int64)[:, None]], dim=1)


def planned_mix(tensor: Tensor, row: Tensor) -> Tensor:
    """Mixup of images or targets by one row of a plan: `lam * tensor + (1 - lam) * tensor[partner]`."""
    lam = row[-1:].view(torch.float64).to(tensor.dtype)
    return lam * tensor + (1 - lam) * tensor[row[:-1]]


def beta_samples(n: int, alpha: float, generator: torch.Generator) -> Tensor:
    """Draw from the symmetric Beta(alpha, alpha) distribution, float64 (n,)."""
    # torch has no public Beta that takes a generator, so the generator seeds NumPy's
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, alpha, size=n))


def views_at_once(images: Tensor) -> int:
    """How many samples of this size to augment in one pass.

    A pass took an H200 7.8 ms for 500 small images and 11.3 ms for 5,000; at 224 px so many would take gigabytes.
    """
    return min(5_000, (64 << 20) // images[0].nbytes)


def repeated(samples: Tensor, times: int) -> Tensor:
    """The whole batch, `times` times in a row."""
    return samples.repeat(times, *(1 for _ in samples.shape[1:]))


def to_float(images: Tensor) -> Tensor:
    """Scale grey levels to network input, float32 in [-2, 2] and channels-last; vectors stay as they are.

    One scaling for every source: a stream's own statistics are not known before it has passed.
    """
    if images.ndim == 2:
        return images
    return ((images / 255 - 0.5) / 0.25).contiguous(memory_format=torch.channels_last)
