"""Rainbow Memory's perturbed copies (Bang et al., CVPR 2021), from which it reads a sample's uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from puridiver.augment.base import RowDraw, check_count, check_images, check_rows
from puridiver.augment.ops_colour import invert, solarise
from puridiver.augment.ops_geometry import rotate

REFERENCE_SIDE = 32
CUTOUT_SIDES = (8, 16, 24, 32)  # pixels of a 32-pixel image
ROTATIONS = (45, 90)
THRESHOLDS = (128, 64, 32)
PERTURBATIONS = (
    *(f"cutout_{side}" for side in CUTOUT_SIDES),
    "flip_horizontal",
    "flip_vertical",
    *(f"rotate_{angle}" for angle in ROTATIONS),
    "invert",
    *(f"solarise_{threshold}" for threshold in THRESHOLDS),
)


@dataclass(frozen=True)
class PerturbationDraw(RowDraw):
    """The centres of each sample's cutouts, rows and columns, (n, 4) each."""

    row: Tensor
    column: Tensor


def draw_perturbations(n: int, height: int, width: int, generator: torch.Generator) -> PerturbationDraw:
    """Draws a centre, uniform over the image, for each cutout of each sample."""
    check_count(n)
    shape = (n, len(CUTOUT_SIDES))
    row = torch.randint(height, shape, generator=generator)
    column = torch.randint(width, shape, generator=generator)
    return PerturbationDraw(row, column)


def perturbations(images: Tensor, draw: PerturbationDraw) -> Tensor:
    """Twelve copies of every image, (12, N, C, H, W), in the order of PERTURBATIONS."""
    check_images(images)
    check_rows(images, draw)
    row, column = (centres.to(images.device, non_blocking=True) for centres in (draw.row, draw.column))
    cutouts = [_cutout(images, side, row[:, i], column[:, i]) for i, side in enumerate(CUTOUT_SIDES)]
    flips = [images.flip(3), images.flip(2)]
    rotations = [rotate(images, angle) for angle in ROTATIONS]
    solarised = [solarise(images, threshold) for threshold in THRESHOLDS]
    return torch.stack([*cutouts, *flips, *rotations, invert(images), *solarised])


def _cutout(images: Tensor, side: int, row: Tensor, column: Tensor) -> Tensor:
    """Blackens a box about each sample's centre, of `side` 32nds of the image's height and width."""
    height, width = images.shape[2:]
    in_rows = _covered(height, side, row).unsqueeze(2)
    in_columns = _covered(width, side, column).unsqueeze(1)
    box = in_rows & in_columns  # (N, H, W)
    return images.masked_fill(box.unsqueeze(1), 0)


def _covered(length: int, side: int, centre: Tensor) -> Tensor:
    """Which of the `length` places an interval about each centre covers, (N, length)."""
    size = max(1, round(side * length / REFERENCE_SIDE))
    start = (centre - size // 2).unsqueeze(1)
    place = torch.arange(length, device=centre.device)
    return (place >= start) & (place < start + size)
