"""The settings of an audit."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self

LEAST = {"passes": 1, "parts": 1, "memory": 1, "batch": 1, "neighbours": 1, "seed": 0, "epochs": 1}
# All three end at a learning-rate minimum; a memory is seen at least 3,840 times: 240 batches of 16.
FEWER_EPOCHS, MOST_EPOCHS, LEAST_SEEN = (15, 31), 63, 3_840


@dataclass(frozen=True)
class AuditSettings:
    """How a labelled set is audited.

    Parameters
    ----------
    passes
        Learners that each see the whole set once, in an order of their own, and then judge it.
    parts
        Each learner trains on its memory after so many equal parts of the set.
    memory
        Samples a learner's memory holds; None: a fifth of the set, from 50 to 2,000.
    batch
        Samples a learner observes at once.
    neighbours
        Nearest images, by a learner's features, whose labels vote on each sample.
    seed
        Fixes the orders and every random choice of the learners.
    epochs
        Memory epochs after each part; None: 15, with a memory below 256 samples 31, below 124 63.
    network
        A network's name, or "auto": the small one on a CPU, by image size on a GPU.
    device, options
        As for `puridiver.Learner`; options replace those of the recipe `official`.
    """

    passes: int = 2
    parts: int = 2
    memory: int | None = None
    batch: int = 64
    neighbours: int = 50
    seed: int = 0
    epochs: int | None = None
    network: str = "auto"
    device: str = "auto"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is None and name in ("memory", "epochs"):
                continue
            if type(value) is not int or not least <= value < 2**63:
                raise ValueError(f"{name} should be a whole number, at least {least}, but got {value!r:.40}")
        for name, kind in (("network", str), ("device", str), ("options", dict)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} should be a {kind.__name__}, but got {getattr(self, name)!r:.40}")

    def replaced(self, **changes: Any) -> Self:
        """Settings with some fields replaced; any other name is an option of the learner's recipe."""
        from puridiver.options import Options

        own = {name: value for name, value in changes.items() if name in self.__dataclass_fields__}
        options = {name: value for name, value in changes.items() if name not in own}
        Options(**options)  # an unknown name is an error now, not after the data was read
        own["options"] = {**own.get("options", self.options), **options}
        return dataclasses.replace(self, **own)

    def with_network(self, image_shape: tuple[int, ...]) -> Self:
        """Settings that name their network, where it was "auto"."""
        from puridiver import plugins
        from puridiver.nets import choose_network
        from puridiver.runtime.device import choose_runtime

        plugins.load_all()
        height, width, channels = image_shape
        device = choose_runtime(self.device).device
        return dataclasses.replace(self, network=choose_network(self.network, (height, width, channels), device))

    def threads(self) -> AbstractContextManager[None]:
        """The threads that the learners run on, so that a seed gives the same figures on every machine."""
        from puridiver.runtime.device import choose_runtime, steady_threads

        return steady_threads(choose_runtime(self.device).device, self.network)

    def memory_for(self, n_samples: int) -> int:
        return self.memory or min(max(n_samples // 5, 50), 2_000)

    def epochs_for(self, memory: int) -> int:
        """Memory epochs after each part; a small memory has few batches and needs more epochs."""
        return self.epochs or next((epochs for epochs in FEWER_EPOCHS if epochs * memory >= LEAST_SEEN), MOST_EPOCHS)

    def work(self, n_samples: int) -> int:
        """The total of an audit's progress: stream samples, and memory samples times epochs."""
        memory = self.memory_for(n_samples)
        return self.passes * (n_samples + min(self.parts, n_samples) * self.epochs_for(memory) * memory)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
