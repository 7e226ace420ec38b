"""One run: a stream, a learner and the metrics put together, written to a run folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from puridiver import data, runs
from puridiver.augment import ViewSettings
from puridiver.config import RunConfig, resolve_diversity, resolve_memory, resolve_network, resolve_options
from puridiver.data.base import DataSource
from puridiver.learner import Learner
from puridiver.metrics import Recorder, Stopwatch, joint_features
from puridiver.provenance import command_for, commit, identify, versions
from puridiver.resolve import load_source, resolve_run_stream
from puridiver.runtime import Runtime, choose_runtime, describe_device
from puridiver.streams import Batch, Stream, TrueLabels
from puridiver.trainers import NoiseHint

AHEAD_BYTES = 64 << 20  # images that are held on the device, or moved to it, at a time


class Progress(Protocol):
    """What a run tells while it goes on."""

    def start(self, total: int) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...


class Silent:
    """Progress that nobody watches."""

    def start(self, total: int) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...


class Experiment:
    """One run, ready to go: the data is loaded, the stream resolved, the learner built. `run` does the rest.

    `source` is data that is loaded already, instead of what the config names. Whoever runs several at once on one
    device says so in `lanes`, for the record.
    """

    lanes = 1

    def __init__(self, config: RunConfig, progress: Progress | None = None, source: DataSource | None = None) -> None:
        self.config, self.progress = config, progress or Silent()
        self.listeners: list[Callable[[dict[str, Any]], None]] = []  # called with every event of the run
        if config.evaluate_on not in ("test", "validation"):
            raise ValueError(f"evaluate_on should be test or validation, but got {config.evaluate_on!r}")
        self.source = source or load_source(config)
        self.manifest = resolve_run_stream(config, self.source)
        self.options = resolve_options(config, self.source)
        self.learner = Learner(
            len(self.source.class_names),
            self.source.image_shape,
            resolve_memory(config, self.source),
            sampler=config.sampler,
            trainer=config.trainer,
            recipe=self.options,
            network=resolve_network(config, self.source),
            device=config.device,
            precision=config.precision,
            graphs=config.graphs,
            seed=config.seed,
            hint=self._hint(),
        )
        self.stream = Stream(self.source, self.manifest)
        self.evaluation_set = self._evaluation_set()

    def run(self, folder: Path | None = None, force: bool = False) -> dict[str, Any]:
        """Run to the end and return the summary; with a folder, leave a trace of everything in it."""
        out = runs.RunFolder(folder, force) if folder else None
        started = datetime.now(UTC).isoformat(timespec="seconds")
        if out:
            out.write(runs.CONFIG, self.describe())
            self.manifest.save(out.path / runs.MANIFEST)
        recorder = self._recorder(out)
        epochs, capacity = self.options.epochs, self.learner.memory.capacity
        self.progress.start(self._stream_length() + self.stream.n_tasks * epochs * capacity)
        for task in range(self.stream.n_tasks):
            self._stream_phase(recorder, task)
            self._memory_phase(recorder, task)
            recorder.clock.switch("evaluate")
            self.progress.event(recorder.task_ended(self.learner, task))
        recorder.clock.stop()
        summary = {**recorder.summary(), **self._provenance(), "started": started}
        if out:
            out.write_bytes(runs.MEMORY, recorder.snapshot(self.learner).to_bytes())
            out.write(runs.SUMMARY, summary)
        return summary

    def describe(self) -> dict[str, Any]:
        """The run's config with every option resolved: enough to run it again."""
        learner = self.learner
        return {
            "config": dataclasses.asdict(self.config),
            "resolved": {
                "memory": learner.memory.capacity,
                "network": learner.network,
                "device": str(learner.runtime.device),
                "options": self.options.to_dict(),
            },
            "command": command_for(self.config),
            "versions": versions(),
            "commit": commit(),
        }

    # The two phases of a task ----------------------------------------------------------------------------------

    def _stream_phase(self, recorder: Recorder, task: int) -> None:
        batches = first_samples(self.stream.batches(self.options.batch_size, task), self.config.stream_limit)
        # Spread evenly, the last one just before the memory phase.
        wanted = self.config.anytime_points
        points = {len(batches) * (i + 1) // wanted for i in range(wanted)}
        clock = recorder.clock
        for number, batch in enumerate(moved_ahead(batches, self.learner.runtime), start=1):
            clock.switch("observe")
            self.learner.observe(batch.images, batch.labels)
            recorder.saw(batch, self.learner)
            self.progress.advance(len(batch), f"task {task + 1}/{self.stream.n_tasks}: stream")
            if number in points:
                clock.switch("evaluate")
                recorder.anytime(self.learner, task)

    def _memory_phase(self, recorder: Recorder, task: int) -> None:
        recorder.clock.switch("consolidate")
        for epoch in self.learner.consolidation():
            recorder.clock.switch("evaluate")
            recorder.epoch(self.learner, task, epoch, self.config.evaluate_epochs)
            text = f"task {task + 1}/{self.stream.n_tasks}: memory epoch {epoch + 1}/{self.options.epochs}"
            self.progress.advance(self.learner.memory.capacity, text)
            recorder.clock.switch("consolidate")

    # Putting it together ---------------------------------------------------------------------------------------

    def _hint(self) -> NoiseHint | None:
        """Told only on demand; the realised rate, since that is what is true of the stream."""
        if not self.config.tell_noise:
            return None
        return NoiseHint(self.manifest.noise, self.manifest.realised_noise)

    def _stream_length(self) -> int:
        if self.config.stream_limit is None:
            return len(self.stream)
        return self.stream.n_tasks * self.config.stream_limit

    def _recorder(self, out: runs.RunFolder | None) -> Recorder:
        images, labels = self.evaluation_set
        truth = TrueLabels(self.source, self.manifest)
        listeners = [*([out.append] if out else []), *self.listeners]

        def emit(event: dict[str, Any]) -> None:
            for listener in listeners:
                listener(event)

        clock = Stopwatch(self.learner.runtime)
        if images.nbytes <= AHEAD_BYTES:
            images = self.learner.runtime.move(images)  # looked at many times
        return Recorder(images, labels, self.manifest.major_classes, truth, self._features(), emit, clock)

    def _evaluation_set(self) -> tuple[Tensor, Tensor]:
        chosen = self.source.test
        images, labels = chosen.images, chosen.labels
        if self.config.evaluate_on == "validation":
            if not len(self.manifest.holdout):
                raise ValueError(
                    "evaluate_on=validation needs a stream with a holdout: say --holdout N for a generated one"
                )
            rows = torch.from_numpy(self.manifest.holdout.copy())
            images, labels = self.source.train.images[rows], self.source.train.labels[rows]
        return images[: self.config.test_limit], labels[: self.config.test_limit]

    def _features(self) -> Tensor | None:
        """Joint features in stream order, or None."""
        if not resolve_diversity(self.config, self.source):
            return None
        root = Path(self.config.data_root) if self.config.data_root else data.default_root()
        features = joint_features(
            self.source,
            self.learner.network,
            choose_runtime(self.config.device),
            root / "joint-features",
            ViewSettings(self.options.crop_padding, self.options.flip, "none"),
            lambda epoch, epochs: self.progress.advance(0, f"joint network for diversity, epoch {epoch}/{epochs}"),
        )
        return features[torch.from_numpy(self.manifest.order.copy())]

    def _provenance(self) -> dict[str, Any]:
        config, manifest = self.config, self.manifest
        return {
            **identify(config, self.source, manifest.content_hash, self.learner.runtime).to_dict(),
            "lanes": self.lanes,
            "data": self.source.name,
            "stream": config.stream,
            "stream_hash": manifest.content_hash,
            "noise": manifest.noise,
            "noise_rate": manifest.noise_rate,
            "noise_map": config.noise_map,
            "stream_noise": manifest.realised_noise,
            "sampler": config.sampler,
            "trainer": config.trainer,
            "recipe": config.recipe,
            "options_changed": {**config.options, **({"epochs": config.epochs} if config.epochs else {})},
            "memory": self.learner.memory.capacity,
            "network": self.learner.network,
            "epochs": self.options.epochs,
            "seed": config.seed,
            "told_noise": config.tell_noise,
            "evaluated_on": config.evaluate_on,
            "shortened": config.shortened,
            "device": describe_device(self.learner.runtime.device),
            "precision": self.learner.runtime.precision,
            "graphs": self.learner.runtime.graphs,
            "versions": versions(),
            "commit": commit(),
            "command": command_for(self.config),
        }


def first_samples(batches: Iterable[Batch], limit: int | None) -> list[Batch]:
    """The batches up to `limit` samples, the last one cut to fit."""
    kept, left = [], limit
    for batch in batches:
        if left is not None:
            batch = batch.first(left)  # noqa: PLW2901
            left -= len(batch)
        if len(batch):
            kept.append(batch)
    return kept


def moved_ahead(batches: Sequence[Batch], runtime: Runtime) -> Iterator[Batch]:
    """The batches with their images on the device, moved many at a time: a copy for each would make the host wait."""
    per_group = max(1, AHEAD_BYTES // max(1, batches[0].images.nbytes)) if batches else 1
    for start in range(0, len(batches), per_group):
        group = batches[start : start + per_group]
        images = runtime.move(torch.cat([batch.images for batch in group])).split([len(batch) for batch in group])
        for batch, moved in zip(group, images, strict=True):
            yield dataclasses.replace(batch, images=moved)
