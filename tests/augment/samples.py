"""Images to test with, and the bridge to Pillow, the reference of every operation."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from puridiver.augment.base import RowDraw

# elsewhere Pillow's compiler may fuse a blend's product and sum, which can move a truncated level by one
PILLOW_BLENDS_UNFUSED = platform.machine() in ("x86_64", "AMD64")
SHAPES = ((3, 32, 32), (1, 8, 8), (3, 11, 7), (1, 4, 9), (3, 40, 64))
DrawT = TypeVar("DrawT", bound=RowDraw)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(n: int, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    return torch.randint(256, (n, *shape), dtype=torch.uint8, generator=generator(seed))


def telling_images(shape: tuple[int, int, int]) -> Tensor:
    """Random images and the extremes: constant, two grey levels, narrow and skewed histograms."""
    noise = random_images(4, shape)
    coin = random_images(3, shape, seed=1) < 100
    constants = [torch.full(shape, level, dtype=torch.uint8) for level in (0, 77, 255)]
    pairs = [
        torch.where(chosen, low, high).to(torch.uint8)
        for chosen, (low, high) in zip(coin, ((0, 255), (10, 11), (200, 90)), strict=True)
    ]
    narrow = noise[0] // 8 + 100
    skewed = (noise[1].float() / 255).pow(4).mul(255).to(torch.uint8)
    ramp = torch.arange(noise[0].numel()).remainder(256).to(torch.uint8).view(shape)
    return torch.stack([*noise, *constants, *pairs, narrow, skewed, ramp])


def by_pillow(images: Tensor, operation: Callable[[Image.Image], Image.Image]) -> Tensor:
    """The operation on each image alone, by Pillow."""
    return torch.stack([_from_pillow(operation(_to_pillow(image))) for image in images])


def assert_rows_independent(
    apply: Callable[[Tensor, DrawT], Tensor], images: Tensor, draw: DrawT, sample_dim: int = 0
) -> None:
    """A batch gives what each of its samples gives alone with its own row, and leaves its input as it was."""
    before = images.clone()
    together = apply(images, draw)
    one_by_one = [apply(images[i : i + 1], draw.rows(slice(i, i + 1))) for i in range(len(images))]
    assert torch.equal(together, torch.cat(one_by_one, sample_dim))
    assert torch.equal(images, before)
    assert together.dtype == torch.uint8


def _to_pillow(image: Tensor) -> Image.Image:
    array = image.permute(1, 2, 0).contiguous().numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _from_pillow(image: Image.Image) -> Tensor:
    array = np.array(image)
    return torch.from_numpy(array if array.ndim == 3 else array[:, :, None]).permute(2, 0, 1)
