"""SPR's expert and its base: a network that learns from images alone, by SimCLR (Chen et al., 2020)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from puridiver import augment
from puridiver.augment.ops import enhance
from puridiver.nets import Network, global_draws, make_new
from puridiver.options import Option, Options
from puridiver.runtime.adam import adam
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import TrainableModel
from puridiver.runtime.plans import Buffers, PlanRunner

PROJECTION = 128
ENCODER_OPTIONS = {
    "spr_budget": Option(1.0, "share of SPR's self-supervised epochs, 1 as published", low=0),
    "spr_lr": Option(3e-4, "learning rate of self-supervised training (Adam)", low=0),
    "spr_batch": Option(500, "images of a self-supervised batch", low=2),
    "spr_temperature": Option(0.5, "temperature of the self-supervised loss", low=1e-3),
    "spr_crop": Option(0.2, "smallest share of an image that a view may show", low=0.01, high=1),
}

JITTERED = 0.8  # share of views with colour jitter
STRENGTH = 0.4  # largest change of brightness, contrast and saturation
HUE = 0.1  # largest change of hue, in whole turns
GREY = 0.2  # share of views without colour
RATIOS = (3 / 4, 4 / 3)  # smallest and largest width / height of a crop
# RGB to luma and two chroma axes; hue is an angle in the plane of the chroma axes
YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


def nt_xent(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """SimCLR's loss, (): each of 2 N projections has to find its partner among the 2 N - 1 others, by cosine."""
    n = len(first)
    z = F.normalize(torch.cat([first, second]), dim=1)
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    similarity = (z @ z.T / temperature).masked_fill(itself, -torch.inf)
    partner = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(similarity, partner)


def scaled_epochs(published: int, budget: float) -> int:
    """The published number of epochs by the budget; at least one, unless either is 0."""
    return max(1, round(published * budget)) if published and budget else 0


class Projection(nn.Module):
    """Two layers between the features and the space in which views are compared, in the place of a classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, PROJECTION)

    def forward(self, features: Tensor) -> Tensor:
        return self.out(F.relu(self.hidden(features)))


class Encoder:
    """A network with a projection for its head. Its weights mean nothing before the first `restart`."""

    def __init__(self, network: Network, runtime: Runtime, options: Options) -> None:
        with global_draws():
            network.add_module("head", Projection(network.head.linear.in_features))
        self.network, self.options = network, options
        self.model, self.buffers = TrainableModel(network, runtime, adam), Buffers()
        self._run = PlanRunner(runtime, self._step, self.model, self.buffers)

    def restart(self, generator: torch.Generator) -> None:
        """As if the network were new. In place, so that captured steps stay good."""
        make_new(self.network, generator)

    def learn(self, images: Tensor, epochs: int, generator: torch.Generator) -> None:
        """Train on pairs of views of the images, with a fresh optimiser."""
        if not epochs:
            return
        self.model.reset_optimiser(self.options.spr_lr)
        # Epochs in blocks of one size, so that the views of each have the same place.
        blocks = -(-epochs // max(1, augment.views_at_once(images) // (2 * len(images))))
        per_block = -(-epochs // blocks)
        for start in range(0, epochs, per_block):
            self._learn_block(images, per_block, min(per_block, epochs - start), generator)

    def _learn_block(self, images: Tensor, n_views: int, epochs: int, generator: torch.Generator) -> None:
        n = len(images)
        copies, o = augment.repeated(images, 2 * n_views), self.options
        if images.ndim == 2:
            views = augment.noisy(copies, o.vector_noise, generator)
        else:
            views = simclr_view(copies, o.spr_crop, o.flip, generator)
        self.buffers.put("views", views)
        size = min(n, self.options.spr_batch)
        plans = []
        for epoch in range(epochs):
            order = torch.randperm(n, generator=generator)[: n - n % size].view(-1, size) + 2 * n * epoch
            plans.append(torch.cat([order, order + n], dim=1))  # both views of the same images
        self._run(torch.cat(plans))

    def _step(self, row: Tensor) -> None:
        first, second = self.model.logits(self.buffers["views"][row]).chunk(2)
        self.model.step(nt_xent(first, second, self.options.spr_temperature))

    def projections(self, images: Tensor) -> Tensor:
        """The images in the space in which the views are compared, (N, 128)."""
        return self.model.outputs(images).logits


# Views -------------------------------------------------------------------------------------------------------------


def simclr_view(images: Tensor, smallest_crop: float, flip: bool, generator: torch.Generator) -> Tensor:
    """Crop, mirror and recolour each image; a crop covers a share of the image from `smallest_crop` to 1."""
    u = torch.rand(11, len(images), generator=generator)
    area = smallest_crop + (1 - smallest_crop) * u[0]
    low, high = (math.log(ratio) for ratio in RATIOS)
    side = (low + (high - low) * u[1]).mul(0.5).exp()
    width, height = (area.sqrt() * side).clamp(max=1), (area.sqrt() / side).clamp(max=1)
    x, y = (1 - width) * (2 * u[6] - 1), (1 - height) * (2 * u[7] - 1)
    view = resized_crop(images, torch.where((u[8] < 0.5) & flip, -width, width), height, x, y)
    jitter = (u[2] < JITTERED).float()
    bright, contrast, saturation = 1 + jitter * STRENGTH * (2 * u[3:6] - 1)
    view = enhance(enhance(view, bright, "brightness"), contrast, "contrast")
    if images.shape[1] == 1:
        return view
    view = turn_hue(enhance(view, saturation, "colour"), jitter * HUE * (2 * u[9] - 1))
    grey = (u[10] < GREY).to(images.device, non_blocking=True)
    return torch.where(grey.view(-1, 1, 1, 1), enhance(view, 0.0, "colour"), view)


def resized_crop(images: Tensor, width: Tensor, height: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Cut out each crop and stretch it to the whole image bilinearly; (N,) each, a negative width mirrors.

    Width and height are shares of the image, the centre x, y is in [-1, 1].
    """
    zero = torch.zeros_like(width)
    rows = [torch.stack([width, zero, x], 1), torch.stack([zero, height, y], 1)]
    matrices = torch.stack(rows, 1).to(images.device, non_blocking=True)  # (N, 2, 3)
    grid = F.affine_grid(matrices, list(images.shape), align_corners=False)
    cropped = F.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
    return cropped.round_().to(torch.uint8)


def turn_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Rotate each image's hue by a share of the colour circle; luma stays."""
    to_yiq = torch.tensor(YIQ)
    angle = turns * 2 * math.pi
    turn = torch.eye(3).repeat(len(turns), 1, 1)
    turn[:, 1, 1] = turn[:, 2, 2] = angle.cos()
    turn[:, 2, 1], turn[:, 1, 2] = angle.sin(), -angle.sin()
    matrices = (to_yiq.inverse() @ turn @ to_yiq).to(images.device, non_blocking=True)  # (N, 3, 3)
    turned = torch.einsum("nij,njhw->nihw", matrices, images.float())
    return turned.round_().clamp_(0, 255).to(torch.uint8)
