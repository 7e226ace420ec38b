"""Is an arriving label right? A verdict from what the learner predicts and from the samples that its memory holds.

The measurements behind the constants are in `experiments/verdicts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver.learner.inputs import Label
from puridiver.memory import Samples
from puridiver.nets import without_row

RIGHT = 0.8  # share of right labels that is expected before any has come
NO_TRUST, FULL_TRUST = 0.3, 0.6  # agreement with arriving labels below and above which verdicts teach nothing, and all
PRIOR, MEMORY = 30.0, 500.0  # labels of a class that this counts for; labels of the stream that are remembered, about
RECENT = 1000.0  # labels for which agreement is known, about
NEIGHBOURS, SOFTNESS = 20, 0.05  # that vote, and the difference in cosine that makes a vote e times as heavy
MOST_CONFUSED = 1_000  # classes up to which the noise is estimated: its matrix grows with their square
AT_ONCE = 1_024  # samples that are compared with all others at a time: 200 MB for 50,000 samples
SIDE = 16  # pixels at most to which images are averaged before they are compared


class Observed(NamedTuple):
    """What `Learner.observe` says of a batch, judged before the learner learns it.

    `p_right` is nan where nothing speaks for or against a label: of the first samples of a class, until a second class
    has come, and without `judge`. There the suggested label is the one that came.
    """

    arrivals: range  # name the images in `audit`, `correct` and `forget`
    p_right: np.ndarray  # float32 (N,): probability that the label is right
    suggested: list[Label]  # the most likely class, given the image and the label that came


class Verdict(NamedTuple):
    """What is known of the labels of a batch before it is learnt; nan where nothing is."""

    p_right: Tensor  # (N,): probability that the label is right
    posterior: Tensor  # (N, C): of each class, given the image and the label
    predicted: Tensor  # (N,): class id by the image alone, as a float
    trust: Tensor  # (N,): how far to believe the posterior, from 0 to 1

    @property
    def suggested(self) -> Tensor:
        """The likeliest class of each image, (N,)."""
        return self.posterior.argmax(dim=1).float()

    def targets(self, given: Tensor) -> Tensor:
        """What to learn: between the given one-hot labels (N, C) and the posterior, where there is one."""
        believed = given.lerp(self.posterior, self.trust[:, None])
        return torch.where(self.p_right.isfinite()[:, None], believed, given)


def nothing_known(labels: Tensor, n_classes: int) -> Verdict:
    unknown = torch.full((len(labels), n_classes), torch.nan, device=labels.device)
    return Verdict(unknown[:, 0], unknown, unknown[:, 0], torch.zeros_like(unknown[:, 0]))


class NoiseEstimate:
    """How probable each label is for each true class, by the verdicts on labels that came, and what verdicts are worth.

    A verdict needs such a matrix, and gives a better one: classes that are often confused by those who label stand out
    after some hundred labels. Old verdicts fade, and a few made-up labels keep rare classes near the expected share.

    A verdict is worth no more than its judge: it counts as far as the learner predicts arriving labels, and those of
    that class. Otherwise a class that comes late, and looks like another, passes for wrong labels of the other one.
    """

    def __init__(self, counts: Tensor) -> None:
        self.counts = counts  # (C, C): decayed sums of the probability of each true class, by the label that came
        self.named = counts.new_zeros(2, 0)  # (2, C): decayed counts of the labels that came, and of those predicted

    def _grown(self, n_classes: int) -> Tensor:
        more = n_classes - len(self.counts)
        return F.pad(self.counts, (0, more, 0, more)) if more else self.counts

    def note_predictions(self, predicted: Tensor, labels: Tensor, n_classes: int) -> None:
        """Take in predicted class ids, (N,), nan where there are none, and the labels that came."""
        told = torch.stack([predicted.isfinite(), predicted == labels]).to(self.named.dtype)
        faded = self._named(n_classes) * (1 - 1 / RECENT) ** len(labels)
        self.named = faded.index_add(1, labels, told)

    def _named(self, n_classes: int) -> Tensor:
        return F.pad(self.named, (0, n_classes - self.named.shape[1]))

    def standing(self, labels: Tensor, n_classes: int) -> tuple[Tensor, Tensor]:
        """The share of labels that the learner predicts, (), and how near these labels' classes come to it, (N,)."""
        came, predicted = self._named(n_classes)
        overall = predicted.sum() / came.sum().clamp(min=1)
        of_class = predicted / came.clamp(min=1e-9)
        return overall, (of_class / overall.clamp(min=1e-9)).clamp(max=1)[labels]

    def likelihoods(self, labels: Tensor, n_classes: int, n_seen: int) -> Tensor:
        """How probable the labels that came are for each true class, (N, C)."""
        even = torch.full((len(labels), n_classes), (1 - RIGHT) / (n_seen - 1), device=labels.device)
        expected = even.scatter_(1, labels[:, None], RIGHT)
        if n_classes > MOST_CONFUSED:
            return expected
        counts = self._grown(n_classes)
        return (counts[:, labels].T + PRIOR * expected) / (counts.sum(dim=1) + PRIOR)

    def note(self, found: Tensor, labels: Tensor) -> None:
        """Take in the probabilities of the true classes of a batch, (N, C), and the labels that came."""
        n_classes = found.shape[1]
        if n_classes > MOST_CONFUSED:
            self.counts = self.counts[:0, :0]
            return
        came = F.one_hot(labels, n_classes).to(found.dtype)
        self.counts = torch.addmm(self._grown(n_classes), found.T, came, beta=(1 - 1 / MEMORY) ** len(labels))

    def load_state(self, tensors: Mapping[str, Tensor], n_classes: int) -> None:
        counts = tensors["counts"]
        if counts.ndim != 2 or len(set(counts.shape)) > 1 or len(counts) > n_classes or counts.dtype != torch.float32:
            raise ValueError(f"noise.counts should be float32 (classes, classes), but is {tuple(counts.shape)}")
        named = tensors["named"]
        if named.ndim != 2 or len(named) != 2 or named.shape[1] > n_classes or named.dtype != torch.float32:
            raise ValueError(f"noise.named should be float32 (2, classes), but is {tuple(named.shape)}")
        self.counts, self.named = counts.to(self.counts.device), named.to(self.named.device)

    def drop_class(self, number: int) -> None:
        self.named = without_row(self.named.T, number).T
        self.counts = without_row(without_row(self.counts, number).T, number).T


