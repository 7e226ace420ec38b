"""Tries a sampler, trainer or network on a small made stream and says what is wrong: for whoever writes one."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver.learner import Learner
from puridiver.memory.base import Moment, row_faults
from puridiver.nets import Network, NetworkSettings, build_network
from puridiver.samples import Samples

MEMORY, EPOCHS = 20, 2
SIDES = (12, 32, 64, 224)  # of the images: the smallest that a network takes
SIZES = (16, 1, 7, 16, 16, 3, 16, 9)  # of the batches
NEW_CLASS_EVERY = 2  # batches


def find_faults(family: str, name: str) -> list[str]:
    """What a method or network does that it must not; an empty list if nothing was found."""
    faults: list[str] = []
    chosen = {family: name}
    try:
        side = _smallest_side(name) if family == "network" else SIDES[0]
        if family == "network":
            faults += _network_faults(name, side)
        before = _global_state()
        first, second = (_learn(chosen, faults, side) for _ in range(2))
        if _global_state() != before:
            faults.append(
                "it draws from a global random generator (random, numpy.random, torch): use moment.generator in a "
                "sampler, self.generator in a trainer, and in a network (no dropout) nothing but its constructor"
            )
        if _outcome(first) != _outcome(second):
            faults.append("the same seed gives another result the second time")
        if _after(_copy(first)) != _after(first) or not _survives_the_middle(second):
            faults.append("a saved and loaded learner goes on otherwise: it keeps something that is not saved")
    except Exception as error:  # whatever it is, its author wants to know
        faults += [] if faults else [f"{type(error).__name__}: {error}"]  # one that follows from another says nothing
    return list(dict.fromkeys(faults))


def _learn(chosen: dict[str, str], faults: list[str], side: int) -> Learner:
    learner = Learner(
        classes=None, image_shape=(side, side, 3), memory=MEMORY, device="cpu", seed=0, recipe="official",
        sampler=chosen.get("sampler", "rsv"), trainer=chosen.get("trainer", "plain"),
        network=chosen.get("network", "small"),
    )  # fmt: skip
    learner.sampler.choose = _watched(learner.sampler.choose, faults)
    for number, (images, labels) in enumerate(_stream(side)):
        learner.observe(images, labels)
        if number == len(SIZES) // 2:
            learner.consolidate(EPOCHS)
    learner.consolidate(EPOCHS)
    if _predicts_nan(learner):
        faults.append(
            "the network predicts nan after its training: the loss or its gradient is not finite, or a rate is too high"
        )
    return learner


def _smallest_side(name: str) -> int:
    """Of the images that are tried; the first where a network takes none of them, so that its error is told."""
    for side in SIDES:
        with contextlib.suppress(Exception), torch.no_grad():
            _new(name, side).features(torch.zeros(2, 3, side, side))
            return side
    return SIDES[0]


def _new(name: str, side: int) -> Network:
    return build_network(name, 3, (side, side, 3), NetworkSettings(), torch.Generator().manual_seed(0)).eval()


def _network_faults(name: str, side: int) -> list[str]:
    """What is wrong with a network before it learns anything."""
    n, network = 4, _new(name, side)
    images = torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        features = network.features(images)
        if features.ndim != 2 or len(features) != n or features.dtype != torch.float32:
            return [f"features should be float32 of shape ({n}, d), but are {_spelt(features)}"]
        width = network.head.linear.in_features
        if features.shape[1] != width:
            return [f"features have {features.shape[1]} numbers a sample, but its head takes {width}"]
        alone = torch.cat([network.features(image[None]) for image in images])
    faults = []
    if not torch.allclose(alone, features, rtol=1e-3, atol=1e-4):
        faults.append("in eval mode the features of an image depend on the other images of its batch")
    if torch.allclose(features, features[:1], rtol=1e-3, atol=1e-4):
        faults.append("features are the same whatever the image")
    if not any(parameter.requires_grad for parameter in network.parameters()):
        faults.append("no parameter is to be trained: the head's should be, at least")
    return faults


def _spelt(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _predicts_nan(learner: Learner) -> bool:
    """Of any network as it is, or of the states that the learner answers by."""
    trainer, images = learner.trainer, learner.memory.samples.images
    found = [trainer.outputs(images, k).logits for k in range(trainer.n_networks)]
    return not all(bool(part.isfinite().all()) for part in [*found, trainer.predict(images)])


def _stream(side: int) -> Iterator[tuple[np.ndarray, list[int]]]:
    rng = np.random.default_rng(0)
    for number, size in enumerate(SIZES):
        labels = rng.integers(0, 2 + number // NEW_CLASS_EVERY, size)
        noise = rng.integers(0, 60, (size, side, side, 3))
        yield (noise + 40 * labels[:, None, None, None]).clip(0, 255).astype(np.uint8), labels.tolist()


def _watched(choose: Callable[..., Tensor], faults: list[str]) -> Callable[..., Tensor]:
    def watched(pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        before = {name: tensor.clone() for name, tensor in pool.tensors().items()}
        rows = choose(pool, n_old, capacity, moment)
        faults.extend(row_faults(rows, len(pool), capacity))
        if any(not torch.equal(tensor, before[name]) for name, tensor in pool.tensors().items()):
            faults.append("choose changes the samples that it is shown")
        return rows

    return watched


def _global_state() -> tuple[Any, ...]:
    ours = repr(np.random.get_state(legacy=False))  # noqa: NPY002 - the very generator that must stay as it is
    return random.getstate(), ours, torch.get_rng_state().numpy().tobytes()


def _outcome(learner: Learner) -> tuple[bytes, ...]:
    """What the memory holds, and what the network says of it."""
    samples = learner.memory.samples
    return tuple(t.numpy().tobytes() for t in (samples.arrivals, learner.trainer.outputs(samples.images).logits))


def _copy(learner: Learner) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        return Learner.load(learner.save(Path(folder) / "learner"), device="cpu")


def _after(learner: Learner) -> tuple[bytes, ...]:
    """What a learner comes to with more of the stream, and after training on its memory again."""
    for images, labels in _stream(learner.image_shape[0]):
        learner.observe(images, labels)
    learner.consolidate(EPOCHS)
    return _outcome(learner)


def _survives_the_middle(learner: Learner) -> bool:
    """Whether a learner that is saved between two epochs on the memory comes to what it would have come to."""
    epochs = learner.consolidation(EPOCHS)
    next(epochs)
    copy = _copy(learner)
    for going_on in (epochs, copy.consolidation(EPOCHS)):
        for _ in going_on:
            pass
    return _outcome(copy) == _outcome(learner)
