"""Tries a sampler, trainer or network on a small generated stream, for `puridiver methods --check` and for tests.

The trial makes the calls that a run makes: build, observe, consolidate, save, load, grow, predict.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.learner.learner import Learner
from puridiver.nets import build_network, choose_network
from puridiver.options import Options

Shape = tuple[int, ...]
MEMORY, EPOCHS = 20, 2
SIZES = (16, 1, 7, 16, 3, 12)  # of batches
SHAPES: tuple[Shape, ...] = (*((side, side, channels) for channels in (3, 1) for side in (8, 32, 64, 224)), (8,))
DIFFERS = (
    "the same seed gives another result when the learner is saved and loaded on the way: keep the method's state in a "
    "sampler's notes or a trainer's state(), and draw from moment.generator or self.generator alone"
)


def find_fault(family: str, name: str, **options: Any) -> str:
    """The first thing that a method or network does wrong, in one sentence; empty if nothing was found."""
    chosen = {"sampler": "rsv", "trainer": "plain", "network": "small", "recipe": "official", family: name, **options}
    try:
        shape = _shape_for(chosen["network"])
        whole, in_parts = _trial(chosen, shape, lambda same: same), _trial(chosen, shape, _reloaded)
    except Exception as error:  # an author wants to know every kind of error
        return f"{type(error).__name__}: {error}"
    return "" if whole == in_parts else DIFFERS


def _shape_for(network: str) -> Shape:
    """The first shape that the network accepts; the smallest if it accepts none, so that its error is told."""
    for shape in SHAPES:
        with contextlib.suppress(Exception):
            choose_network(network, shape, torch.device("cpu"))
            build_network(network, 3, shape, Options(), torch.Generator().manual_seed(0))
            return shape
    return SHAPES[0]


def _trial(chosen: dict[str, Any], shape: Shape, reload: Callable[[Learner], Learner]) -> tuple[bytes, bytes]:
    """Learn from a stream with new classes; which samples the memory holds, and what the network predicts.

    `reload` replaces the learner before, during and after its first training on the memory.
    """
    learner = Learner(None, shape, MEMORY, device="cpu", seed=0, **chosen)
    for images, labels in _batches(shape, 4):
        learner.observe(images, labels)
    learner = reload(learner)
    epochs = learner.consolidation(EPOCHS)
    next(epochs)
    loaded = reload(learner)
    for _ in epochs if loaded is learner else loaded.consolidation(EPOCHS):
        pass
    learner = reload(loaded)
    for images, labels in _batches(shape, 6):
        learner.observe(images, labels)
    learner.consolidate(EPOCHS)
    learner.predict(images)  # raises an error where the network predicts nan
    return learner.memory.samples.arrivals.numpy().tobytes(), learner.predict_proba(images, as_it_is=True).tobytes()


def _reloaded(learner: Learner) -> Learner:
    with tempfile.TemporaryDirectory() as folder:
        return Learner.load(learner.save(Path(folder) / "learner"), device="cpu")


def _batches(shape: Shape, n_classes: int) -> Iterator[tuple[np.ndarray, list[int]]]:
    """Images and labels. The last classes come most often, so that counts lost in between show."""
    rng, shares = np.random.default_rng(n_classes), 2.0 ** np.arange(n_classes)
    for size in SIZES:
        labels = rng.choice(n_classes, size, p=shares / shares.sum())
        noise = rng.integers(0, 60, (size, *shape))
        yield (noise + 30 * labels.reshape(-1, *[1] * len(shape))).astype(np.uint8), labels.tolist()