def judge_again(predicted: Tensor, held: Samples, n_seen: int, noise: NoiseEstimate) -> Tensor:
    """The probability that each held label is right, (N,), by what is predicted now, (N, C), and by the other samples.

    The estimate of the noise learns nothing from it: the network has learnt these labels.
    """
    n_classes = predicted.shape[1]
    others = votes_on_each_other(unit_pixels(held.images), held.labels, n_classes, NEIGHBOURS, SOFTNESS)
    said = (predicted + others) / 2
    found = posterior(said, noise.likelihoods(held.labels, n_classes, n_seen))
    return found.gather(1, held.labels[:, None]).squeeze(1)


class Neighbours:
    """`pixel_votes` of the samples that a memory holds: on a CPU their small versions are made once."""

    def __init__(self) -> None:
        self._arrivals, self._pixels = torch.empty(0, dtype=torch.int64), torch.empty(0)

    def votes(self, images: Tensor, held: Samples, n_classes: int) -> Tensor:
        """`pixel_votes`, (N, C)."""
        cosines = unit_pixels(images) @ self._pixels_of(held).T
        return votes(cosines, held.labels, n_classes, NEIGHBOURS, SOFTNESS)

    def _pixels_of(self, held: Samples) -> Tensor:
        if held.images.is_cuda:
            return unit_pixels(held.images)
        if not torch.equal(self._arrivals, held.arrivals):
            place = {arrival: row for row, arrival in enumerate(self._arrivals.tolist())}
            arrivals = held.arrivals.tolist()
            if new := [row for row, arrival in enumerate(arrivals) if arrival not in place]:
                place |= {arrivals[row]: len(self._arrivals) + n for n, row in enumerate(new)}
                self._pixels = torch.cat([self._pixels, unit_pixels(held.images[new])])
            self._pixels = self._pixels.index_select(0, torch.tensor([place[arrival] for arrival in arrivals]))
            self._arrivals = held.arrivals
        return self._pixels


