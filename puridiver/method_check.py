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

from puridiver.learner.learner import Learner
from puridiver.memory import Moment, Samples
from puridiver.memory.base import row_faults
from puridiver.nets import Network, build_network
from puridiver.options import Options

MEMORY, EPOCHS = 20, 2
SIDES, CHANNELS = (12, 32, 64, 224), (3, 1)  # of the images: the first that a network takes
DEFAULT = SIDES[0], SIDES[0], CHANNELS[0]
Shape = tuple[int, int, int]
SIZES = (16, 1, 7, 16, 16, 3, 16, 9)  # of the batches
NEW_CLASS_EVERY = 2  # batches
NOT_SAVED = "a saved and loaded learner goes on otherwise: it keeps something that is not saved"


def find_faults(family: str, name: str) -> list[str]:
    """What a method or network does that it must not; an empty list if nothing was found."""
    faults: list[str] = []
    chosen = {family: name}
    try:
        shape = _smallest_shape(name) if family == "network" else DEFAULT
        if family == "network":
            faults += _network_faults(name, shape)
        before = _global_state()
        first, second = (_learn(chosen, faults, shape) for _ in range(2))
        if _global_state() != before:
            faults.append(
                "it draws from a global random generator (random, numpy.random, torch): use moment.generator in a "
                "sampler, self.generator in a trainer, and in a network (no dropout) nothing but its constructor"
            )
        if _outcome(first) != _outcome(second):
            faults.append("the same seed gives another result the second time")
        faults += _early_save_faults(_before_training(chosen, shape))
        if _after(_copy(first)) != _after(first) or not _survives_the_middle(second):
            faults.append(NOT_SAVED)
    except Exception as error:  # whatever it is, its author wants to know
        faults += [] if faults else [f"{type(error).__name__}: {error}"]  # one that follows from another says nothing
    return list(dict.fromkeys(faults))


def idle_networks(trainer: str) -> list[int]:
    """The networks of a trainer whose weights its epochs on the memory leave as they were."""
    learner = _before_training({"trainer": trainer}, DEFAULT)
    before = [_weights(network) for network in learner.trainer.networks]
    learner.consolidate(EPOCHS)
    return [k for k, network in enumerate(learner.trainer.networks) if _weights(network) == before[k]]


def _weights(network: Network) -> list[bytes]:
    return [parameter.detach().numpy().tobytes() for parameter in network.parameters()]


def _new_learner(chosen: dict[str, str], shape: Shape, options: dict[str, Any] | None = None) -> Learner:
    return Learner(
        classes=None, image_shape=shape, memory=MEMORY, device="cpu", seed=0, recipe="official",
        sampler=chosen.get("sampler", "rsv"), trainer=chosen.get("trainer", "plain"),
        network=chosen.get("network", "small"), **(options or {}),
    )  # fmt: skip


def _before_training(chosen: dict[str, str], shape: Shape) -> Learner:
    """A learner that has seen a stream and has not trained on its memory yet."""
    learner = _new_learner(chosen, shape)
    for images, labels in _stream(shape):
        learner.observe(images, labels)
    return learner


def _learn(chosen: dict[str, str], faults: list[str], shape: Shape, options: dict[str, Any] | None = None) -> Learner:
    learner = _new_learner(chosen, shape, options)
    learner.sampler.choose = _watched(learner.sampler.choose, faults)
    for number, (images, labels) in enumerate(_stream(shape)):
        learner.observe(images, labels)
        if number == len(SIZES) // 2:
            learner.consolidate(EPOCHS)
    learner.consolidate(EPOCHS)
    if _predicts_nan(learner):
        faults.append(
            "the network predicts nan after its training: the loss or its gradient is not finite, or a rate is too high"
        )
    return learner


def _smallest_shape(name: str) -> Shape:
    """Of the images that are tried; the first where a network takes none of them, so that its error is told."""
    for channels in CHANNELS:
        for side in SIDES:
            with contextlib.suppress(Exception):
                _new(name, (side, side, channels))
                return side, side, channels
    return DEFAULT


def _new(name: str, shape: Shape) -> Network:
    return build_network(name, 3, shape, Options(), torch.Generator().manual_seed(0))


