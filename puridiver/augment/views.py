"""The weak and the strong view that trainers learn from, and the scaling of images to network input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from puridiver.augment.base import check_images
from puridiver.augment.crop_flip import crop_flip, draw_crop_flip
from puridiver.augment.policies import POLICIES

WEAK_POLICIES = ("flip", "crop_flip")


@dataclass(frozen=True)
class ViewSettings:
    """Which augmentations keep an image's class.

    Parameters
    ----------
    crop_padding
        Pixels of zero padding before the random crop.
    flip
        Whether a mirrored image still shows its class (not so for digits).
    strong
        Name of the policy in `POLICIES` that the strong view adds to crop and flip.
    weak
        The weak view: "flip" or "crop_flip".
    """

    crop_padding: int = 4
    flip: bool = True
    strong: str = "autoaugment"
    weak: str = "flip"

    def __post_init__(self) -> None:
        if self.crop_padding < 0:
            raise ValueError(f"crop_padding should be 0 or more pixels, but got {self.crop_padding}")
        for name, policies in (("strong", tuple(POLICIES)), ("weak", WEAK_POLICIES)):
            if getattr(self, name) not in policies:
                allowed = " or ".join(repr(policy) for policy in policies)
                raise ValueError(f"{name} should be {allowed}, but got {getattr(self, name)!r}")


def crop_flip_view(images: Tensor, settings: ViewSettings, generator: torch.Generator) -> Tensor:
    """Crop and flip at random."""
    return crop_flip(images, draw_crop_flip(len(images), settings.crop_padding, settings.flip, generator))


def strong_view(images: Tensor, settings: ViewSettings, generator: torch.Generator) -> Tensor:
    """Crop and flip at random, then apply the strong policy."""
    return POLICIES[settings.strong].apply(crop_flip_view(images, settings, generator), generator)


def weak_view(images: Tensor, settings: ViewSettings, generator: torch.Generator) -> Tensor:
    """Flip at random, alone or with a crop. Without flips always crop, since the view has to differ."""
    padding = 0 if settings.flip and settings.weak == "flip" else settings.crop_padding
    return crop_flip(images, draw_crop_flip(len(images), padding, settings.flip, generator))


def to_float(images: Tensor, mean: Sequence[float] | Tensor, std: Sequence[float] | Tensor) -> Tensor:
    """Scale grey levels 0..255 to float32 `(images / 255 - mean) / std`, with one mean and std per channel."""
    check_images(images)
    return (images / 255 - _per_channel(mean, images)) / _per_channel(std, images)


def _per_channel(values: Sequence[float] | Tensor, images: Tensor) -> Tensor:
    tensor = torch.as_tensor(values, dtype=torch.float32)
    if tensor.shape != images.shape[1:2]:
        raise ValueError(
            f"mean and std should have one number for each of the {images.shape[1]} channels, "
            f"but got the shape {tuple(tensor.shape)}"
        )
    return tensor.to(images.device, non_blocking=True).view(-1, 1, 1)  # (C, 1, 1)
