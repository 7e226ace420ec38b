"""Networks from elsewhere that turn images into features: any `torch.nn.Module`, or a name, `timm:...` or `hf:...`.

A frozen backbone turns each image into a vector once, when it arrives. All else is a learner of vectors: the memory
holds features, so that a consolidation trains the head alone, and augmentation is noise and Mixup on features. A
backbone that is fine-tuned is a network like any other: the memory holds images, which are augmented as images.
"""

import copy
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.nets.base import Head, Network, Outputs
from puridiver.options import Options

NAMED = "backbone"  # what a fine-tuned backbone is called among networks
AT_ONCE = 256  # images of one pass


@dataclass(frozen=True, eq=False)
class Backbone:
    """A module that maps images to features, and how it wants its images.

    Parameters
    ----------
    module
        Takes float32 images (N, C, H, W) and returns features (N, d), a map of them (N, d, H, W), whose mean is taken,
        or an output of transformers. The learner puts it on its device, and a frozen one into eval mode.
    mean, std
        The module sees (pixels / 255 - mean) / std; a number, or one for each channel. With three, grey images are
        repeated. The default is the scaling of the package's own networks.
    size
        Height and width to which images are resized first; None: as they come.
    rate
        Its learning rate as a share of the learner's. 0: frozen.
    """

    module: nn.Module
    mean: float | Sequence[float] = 0.5
    std: float | Sequence[float] = 0.25
    size: int | None = None
    rate: float = 0.0
    name: str = ""  # by which it can be made again

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise ValueError(f"a backbone should be a torch.nn.Module, but got a {type(self.module).__name__}")
        if not isinstance(self.rate, Real) or not 0 <= self.rate <= 100:
            raise ValueError(f"the rate of a backbone should be from 0 (frozen) to 100, but got {self.rate!r}")
        for what, values in zip(("mean", "std"), self.scaling, strict=True):
            if len(values) not in (1, 3) or not all(what == "mean" or value > 0 for value in values):
                raise ValueError(f"{what} of a backbone should be a number or three, a std above 0, but got {values}")
        if self.is_frozen:
            self.module.eval()

    @classmethod
    def named(cls, name: str, rate: float = 0.0) -> "Backbone":
        """A backbone by name, "timm:..." or "hf:...", frozen or with a learning rate of its own."""
        found = as_backbone(name) if isinstance(name, str) else None
        if found is None:
            raise ValueError(f"a backbone's name should be timm:... or hf:..., but is {name!r}")
        return replace(found, rate=rate)

    @property
    def is_frozen(self) -> bool:
        return self.rate == 0

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of the weights of a frozen module; empty for others, whose weights a learner saves."""
        if not self.is_frozen:
            return ""
        found = hashlib.sha256()
        for name, value in sorted(self.module.state_dict().items()):
            found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            found.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return found.hexdigest()

    def settings(self) -> dict[str, Any]:
        """What a save says of it, as JSON can hold it."""
        told = {"mean": [*self.scaling[0]], "std": [*self.scaling[1]]}
        return {**told, "size": self.size, "rate": self.rate, "name": self.name, "digest": self.digest}

    @property
    def scaling(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each channel, or of all."""
        return _numbers(self.mean), _numbers(self.std)

    def width(self, input_shape: tuple[int, ...]) -> int:
        """How many features an image of this shape (height, width, channels) gets."""
        if len(input_shape) != 3:
            raise ValueError(f"a backbone takes images (height, width, channels), but the input is {input_shape}")
        height, width, channels = input_shape
        device = next((value.device for value in self.module.parameters()), torch.device("cpu"))
        try:
            with torch.no_grad():
                self.module.eval()
                return self.map(self.module, torch.zeros(2, channels, height, width, device=device)).shape[1]
        except (RuntimeError, TypeError) as error:
            raise ValueError(f"the backbone cannot take images of the shape {input_shape}: {error}") from error

    def features(self, images: Tensor) -> Tensor:
        """Features, float32 (N, d), of uint8 images (N, C, H, W), without gradients."""
        with torch.no_grad():
            return torch.cat([self.map(self.module, part / 255) for part in images.split(AT_ONCE)])

    def map(self, module: nn.Module, pixels: Tensor) -> Tensor:
        """Features of pixels from 0 to 1, float32 (N, C, H, W), by this module or a copy of it."""
        if self.size is not None and tuple(pixels.shape[2:]) != (self.size, self.size):
            pixels = F.interpolate(pixels, (self.size, self.size), mode="bilinear", antialias=True)
        return _as_features(module(self._scaled(pixels)))

    def _scaled(self, pixels: Tensor) -> Tensor:
        """By numbers and not by tensors: a captured step could not move these to the GPU."""
        mean, std = self.scaling
        n = max(len(mean), len(std))
        if n == 1:
            return (pixels - mean[0]) / std[0]
        channels = pixels.expand(-1, n, -1, -1).split(1, dim=1)
        means, deviations = mean * (n // len(mean)), std * (n // len(std))
        return torch.cat([(one - m) / s for one, m, s in zip(channels, means, deviations, strict=True)], dim=1)


def _numbers(value: float | Sequence[float]) -> tuple[float, ...]:
    return tuple(map(float, value)) if isinstance(value, Sequence) else (float(value),)


def _as_features(found: Any) -> Tensor:
    """Features (N, d) from what modules return."""
    if isinstance(found, Outputs):  # of the package's networks
        found = found.features
    elif isinstance(found, Mapping):  # of transformers
        pooled, hidden = found.get("pooler_output"), found.get("last_hidden_state")
        if pooled is None and isinstance(hidden, Tensor) and hidden.ndim == 3:
            pooled = hidden.mean(dim=1)  # over the tokens
        found = hidden if pooled is None else pooled
    if isinstance(found, Tensor) and found.ndim == 4:
        found = found.mean(dim=(2, 3))
    if not isinstance(found, Tensor) or found.ndim != 2 or not found.is_floating_point():
        came = f"{found.dtype} {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise ValueError(f"a backbone should return features, floats (N, d) or (N, d, H, W), but returned {came}")
    return found.float()


# By name -----------------------------------------------------------------------------------------------------------


def _from_timm(name: str) -> Backbone:
    import timm

    module = timm.create_model(name, pretrained=True, num_classes=0)
    told = timm.data.resolve_model_data_config(module)
    return Backbone(module, told["mean"], told["std"], told["input_size"][1], name=f"timm:{name}")


def _from_transformers(name: str) -> Backbone:
    from transformers import AutoModel
    from transformers.image_processing_base import ImageProcessingMixin

    told = ImageProcessingMixin.get_image_processor_dict(name)[0]
    size = told.get("crop_size" if told.get("do_center_crop") else "size", {"height": None})
    side = size if isinstance(size, int) else size.get("height", size.get("shortest_edge"))
    module = AutoModel.from_pretrained(name)
    mean, std = (told.get("image_mean", 0.5), told.get("image_std", 0.5)) if told.get("do_normalize", True) else (0, 1)
    return Backbone(module, mean, std, side, name=f"hf:{name}")


LIBRARIES = {"timm": ("timm", _from_timm), "hf": ("transformers", _from_transformers)}


def is_backbone(network: object) -> bool:
    """Whether a learner's `network` is a backbone: an object, or a name such as "timm:resnet18"."""
    if isinstance(network, str):
        return network.partition(":")[0] in LIBRARIES and ":" in network
    return isinstance(network, Backbone | nn.Module)


def as_backbone(network: Any) -> Backbone | None:
    """The backbone that a learner's `network` is or names; None where it is another network."""
    if not is_backbone(network):
        return None
    if isinstance(network, str):
        library, make = LIBRARIES[network.partition(":")[0]]
        try:
            return make(network.partition(":")[2])
        except ImportError as error:
            raise ValueError(f"network {network!r} needs {library}: pip install {library} ({error})") from error
        except (OSError, RuntimeError, KeyError) as error:  # no such model, or no connection
            raise ValueError(f"network {network!r} cannot be loaded by {library}: {error}") from error
    return network if isinstance(network, Backbone) else Backbone(network)


def fine_tuned(backbone: Backbone) -> type[Network]:
    """The class of networks that learn with a copy of the backbone, each parameter of it at the backbone's rate."""

    class FineTuned(Network):
        name = title = NAMED
        summary = "a backbone from elsewhere"

        def __init__(self, n_classes: int, input_shape: tuple[int, ...], settings: Options) -> None:
            super().__init__()
            self.module = copy.deepcopy(backbone.module).cpu().requires_grad_()  # `Runtime.place` moves it
            self.head = Head(backbone.width(input_shape), n_classes, settings)

        @classmethod
        def is_own(cls) -> bool:
            return False

        def rate_share(self, parameter: str) -> float:
            return backbone.rate if parameter.startswith("module.") else 1.0

        def features(self, images: Tensor) -> Tensor:
            return backbone.map(self.module, images * 0.25 + 0.5)  # undoes `to_float`

    return FineTuned
