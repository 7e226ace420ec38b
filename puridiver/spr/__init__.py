"""What SPR is made of beneath its sampler and its trainer (Kim et al., ICCV 2021; docs/SPR.md).

Both families need networks that learn from images alone, and neither may know the other: so these parts lie below.
"""

from puridiver.spr.beta_mixture import BetaMixture, fit_beta_mixture
from puridiver.spr.centrality import class_graph, eigenvector_centrality, random_graphs
from puridiver.spr.cleanness import clean_probability
from puridiver.spr.encoder import ENCODER_OPTIONS, Encoder, nt_xent, scaled_epochs

__all__ = [
    "ENCODER_OPTIONS",
    "BetaMixture",
    "Encoder",
    "class_graph",
    "clean_probability",
    "eigenvector_centrality",
    "fit_beta_mixture",
    "nt_xent",
    "random_graphs",
    "scaled_epochs",
]
