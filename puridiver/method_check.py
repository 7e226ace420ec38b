"""The contract of samplers, trainers and networks, checked on a small generated stream.

`puridiver methods --plugin FILE --check` and the package's own tests call `find_faults`.
"""

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
from puridiver.plugins import FAMILIES

MEMORY, EPOCHS = 20, 2
SIDES, CHANNELS = (8, 32, 64, 224), (3, 1)  # the trial uses the first image shape that a network accepts
SIZES, LATER_SIZES = (16, 1, 7, 16, 3, 12), (9, 16, 16)  # batches before and after the first training on the memory
NEW_CLASS_EVERY = 2  # batches
Shape = tuple[int, int, int]
DEFAULT: Shape = (SIDES[0], SIDES[0], CHANNELS[0])


class Fault(Exception):
    """What a method does wrong."""


def find_faults(family: str, name: str, **options: Any) -> list[str]:
    """Try a method or network and return what it does wrong; an empty list if nothing was found.

    The first step of the trial that finds something ends it.
    """
    kind, trial, shape = FAMILIES[family][1][name], {family: name, **options}, DEFAULT
    try:
        if not (kind.title and kind.summary):
            raise Fault("title and summary should describe it")
        if family == "network":
            shape = _smallest_shape(name)
            if faults := network_faults(name, shape):
                return faults
        before = _global_state()
        result = _run(trial, shape)
        if _global_state() != before:
            raise Fault(
                "it draws from a global random generator (random, numpy.random or torch): a sampler has "
                "moment.generator, a trainer self.generator, and a network draws in its constructor only (no dropout)"
            )
        if _run(trial, shape, reload=_reloaded) != result:
            if _run(trial, shape) != result:
                raise Fault("the same seed gives a different result the second time")
            raise Fault("a saved and loaded learner continues differently: part of the method's state is not saved")
    except Fault as fault:
        return [str(fault)]
    except Exception as error:  # an author wants to know every kind of error
        return [f"{type(error).__name__}: {error}"]
    return []


# Networks ----------------------------------------------------------------------------------------------------------


def _smallest_shape(name: str) -> Shape:
    """The first image shape that the network accepts; the default if it accepts none, so that its error is told."""
    for channels in CHANNELS:
        for side in SIDES:
            with contextlib.suppress(Exception):
                _new_network(name, (side, side, channels))
                return side, side, channels
    return DEFAULT


def _new_network(name: str, shape: Shape) -> Network:
    return build_network(name, 3, shape, Options(), torch.Generator().manual_seed(0))


def network_faults(name: str, shape: Shape = DEFAULT) -> list[str]:
    """What is wrong with a new network's features, gradients and buffers."""
    network = _new_network(name, shape).eval()
    images = torch.randn(4, shape[2], *shape[:2], generator=torch.Generator().manual_seed(1))
    given = images.clone()
    with torch.no_grad():
        features = network.features(given)
        if not torch.equal(given, images):
            return ["features() changes the images that it gets"]
        if not features.isfinite().all():
            return ["features are not finite"]
        if not torch.allclose(network.features(images), features):
            return ["in eval mode the same images get different features the second time"]
        alone = torch.cat([network.features(image[None]) for image in images])
    faults = []
    if not torch.allclose(alone, features, rtol=1e-3, atol=1e-4):
        faults.append("in eval mode the features of an image depend on the other images of its batch")
    if torch.allclose(features, features[:1], rtol=1e-3, atol=1e-4):
        faults.append("features are the same for every image")
    network.train()(images).logits.sum().backward()
    if loose := [key for part in network.modules() for key, value in vars(part).items() if isinstance(value, Tensor)]:
        faults.append(
            f"{', '.join(loose)}: a tensor that is neither parameter nor buffer moves to no GPU and is not saved; "
            "make it a buffer with self.register_buffer(NAME, tensor)"
        )
    if idle := [key for key, p in network.named_parameters() if p.requires_grad and p.grad is None]:
        faults.append(f"no gradient reaches {', '.join(idle)}: set requires_grad to False if that is intended")
    return faults


