"""Perturbed copies of images, by which Rainbow Memory (Bang et al., CVPR 2021) estimates uncertainty."""

import torch
from torch import Tensor

from puridiver.augment.ops import rotate, solarise

REFERENCE_SIDE = 32
CUTOUT_SIDES = (8, 16, 24, 32)  # pixels of a 32-pixel image
ROTATIONS = (45, 90)
THRESHOLDS = (128, 64, 32)
COPIES = 12  # of each image


def draw_centres(n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw the row and the column of the centre of each cutout uniformly over the image, (2, n, 4)."""
    shape = (n, len(CUTOUT_SIDES))
    return torch.stack([torch.randint(side, shape, generator=generator) for side in (height, width)])


def perturbations(images: Tensor, centres: Tensor) -> Tensor:
    """Make twelve copies of every image, (12, N, C, H, W): cut out, flipped, rotated, inverted and solarised."""
    row, column = centres
    cutouts = [_cutout(images, side, row[:, i], column[:, i]) for i, side in enumerate(CUTOUT_SIDES)]
    flips = [images.flip(3), images.flip(2)]
    rotations = [rotate(images, angle) for angle in ROTATIONS]
    solarised = [solarise(images, threshold) for threshold in THRESHOLDS]
    return torch.stack([*cutouts, *flips, *rotations, 255 - images, *solarised])


def _cutout(images: Tensor, side: int, row: Tensor, column: Tensor) -> Tensor:
    """Blacken a box around each centre; its height and width are `side` 32nds of the image's."""
    in_rows, in_columns = _covered(images.shape[2], side, row), _covered(images.shape[3], side, column)
    box = in_rows.unsqueeze(2) & in_columns.unsqueeze(1)  # (N, H, W)
    return images.masked_fill(box.unsqueeze(1), 0)


def _covered(length: int, side: int, centre: Tensor) -> Tensor:
    """Mark the places (of `length`) that an interval around each centre covers, (N, length)."""
    size = max(1, round(side * length / REFERENCE_SIDE))
    start = (centre - size // 2).unsqueeze(1)
    place = torch.arange(length, device=centre.device)
    return (place >= start) & (place < start + size)
