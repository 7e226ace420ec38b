"""Batched augmentation of uint8 images (N, C, H, W) on any device: draw on the host, then apply.

Every function gives new images and leaves its input alone. The same generator state gives the same images on
CPU and GPU, and a batch gives what its samples alone would give.
"""

from puridiver.augment.autoaugment import CIFAR10_POLICY, AutoAugmentDraw, autoaugment, draw_autoaugment
from puridiver.augment.crop_flip import (
    CropFlipDraw,
    crop_flip,
    draw_crop_flip,
    draw_crop_flip_plan,
    leave_unmoved,
    planned_crop_flip,
)
from puridiver.augment.cutmix import (
    CutMixDraw,
    cutmix,
    draw_cutmix,
    draw_cutmix_plan,
    planned_cut,
    planned_cutmix,
    planned_shares,
)  # fmt: skip
from puridiver.augment.mixup import MixupDraw, beta_sample, beta_samples, draw_mixup, draw_mixup_plan, mix, planned_mix
from puridiver.augment.rainbow import PERTURBATIONS, PerturbationDraw, draw_perturbations, perturbations
from puridiver.augment.simclr import SimCLRDraw, draw_simclr, simclr_view
from puridiver.augment.views import ViewSettings, crop_flip_view, strong_view, to_float, weak_view

__all__ = [
    "CIFAR10_POLICY",
    "PERTURBATIONS",
    "AutoAugmentDraw",
    "CropFlipDraw",
    "CutMixDraw",
    "MixupDraw",
    "PerturbationDraw",
    "SimCLRDraw",
    "ViewSettings",
    "autoaugment",
    "beta_sample",
    "beta_samples",
    "crop_flip",
    "crop_flip_view",
    "cutmix",
    "draw_autoaugment",
    "draw_crop_flip",
    "draw_crop_flip_plan",
    "draw_cutmix",
    "draw_cutmix_plan",
    "draw_mixup",
    "draw_mixup_plan",
    "draw_perturbations",
    "draw_simclr",
    "leave_unmoved",
    "mix",
    "perturbations",
    "planned_crop_flip",
    "planned_cut",
    "planned_cutmix",
    "planned_mix",
    "planned_shares",
    "simclr_view",
    "strong_view",
    "to_float",
    "weak_view",
]
