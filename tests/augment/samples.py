"""Test images, and Pillow as the reference of every operation."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

# elsewhere Pillow's compiler may fuse a blend's product and sum, which can move a truncated level by one
PILLOW_BLENDS_UNFUSED = platform.machine() in ("x86_64", "AMD64")
SHAPES = ((3, 32, 32), (1, 8, 8), (3, 11, 7), (1, 4, 9))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(n: int, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    return torch.randint(256, (n, *shape), dtype=torch.uint8, generator=generator(seed))


def telling_images(shape: tuple[int, int, int]) -> Tensor:
    """Random images and extremes: constant, two grey levels, narrow and skewed histograms."""
    noise = random_images(2, shape)
    coin = random_images(1, shape, seed=1)[0] < 100
    constants = [torch.full(shape, level, dtype=torch.uint8) for level in (0, 77, 255)]
    pairs = [torch.where(coin, low, high).to(torch.uint8) for low, high in ((0, 255), (10, 11), (200, 90))]
    narrow = noise[0] // 8 + 100
    skewed = (noise[1].float() / 255).pow(4).mul(255).to(torch.uint8)
    ramp = torch.arange(noise[0].numel()).remainder(256).to(torch.uint8).view(shape)
    return torch.stack([*noise, *constants, *pairs, narrow, skewed, ramp])


def by_pillow(images: Tensor, operation: Callable[[Image.Image], Image.Image]) -> Tensor:
    """Apply a Pillow operation to each image."""
    results = []
    for image in images:
        array = image.permute(1, 2, 0).contiguous().numpy()
        found = np.array(operation(Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)))
        results.append(torch.from_numpy(found if found.ndim == 3 else found[:, :, None]).permute(2, 0, 1))
    return torch.stack(results)


def rows(draw: Any, index: slice) -> Any:
    """The draw of some samples, where every tensor of it has a row for each."""
    return type(draw)(*(part[index] for part in draw))


def assert_uniform(draws: Tensor, n_values: int) -> None:
    """Each of the values occurs as often as the others, within five standard deviations of a binomial count."""
    counts, expected = draws.flatten().bincount(minlength=n_values), draws.numel() / n_values
    assert len(counts) == n_values
    assert (counts - expected).abs().max() < 5 * (expected * (1 - 1 / n_values)) ** 0.5
