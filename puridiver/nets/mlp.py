"""A small network for vectors, such as embeddings that another network has computed."""

import torch.nn.functional as F
from torch import Tensor, nn

from puridiver.nets.base import Head, Network
from puridiver.options import Options


class VectorNet(Network):
    """One hidden layer. BatchNorm scales the input, since nobody knows the scale of a stream's numbers beforehand."""

    name = title = "mlp"
    summary = "one hidden layer, for vectors; default for them"
    keeps_weights = False
    light = True
    takes_vectors = True
    HIDDEN = 256

    def __init__(self, n_classes: int, input_shape: tuple[int], settings: Options) -> None:
        super().__init__()
        self.scale = nn.BatchNorm1d(input_shape[0], eps=settings.batchnorm_epsilon, affine=False)
        self.hidden = nn.Linear(input_shape[0], self.HIDDEN)
        self.norm = nn.BatchNorm1d(self.HIDDEN, eps=settings.batchnorm_epsilon)
        self.head = Head(self.HIDDEN, n_classes, settings)

    def features(self, vectors: Tensor) -> Tensor:
        return F.relu(self.norm(self.hidden(self.scale(vectors.float()))))
