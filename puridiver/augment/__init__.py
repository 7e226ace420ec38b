"""Batched augmentation of uint8 images (N, C, H, W) or vectors (N, d) on any device: draw on the host, then apply.

Every function returns new images and never changes its input. The same generator state gives the same images on CPU
and GPU. A batch gives the same images as its samples would give one by one.
"""

from puridiver.augment.augmentation import Augmentation, augmentation_for, noisy
from puridiver.augment.base import Policy
from puridiver.augment.policies import POLICIES
from puridiver.augment.views import (
    crop_flip,
    crop_flip_view,
    draw_crop_flip,
    draw_cutmix_plan,
    draw_mixup_plan,
    planned_cut,
    planned_mix,
    planned_shares,
    repeated,
    to_float,
    views_at_once,
)

__all__ = [
    "POLICIES", "Augmentation", "Policy", "augmentation_for", "crop_flip", "crop_flip_view", "draw_crop_flip",
    "draw_cutmix_plan", "draw_mixup_plan", "noisy", "planned_cut", "planned_mix", "planned_shares",
    "repeated", "to_float", "views_at_once",
]  # fmt: skip