def _network_faults(name: str, shape: Shape) -> list[str]:
    """What is wrong with a network before it learns anything, beside what makes building it fail."""
    network = _new(name, shape).eval()
    images = torch.randn(4, shape[2], *shape[:2], generator=torch.Generator().manual_seed(1))
    given = images.clone()
    with torch.no_grad():
        features = network.features(given)
        if not torch.equal(given, images):
            return ["features changes the images that it is given"]
        if not features.isfinite().all():
            return ["features are not finite"]
        if not torch.allclose(network.features(images), features):
            return ["in eval mode the same images have other features the second time"]
        alone = torch.cat([network.features(image[None]) for image in images])
    faults = []
    if not torch.allclose(alone, features, rtol=1e-3, atol=1e-4):
        faults.append("in eval mode the features of an image depend on the other images of its batch")
    if torch.allclose(features, features[:1], rtol=1e-3, atol=1e-4):
        faults.append("features are the same whatever the image")
    network.train()(images).sum().backward()
    if loose := [name for part in network.modules() for name, value in vars(part).items() if isinstance(value, Tensor)]:
        faults.append(
            f"{', '.join(loose)}: a tensor that is no parameter and no buffer goes to no GPU and is not saved; "
            "self.register_buffer(NAME, tensor) makes a buffer of it"
        )
    if idle := [name for name, p in network.named_parameters() if p.requires_grad and p.grad is None]:
        faults.append(f"no gradient reaches {', '.join(idle)}: switch requires_grad off where that is meant")
    return faults


def _predicts_nan(learner: Learner) -> bool:
    """Of any network as it is, or of the states that the learner answers by."""
    trainer, images = learner.trainer, learner.memory.samples.images
    found = [trainer.outputs(images, k).logits for k in range(trainer.n_networks)]
    return not all(bool(part.isfinite().all()) for part in [*found, learner.predictor.predict(images)[0]])


def _stream(shape: Shape) -> Iterator[tuple[np.ndarray, list[int]]]:
    rng = np.random.default_rng(0)
    for number, size in enumerate(SIZES):
        labels = rng.integers(0, 2 + number // NEW_CLASS_EVERY, size)
        yield _images_of(labels, shape, rng), labels.tolist()


def _later_stream(shape: Shape, n_classes: int) -> Iterator[tuple[np.ndarray, list[int]]]:
    """What a learner goes on with: other draws, and most of the classes of which `_stream` has least.

    The same stream again would leave classes in the same order by their counts, so that counts that were lost, or
    whatever else depends on how often a class came, would not be missed.
    """
    rng = np.random.default_rng(1)
    shares = 2.0 ** np.arange(n_classes)
    for size in SIZES:
        labels = rng.choice(n_classes, size, p=shares / shares.sum())
        yield _images_of(labels, shape, rng), labels.tolist()


def _images_of(labels: np.ndarray, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    noise = rng.integers(0, 60, (len(labels), *shape))
    return (noise + 40 * labels[:, None, None, None]).clip(0, 255).astype(np.uint8)


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
    """What a learner comes to with another stream, and after training on its memory again."""
    for images, labels in _later_stream(learner.image_shape, len(learner.classes)):
        learner.observe(images, labels)
    learner.consolidate(EPOCHS)
    return _outcome(learner)


def _early_save_faults(learner: Learner) -> list[str]:
    """Of a learner that is saved before its first training on the memory, as a run's checkpoints are."""
    try:
        copy = _copy(learner)
    except Exception as error:  # whatever it is, its author wants to know when it comes
        return [
            f"a learner cannot be saved and loaded before its first training on the memory, as checkpoints of a run "
            f"are ({type(error).__name__}: {error}): what state() gives should be there from __init__(self, context) on"
        ]
    return [] if _after(copy) == _after(learner) else [NOT_SAVED]


def _survives_the_middle(learner: Learner) -> bool:
    """Whether a learner that is saved between two epochs on the memory comes to what it would have come to."""
    epochs = learner.consolidation(EPOCHS)
    next(epochs)
    copy = _copy(learner)
    for going_on in (epochs, copy.consolidation(EPOCHS)):
        for _ in going_on:
            pass
    return _outcome(copy) == _outcome(learner)
