"""Stand-ins for the learner around a sampler: a fixed network, and a stream whose samples can be recognised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver.memory import Memory, Moment, Sampler, Samples
from puridiver.nets import build_network
from puridiver.options import Options
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
        self.network = build_network("small", 2, (SIDE, SIDE, 1), Options(), torch.Generator())
        self.images_seen = 0

    def outputs(self, images: Tensor, *, large_passes: bool = False) -> tuple[Tensor, Tensor]:
        self.images_seen += len(images)
        features = (images.flatten(1).float() / 255 @ self.projection).relu()
        return features, features @ self.class_weights.T

    def gradient(self, images: Tensor, labels: Tensor) -> Tensor:
        """Of the classifier's weights alone."""
        features, logits = self.outputs(images)
        error = logits.softmax(dim=1) - torch.nn.functional.one_hot(labels, len(self.class_weights))
        return (error.T @ features / len(images)).flatten()


def stream(n: int, n_classes: int, seed: int = 0, device: str = "cpu") -> Samples:
    """Random images with random labels, in order of arrival; the notes tell them apart as well."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(256, size=(n, 1, SIDE, SIDE), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(n_classes, size=n))
    arrivals = torch.arange(n, device=device)
    return Samples(images.to(device), labels.to(device), arrivals, arrivals.float() / 7, torch.full_like(arrivals, -1))


def with_labels(labels: list[int], seed: int = 0) -> Samples:
    return replace(stream(len(labels), 1, seed), labels=torch.tensor(labels, dtype=torch.int64))


def checked(samples: Samples, rows: Tensor) -> Samples:
    """The samples, as if a person had found the labels of these rows, bool (N,), right."""
    return replace(samples, came_with=torch.where(rows, samples.labels, -1))


def moment(
    network: Any,
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
        seen_of=seen_of or {},
    )


def encoder(device: torch.device | str = "cpu", **options: Any) -> Encoder:
    """A small network that learns from 8 px images alone; `restart` it before use."""
    settings = recipe("paper", flip=False, **options)
    return Encoder(FixedNetwork(2).network, Runtime(torch.device(device)), settings)


def pass_batch(memory: Memory, batch: Samples, now: Moment) -> None:
    """Let the sampler choose from the memory and a batch."""
    memory.update(batch, now, lambda pool, n_old: None)


def empty_memory(sampler: Sampler, capacity: int, device: str = "cpu") -> Memory:
    """A memory of so many places that checks each choice, without a delay buffer whatever the sampler."""
    memory = Memory(sampler, capacity, (SIDE, SIDE, 1), Runtime(torch.device(device)))
    memory._checks_choices = True
    return memory


def pass_stream(sampler: Sampler, everything: Samples, capacity: int, batch_size: int, seed: int = 0) -> Memory:
    """A memory after a whole stream, in batches."""
    memory, generator = empty_memory(sampler, capacity), torch.Generator().manual_seed(seed)
    n_classes, seen_of = int(everything.labels.max()) + 1, Counter[int]()
    network = FixedNetwork(n_classes)
    for start, batch in enumerate(everything.split(batch_size)):
        pass_batch(memory, batch, moment(network, n_classes, start * batch_size, generator, seen_of=dict(seen_of)))
        seen_of.update(batch.labels.tolist())
    return memory
