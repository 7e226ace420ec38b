"""Avalanche: a plugin with our sampler and consolidation for its strategies, and manifests as its benchmarks."""

import itertools
from typing import Any

import torch
from avalanche.benchmarks import CLScenario, benchmark_from_datasets
from avalanche.benchmarks.utils import AvalancheDataset, ConstantSequence, DataAttribute
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.storage_policy import ExemplarsBuffer
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from puridiver.augment import to_float
from puridiver.data.base import DataSource
from puridiver.learner import Learner
from puridiver.learner.observation import moment
from puridiver.memory import Samples
from puridiver.streams import Stream, StreamManifest
from puridiver.trainers import Trainer


def benchmark_of(source: DataSource, manifest: StreamManifest) -> CLScenario:
    """A manifest as an Avalanche benchmark: an experience a task in `train_stream`, all test images in `test_stream`.

    Images are uint8 (C, H, W), in the order of arrival, with the given labels: train with `shuffle=False`.
    """
    stream = Stream(source, manifest)
    parts = [stream.read(start, end) for start, end in itertools.pairwise((0, *manifest.task_ends))]
    test = source.test
    return benchmark_from_datasets(
        train=[_dataset(part.images, part.labels) for part in parts], test=[_dataset(test.images, test.labels)]
    )


def _dataset(images: Tensor, labels: Tensor) -> AvalancheDataset:
    """uint8 (N, H, W, C) and class ids as a dataset; task labels are all 0: nobody tells a learner the task."""
    pixels = images.permute(0, 3, 1, 2).contiguous()
    tasks = DataAttribute(ConstantSequence(0, len(labels)), "targets_task_labels", use_in_getitem=True)
    return AvalancheDataset(
        [TensorDataset(pixels, labels)], data_attributes=[DataAttribute(labels.tolist(), "targets"), tasks]
    )


class LogitModel(nn.Module):
    """The live network of a learner as Avalanche wants it: images in, logits out."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.network = learner.trainer.networks[0]

    def forward(self, images: Tensor) -> Tensor:
        return self.network(to_float(as_pixels(images))).logits


def as_pixels(images: Tensor) -> Tensor:
    """uint8 images; floats should be in [0, 1]."""
    if images.dtype == torch.uint8:
        return images
    low, high = float(images.min()), float(images.max())
    if not (low >= 0 and high <= 1):
        raise ValueError(
            f"images should be uint8, or floats in [0, 1], but got {low:g} to {high:g}: leave Normalize out of the "
            "transforms, since the model scales images itself"
        )
    return (images * 255).round().to(torch.uint8)


class SamplerBuffer(ExemplarsBuffer):
    """The memory of a learner as a storage policy. Its sampler chooses after every mini-batch, not when asked."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        super().__init__(learner.capacity)

    @property
    def buffer(self) -> AvalancheDataset:
        held = self.learner.memory.held()
        return _dataset(held.images.cpu().permute(0, 2, 3, 1), held.labels.cpu())

    @buffer.setter
    def buffer(self, new_buffer: AvalancheDataset) -> None:
        if len(new_buffer):
            raise ValueError("the sampler alone decides what the memory holds")

    def resize(self, strategy: Any, new_size: int) -> None:
        if new_size != self.max_size:
            raise ValueError(f"the memory keeps its size, {self.max_size}: make a plugin with another `memory`")


class PuriDivERPlugin(SupervisedPlugin):
    """Adds a memory, its sampler and consolidations to an Avalanche strategy, which takes the online steps.

    The strategy trains `plugin.model` in one pass, in mini-batches that memory samples join where the recipe replays.
    The sampler chooses after each of them (`plugin.storage_policy`). After each experience the trainer trains the same
    network on the memory. Options of the online step, such as `online_lr` and `online_steps`, are the strategy's now.

    Parameters
    ----------
    classes, input_shape, memory, options
        As of `puridiver.Learner`, which is at `plugin.learner`. Sampler and trainer are `puridiver`, unless you name
        others; the trainer should have one network.

    Examples
    --------
    >>> plugin = PuriDivERPlugin(10, (8, 8, 1), memory=100, epochs=15)
    >>> optimiser = torch.optim.SGD(plugin.model.parameters(), lr=0.05)
    >>> strategy = Naive(model=plugin.model, optimizer=optimiser, train_mb_size=16, plugins=[plugin])  # doctest: +SKIP
    """

    def __init__(self, classes: Any, input_shape: tuple[int, int, int], memory: int = 500, **options: Any) -> None:
        super().__init__()
        methods = {"sampler": "puridiver", "trainer": "puridiver"}
        self.learner = learner = Learner(classes, input_shape, memory, **{**methods, **options})
        trainer = type(learner.trainer)
        own_step = trainer.observe is not Trainer.observe or trainer.online_loss is not Trainer.online_loss
        if learner.grow or trainer.n_networks > 1 or own_step or learner.options.online_average:
            raise ValueError(
                "the plugin should have all classes from the beginning, a trainer with one network and the usual "
                "online step, which is the strategy's here, and no online_average, but got "
                f"grow={learner.grow}, {learner.trainer_name}, {learner.options.online_average}"
            )
        self.model, self.storage_policy = LogitModel(learner), SamplerBuffer(learner)
        self._arrived: tuple[Tensor, Tensor] | None = None
        self._replayed: Tensor | None = None

    def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        if strategy.model is not self.model or strategy.train_epochs != 1:
            raise ValueError("the strategy should train plugin.model, with train_epochs=1: the stream passes once")
        here, there = torch.device(strategy.device).type, self.learner.runtime.device.type
        if here != there:
            raise ValueError(f"the strategy's device is {here} and the plugin's {there}: give both the same `device`")

    def before_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Let memory samples join the mini-batch."""
        learner, pixels, labels = self.learner, as_pixels(strategy.mb_x), strategy.mb_y
        self._arrived, self._replayed = (pixels, labels), None
        replay, tasks = learner.options.replay, strategy.mbatch[2:]
        if len(learner.memory) and (replay == "always" or (replay != "never" and learner.consolidations)):
            size, view = learner.trainer.replay_size(len(pixels)), learner.trainer.replay_view
            old = learner.memory.replay(size, view, learner.generators["sampler"])
            self._replayed = old.arrivals
            pixels, labels = torch.cat([pixels, old.images]), torch.cat([labels, old.labels])
            tasks = [torch.cat([each, each.new_zeros(len(old))]) for each in tasks]
        strategy.mbatch = [pixels, labels, *tasks]

    def after_training_iteration(self, strategy: Any, **kwargs: Any) -> None:
        """Offer what arrived to the memory."""
        assert self._arrived is not None
        (x, y), learner = self._arrived, self.learner
        arrivals = torch.arange(learner.seen, learner.seen + len(x), device=x.device)
        batch = Samples(x, y, arrivals, torch.zeros(len(x), device=x.device), torch.full_like(y, -1))
        now = moment(learner, strategy.loss.detach(), self._replayed)
        learner.memory.update(batch, now, learner.trainer.on_candidates)
        learner.seen += len(x)
        learner.seen_of.update(y.tolist())
        self.model.train()  # the sampler has looked in evaluation mode

    def after_training_exp(self, strategy: Any, **kwargs: Any) -> None:
        """Train on the memory."""
        self.learner.consolidate()