# The trial ---------------------------------------------------------------------------------------------------------


def _run(
    trial: dict[str, Any], shape: Shape, reload: Callable[[Learner], Learner] = lambda same: same
) -> tuple[bytes, ...]:
    """Learn, and return the memory's content and the network's logits.

    `reload` replaces the learner before, during and after its first training on the memory.
    """
    chosen = {"sampler": "rsv", "trainer": "plain", "network": "small", "recipe": "official", **trial}
    learner = Learner(classes=None, image_shape=shape, memory=MEMORY, device="cpu", seed=0, **chosen)
    learner.sampler.choose = _watched(learner.sampler.choose)  # type: ignore[method-assign]
    for images, labels in _batches(SIZES, shape):
        learner.observe(images, labels)
    try:
        learner = reload(learner)
    except Exception as error:
        raise Fault(
            "a learner cannot be saved and loaded before its first training on the memory, as checkpoints are "
            f"({error}): what state() returns should exist from __init__(self, context) on"
        ) from error
    before = _weights(learner)
    epochs = learner.consolidation(EPOCHS, warn_if_left=False)
    next(epochs)
    loaded = reload(learner)
    for _ in epochs if loaded is learner else loaded.consolidation(EPOCHS):
        pass
    learner = reload(loaded)
    if idle := [k for k, (old, new) in enumerate(zip(before, _weights(learner), strict=True)) if old == new]:
        raise Fault(f"training on the memory does not change network {', '.join(map(str, idle))} of the trainer")
    for images, labels in _batches(LATER_SIZES, shape, len(learner.classes)):
        learner.observe(images, labels)
    learner.consolidate(EPOCHS)
    samples, trainer = learner.memory.samples, learner.trainer
    logits = [model.outputs(samples.images).logits for model in trainer.models]
    if not all(bool(t.isfinite().all()) for t in [*logits, learner.predictor.predict(samples.images)[0]]):
        raise Fault("predictions are not finite after training: the loss or its gradient diverges, or a rate is high")
    return tuple(tensor.numpy().tobytes() for tensor in (samples.arrivals, *logits))


def _weights(learner: Learner) -> list[bytes]:
    return [
        b"".join(parameter.detach().numpy().tobytes() for parameter in network.parameters())
        for network in learner.trainer.networks
    ]


def _reloaded(learner: Learner) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        return Learner.load(learner.save(Path(folder) / "learner"), device="cpu")


def _batches(sizes: tuple[int, ...], shape: Shape, n_classes: int = 0) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Images and labels; classes appear one after another, unless all `n_classes` are known.

    Then the classes that were rarest are the most frequent. Otherwise the order of classes by their counts would stay,
    and lost counts would not show.
    """
    rng = np.random.default_rng(n_classes)
    for number, size in enumerate(sizes):
        shares = 2.0 ** np.arange(n_classes) if n_classes else np.ones(2 + number // NEW_CLASS_EVERY)
        labels = rng.choice(len(shares), size, p=shares / shares.sum())
        noise = rng.integers(0, 60, (size, *shape))
        images = (noise + 40 * labels[:, None, None, None]).clip(0, 255).astype(np.uint8)
        yield images, labels.tolist()


def _watched(choose: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def watched(pool: Samples, n_old: int, capacity: int, moment: Moment) -> Tensor:
        before = {name: tensor.clone() for name, tensor in vars(pool).items()}
        rows = choose(pool, n_old, capacity, moment)
        for fault in row_faults(rows, len(pool), capacity):
            raise Fault(fault)
        if any(not torch.equal(tensor, before[name]) for name, tensor in vars(pool).items()):
            raise Fault("choose changes the samples that it gets")
        return rows

    return watched


def _global_state() -> tuple[Any, ...]:
    numpys = repr(np.random.get_state(legacy=False))  # noqa: NPY002 - the generator that has to stay unchanged
    return random.getstate(), numpys, torch.get_rng_state().numpy().tobytes()
