"""NTD as its author's program has it (github.com/wish44165/ntd), beside the package's `ntd` (docs/fidelity.md).

puridiver run --plugin experiments/ntd-program/ntd_program.py --sampler ntd-program --trainer plain --recipe official
puridiver grid experiments/ntd-program/study.toml --plugin experiments/ntd-program/ntd_program.py --data-root DATA --splits SPLITS

Unlike there the first samples' losses are measured when they come, and not together once the memory is full.
"""

import torch
import torch.nn.functional as F

import puridiver
from puridiver.memory.ntd import NTDSampler


def five_crops(images):
    """Corners and middle of images (N, C, H, W), three quarters of their side each: (5 N, C, h, w)."""
    height, width = images.shape[2:]
    h, w = height * 3 // 4, width * 3 // 4
    corners = [(0, 0), (0, width - w), (height - h, 0), (height - h, width - w), ((height - h) // 2, (width - w) // 2)]
    return torch.cat([images[:, :, top : top + h, left : left + w] for top, left in corners])


@puridiver.register
class ProgramNTD(NTDSampler):
    """Drops the largest class's highest loss, of mean logits over five crops on arrival."""

    name = "ntd-program"
    title = "NTD, its author's program"
    summary = "drops the largest class's highest loss, of mean logits over five crops on arrival"
    reads = ()
    freezes_norm = True  # asking for that loss leaves the network in evaluation, as PuriDivER's score does (row 13)

    def note_arrivals(self, batch, moment):
        # Smaller than they are elsewhere: the package's networks average over whatever is left of an image.
        _, logits = moment.network.outputs(five_crops(batch.images))
        mean = logits.float().view(5, len(batch), -1).mean(dim=0)
        return F.cross_entropy(mean, batch.labels, reduction="none")
