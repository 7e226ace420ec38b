"""Features of a network trained jointly on all clean data: what Eq. 12 measures diversity with. Cached on disk."""

import contextlib
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from puridiver import augment, plugins
from puridiver.data.base import DataSource
from puridiver.errors import DataError
from puridiver.files import file_lock
from puridiver.learner import storage
from puridiver.learner.inputs import channels_first
from puridiver.nets import NETWORKS, build_network
from puridiver.options import Options, class_options
from puridiver.runtime.device import Runtime
from puridiver.runtime.model import TrainableModel, sgd
from puridiver.trainers.schedule import cosine

EPOCHS, BATCH, RATE, SEED = 20, 128, 0.1, 0
SGD = Options(momentum=0.9, weight_decay=5e-4)
CHUNK = 500


def joint_features(
    source: DataSource, network: str, runtime: Runtime, cache: Path, options: Options,
    tell: Callable[[str], None] = lambda text: None,
) -> Tensor:  # fmt: skip
    """Features (N, d) of the source's train images; trains the network unless the cache has them, or soon will.

    The cache is keyed by the data, the network with its own options and code, and how it is trained.
    """
    if (source.train.true_labels < 0).any():
        raise ValueError("diversity is measured by true labels (Eq. 12), which these data do not have: leave it out")
    own = {name: options[name] for name in class_options(NETWORKS[network])}
    code = list(plugins.codes(("network", network)).values())
    of_vectors = len(source.input_shape) == 1
    augmented = [options.vector_noise] if of_vectors else [options.crop_padding, options.flip]
    training = [runtime.precision, EPOCHS, BATCH, *augmented]
    key = hashlib.sha256(json.dumps([source.fingerprint, own, code, training], sort_keys=True).encode()).hexdigest()
    folder = cache / f"{network}-{key[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    # Runs that start side by side need the same one, and it takes minutes.
    with file_lock(cache / f"{folder.name}.lock", wait_seconds=math.inf, what="the joint network"):
        with contextlib.suppress(DataError):  # a cache that cannot be read is made anew
            return storage.load(folder)[1]["features"]
        generator = torch.Generator().manual_seed(SEED)
        net = build_network(network, len(source.class_names), source.input_shape, Options(**own), generator)
        model = TrainableModel(net, runtime, sgd(SGD))
        _train(model, source, options, generator, tell)
        parts = torch.arange(len(source.train)).split(CHUNK)
        found = [model.outputs(_batch(source.train.images, rows, runtime)).features.cpu() for rows in parts]
        storage.save(folder, {"network": network}, {"features": torch.cat(found)})
        return torch.cat(found)


def _train(
    model: TrainableModel, source: DataSource, options: Options, generator: torch.Generator, tell: Callable[[str], None]
) -> None:
    images, runtime = source.train.images, model.runtime
    augmentation = augment.augmentation_for(source.input_shape, options)
    for epoch in range(EPOCHS):
        model.set_rate(cosine(epoch, EPOCHS, RATE))
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            batch = _batch(images, rows, runtime)
            view = augmentation.moved(batch, generator)
            if len(rows) > 1:  # BatchNorm needs two
                labels = runtime.move(source.train.true_labels[rows])
                model.step(F.cross_entropy(model.logits(view), labels))
        tell(f"joint network for diversity, epoch {epoch + 1}/{EPOCHS}")


def _batch(images: Tensor, rows: Tensor, runtime: Runtime) -> Tensor:
    """Some images as (N, C, H, W), or vectors, on the device."""
    return runtime.move(channels_first(images[rows]))
