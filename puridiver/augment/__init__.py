"""Batched augmentation of uint8 images (N, C, H, W) or vectors (N, d) on any device: draw on the host, then apply.

Every function returns new images and never changes its input. The same generator state gives the same images on CPU
and GPU. A batch gives the same images as its samples would give one by one.
"""

from puridiver.augment.augmentation import Augmentation, augmentation_for, noisy
from puridiver.augment.policies import POLICIES
from puridiver.augment.views import draw_mixup_plan, planned_mix, repeated, to_float, views_at_once

__all__ = [
    "POLICIES", "Augmentation", "augmentation_for", "draw_mixup_plan", "noisy", "planned_mix", "repeated", "to_float",
    "views_at_once",
]  # fmt: skip
