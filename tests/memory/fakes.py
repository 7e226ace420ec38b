"""Stand-ins for the learner around a sampler: a fixed network, and a stream whose samples can be recognised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver.augment import to_float
from puridiver.memory import Memory, Moment, NetworkView, Sampler
from puridiver.memory.samples import Samples, joined
from puridiver.nets import NetworkSettings, build_network
from puridiver.recipes import recipe
from puridiver.runtime.device import Runtime
from puridiver.spr import Encoder

SIDE = 8
FEATURES = 6


class FixedNetwork:
    """Features and logits by fixed random matrices; remembers how many images it has seen."""

    def __init__(self, n_classes: int, seed: int = 0, device: str = "cpu") -> None:
        rng = np.random.default_rng(seed)
        self.projection = torch.from_numpy(rng.normal(size=(SIDE * SIDE, FEATURES))).float().to(device)
        self.class_weights = torch.from_numpy(rng.normal(size=(n_classes, FEATURES))).float().to(device)
        self.images_seen = 0

    def outputs(self, images: Tensor, *, large_passes: bool = False) -> tuple[Tensor, Tensor]:
        self.images_seen += len(images)
        features = (images.flatten(1).float() / 255 @ self.projection).relu()
        return features, features @ self.class_weights.T


def stream(n: int, n_classes: int, seed: int = 0, device: str = "cpu") -> Samples:
    """Random images with random labels, in order of arrival; the notes tell them apart as well."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(256, size=(n, 1, SIDE, SIDE), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(n_classes, size=n))
    arrivals = torch.arange(n, device=device)
    return Samples(images.to(device), labels.to(device), arrivals, arrivals.float() / 7)


def with_labels(labels: list[int], seed: int = 0) -> Samples:
    s = stream(len(labels), 1, seed)
    return Samples(s.images, torch.tensor(labels, dtype=torch.int64), s.arrivals, s.notes)


def moment(
    network: NetworkView,
    n_classes: int,
    seen_before: int = 0,
    generator: torch.Generator | None = None,
    batch_loss: float = 2.0,
    seen_of: Mapping[int, int] | None = None,
) -> Moment:
    return Moment(
        network,
        torch.tensor(batch_loss, device=network.class_weights.device),
        n_classes,
        seen_before,
        generator or torch.Generator().manual_seed(0),
        strong_view=lambda images: images,
        runtime=Runtime(network.class_weights.device),
        new_encoder=lambda: encoder(network.class_weights.device),
        seen_of=seen_of or {},
    )


def encoder(device: torch.device | str = "cpu", **options: Any) -> Encoder:
    """A small network that learns from 8 px images alone; `restart` it before use."""
    net = build_network("small", 2, (SIDE, SIDE, 1), NetworkSettings(), torch.Generator())
    settings = recipe("paper", flip=False, **options)
    return Encoder(net, Runtime(torch.device(device)), settings, lambda images: to_float(images, [0.5], [0.25]))


def pass_batch(sampler: Sampler, memory: Memory, batch: Samples, now: Moment) -> Tensor:
    """What the learner does with one batch; returns the rows that were chosen."""
    noted = Samples(batch.images, batch.labels, batch.arrivals, sampler.note_arrivals(batch, now))
    pool = joined(memory.samples, noted)
    rows = sampler.choose(pool, len(memory), memory.capacity, now)
    memory.replace(pool.take(rows.to(pool.labels.device)))
    return rows


def empty_memory(capacity: int, device: str = "cpu") -> Memory:
    return Memory(capacity, (SIDE, SIDE, 1), torch.device(device))
