"""What the labels around a sample say: votes of its nearest neighbours in a learner's features, itself left out."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 1024  # samples compared with all others at once: bounds memory, 200 MB for 50,000 samples
SOFTNESS = 0.1  # of the weight by cosine: a neighbour that is 0.1 further counts 1/e as much


def neighbour_votes(features: Tensor, given: Tensor, n_classes: int, n_neighbours: int) -> Tensor:
    """The share of each class among the labels of the nearest neighbours, closer ones counting more, (N, C).

    `features` are (N, d), `given` (N,) class ids. With a single sample there is nobody to ask: all shares are 0.
    """
    unit = F.normalize(features.float(), dim=1)
    n_neighbours = min(n_neighbours, len(unit) - 1)
    if n_neighbours < 1:
        return unit.new_zeros(len(unit), n_classes)
    rows = torch.arange(len(unit), device=unit.device)
    return torch.cat([_votes(unit, given, part, n_classes, n_neighbours) for part in rows.split(CHUNK)])


def _votes(unit: Tensor, given: Tensor, part: Tensor, n_classes: int, n_neighbours: int) -> Tensor:
    cosines = unit[part] @ unit.T  # (n, N)
    cosines[torch.arange(len(part), device=part.device), part] = -torch.inf  # not itself
    nearest = cosines.topk(n_neighbours, dim=1)
    weights = (nearest.values / SOFTNESS).softmax(dim=1)
    return unit.new_zeros(len(part), n_classes).scatter_add_(1, given[nearest.indices], weights)