def judge(
    x: Tensor, y: Tensor, predicted: Tensor, held: Samples, known: Tensor, n_seen: int, noise: NoiseEstimate,
    neighbours: Neighbours,
) -> Verdict:  # fmt: skip
    """Judge arriving labels by the probabilities `predicted` for their images, (N, C), and by the held samples.

    `known` says of which labels the learner has seen the class before, bool (N,), `n_seen` how many classes it has.
    The estimate of the noise is used, and learns from the verdict.
    """
    said, n_classes = predicted, predicted.shape[1]
    if len(held):
        said = torch.stack([said, neighbours.votes(x, held, n_classes)]).nanmean(dim=0)
    found = posterior(said, noise.likelihoods(y, n_classes, n_seen))
    agreement, relative = noise.standing(y, n_classes)
    learnt = torch.where(known[:, None] & found.isfinite(), found, 0.0)
    noise.note(learnt * relative[:, None], y)
    p_right = torch.where(known, found.gather(1, y[:, None]).squeeze(1), torch.nan)
    named = torch.where(predicted[:, 0].isfinite(), predicted.argmax(dim=1), torch.nan)
    noise.note_predictions(named, y, n_classes)
    return Verdict(p_right, found, named, relative * ((agreement - NO_TRUST) / (FULL_TRUST - NO_TRUST)).clamp(0, 1))


def votes(cosines: Tensor, labels: Tensor, n_classes: int, n_neighbours: int, softness: float) -> Tensor:
    """The share of each class among the labels of the nearest neighbours, closer ones counting more, (N, C).

    `cosines` are (N, M) with M labelled samples, `labels` (M,) their class ids.
    """
    nearest = cosines.topk(min(n_neighbours, cosines.shape[1]), dim=1)
    weights = (nearest.values / softness).softmax(dim=1)
    return cosines.new_zeros(len(cosines), n_classes).scatter_add_(1, labels[nearest.indices], weights)


def votes_on_each_other(unit: Tensor, labels: Tensor, n_classes: int, n_neighbours: int, softness: float) -> Tensor:
    """The `votes` on each sample of all others, (N, C), by vectors of length 1, (N, d), and class ids, (N,)."""
    found = []
    for rows in torch.arange(len(unit), device=unit.device).split(AT_ONCE):
        cosines = (unit[rows] @ unit.T).scatter_(1, rows[:, None], -torch.inf)  # none votes on itself
        found.append(votes(cosines, labels, n_classes, n_neighbours, softness))
    return torch.cat(found)


def pixel_votes(images: Tensor, known: Tensor, labels: Tensor, n_classes: int) -> Tensor:
    """`votes` of known images with these class ids on others, by the pixels of small versions, (N, C)."""
    return votes(unit_pixels(images) @ unit_pixels(known).T, labels, n_classes, NEIGHBOURS, SOFTNESS)


def unit_pixels(images: Tensor) -> Tensor:
    """The pixels of small versions of images, or vectors, less their mean and of length 1, (N, d)."""
    if images.ndim == 4:  # of a large image every step-th pixel will do
        step = max(1, min(images.shape[2:]) // (2 * SIDE))
        images = images[:, :, ::step, ::step].float()
        cells = [-(-side // SIDE) for side in images.shape[2:]]
        images = F.avg_pool2d(images, cells, ceil_mode=True)
    flat = images.flatten(1)
    return F.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)


def posterior(p: Tensor, likelihoods: Tensor) -> Tensor:
    """Probability of each class, (N, C), given the image and the label that came.

    `p` (N, C) is the probability by the image alone, `likelihoods` (N, C) that of the label, given the class.
    """
    joint = p * likelihoods
    return joint / joint.sum(dim=1, keepdim=True)
