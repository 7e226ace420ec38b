"""What a user wants to know before waiting for the result of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from puridiver.errors import few

if TYPE_CHECKING:
    from puridiver.data.base import DataSource
    from puridiver.runs.experiment import Experiment
    from puridiver.streams import StreamManifest

LONG_ON_A_CPU = 63  # memory epochs a task


def run_notes(experiment: Experiment) -> Iterator[str]:
    """Everything that may make a run slow, or its figures other than the user expects."""
    from puridiver.trainers import TRAINERS

    config, source, manifest = experiment.config, experiment.source, experiment.manifest
    options, network, memory = experiment.options, experiment.learner.network, experiment.learner.capacity
    classes = len(source.class_names)
    on_cpu = experiment.learner.runtime.device.type == "cpu" and not config.shortened
    if on_cpu and network.startswith("resnet"):
        yield f"{network} takes hours on a CPU; --network small is far quicker, --stream-limit and --epochs too"
    elif on_cpu and options.epochs > LONG_ON_A_CPU:
        yield f"{options.epochs} memory epochs take long on a CPU; --epochs 31 is a quick look"
    if source.left_out:
        yield f"left out, since they cannot be read: {few(source.left_out, 3)}"
    yield from _missing_classes(source)
    if memory >= len(manifest):
        yield f"a memory of {memory} holds the whole stream ({len(manifest)} samples): say a smaller --memory"
    if memory < classes:
        yield f"a memory of {memory} cannot hold a sample of each of the {classes} classes: say a larger --memory"
    yield from _noise_on_top(source, manifest)
    warm_up = {"puridiver": "warmup_epochs", "selfie": "baseline_warmup", "dividemix": "baseline_warmup"}
    if (name := warm_up.get(config.trainer)) and options.epochs <= options[name]:
        yield f"all epochs are warm-up ({name}={options[name]}) and doubt no label: say more --epochs or --set {name}=0"
    trainer = TRAINERS.get(config.trainer)
    if trainer is not None and trainer.wants_hint and not config.tell_noise:
        yield f"{trainer.title} is not told the noise; --tell-noise tells it the true kind and rate"


def _missing_classes(source: DataSource) -> Iterator[str]:
    """Classes that only one part of the data has: accuracy says nothing of them."""
    train, test = (set(part.labels.unique().tolist()) for part in (source.train, source.test))
    if train and test:
        for classes, text in (
            (test - train, "no train image has the label {}: test images of it count as wrong"),
            (train - test, "no test image shows {}: the accuracy says nothing of it"),
        ):
            if classes:
                yield text.format(few([repr(source.class_names[label]) for label in sorted(classes)], 3))


def _noise_on_top(source: DataSource, manifest: StreamManifest) -> Iterator[str]:
    """Noise that is planted in labels which are partly wrong already."""
    from puridiver.data.base import UNKNOWN

    train = source.train
    if manifest.noise == "none" or train.true is None:
        return
    known = train.true != UNKNOWN
    wrong = int((train.labels != train.true)[known].sum())
    if wrong:
        yield f"the noise is planted on top of labels of which {wrong / int(known.sum()):.0%} are wrong already"
