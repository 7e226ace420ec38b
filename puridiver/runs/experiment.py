"""One run: a stream, a learner and the metrics put together, written to a run folder; resumable."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from puridiver import data
from puridiver.augment import ViewSettings
from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.metrics import MemoryWatch, Recorder, SampleHistory, Stopwatch, check_trace_file, joint_features
from puridiver.runs import folder as runs
from puridiver.runs.checkpoint import Checkpoints
from puridiver.runs.config import (
    RunConfig,
    resolve_diversity,
    resolve_memory,
    resolve_network,
    resolve_noise,
    resolve_options,
    resolve_tasks,
)
from puridiver.runs.loop import AHEAD_BYTES, Course, Progress, Saving, trainings_of
from puridiver.runs.provenance import all_code, command_for, commit, identify, plugin_code, plugin_files, versions
from puridiver.runs.resolve import load_source, resolve_run_stream
from puridiver.runtime.device import choose_runtime, describe_device, multiprocessors, steady_threads
from puridiver.streams import Stream, TrueLabels, noise_kind
from puridiver.streams.imbalance import BALANCED
from puridiver.trainers import NoiseHint

logger = logging.getLogger(__name__)

FILE_FIELDS = ("image_size", "test_share")  # of the config: what else a row should tell of data made of files

CHECKPOINT_SECONDS = 60.0


def diversity_features(config: RunConfig, source: DataSource, tell: Callable[[str], None]) -> Tensor:
    """Joint features of a run's data, made unless they are cached; `tell` hears how that goes on."""
    if (source.train.true_labels == UNKNOWN).any():
        raise ValueError("diversity is measured by true labels (Eq. 12), which these data do not have: leave it out")
    options, network = resolve_options(config, source), resolve_network(config, source)
    runtime = choose_runtime(config.device)
    with steady_threads(runtime.device, network):
        return joint_features(
            source,
            network,
            runtime,
            (Path(config.data_root) if config.data_root else data.default_root()) / "joint-features",
            ViewSettings(options.crop_padding, options.flip, "none"),
            lambda epoch, epochs: tell(f"joint network for diversity, epoch {epoch}/{epochs}"),
            options,
        )


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
        self._code, self._commit = all_code(config), commit()  # now: files may be edited while the run goes on
        self._plugin_files = plugin_files(config)
        if config.evaluate_on not in ("test", "validation"):
            raise ValueError(f"evaluate_on should be test or validation, but got {config.evaluate_on!r}")
        self.source = source or load_source(config, self._decoding)
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
        self._identity = identify(config, self.source, self.manifest.content_hash, self.learner.runtime)  # now, too
        self.stream = Stream(self.source, self.manifest)
        self.trainings = trainings_of(self.manifest.task_ends, self.options, config.stream_limit)
        self.evaluation_set = self._evaluation_set()
        self._stopping = threading.Event()
        self.learner_lost = False  # whether a run was to keep its learner and could not
        self._history: SampleHistory | None = None  # of a run that is traced

    def run(
        self,
        folder: Path | str | None = None,
        force: bool = False,
        resume: bool = False,
        checkpoint_every: float = CHECKPOINT_SECONDS,
        keep_learner: bool = False,
        trace: Path | str | None = None,
    ) -> dict[str, Any]:
        """Run to the end, once, and return the summary; with a folder, leave a record of everything in it.

        Parameters
        ----------
        force
            Replace a run that the folder holds.
        resume
            Continue the run that the folder holds, to the bits it would have come to uninterrupted. A finished one
            gives its summary; a folder without a run gets a new one.
        checkpoint_every
            Seconds between checkpoints, which also come at the end of each phase; 0: only there.
        keep_learner
            Save the learner in the folder at the end, with the data's own class names.
        trace
            Write to this .csv or .parquet file what became of each sample that was ever in the memory
            (`puridiver.metrics.SampleHistory`). The folder's events then tell it, too.
        """
        if trace is not None:
            check_trace_file(Path(trace))
            self._history = SampleHistory(self.source.class_names)
        with steady_threads(self.learner.runtime.device, self.learner.network):
            summary = self._run(None if folder is None else Path(folder), force, resume, checkpoint_every, keep_learner)
        if trace is not None and self._history is not None:
            self._history.write(Path(trace))
        return summary

    def _run(
        self, folder: Path | None, force: bool, resume: bool, checkpoint_every: float, keep_learner: bool
    ) -> dict[str, Any]:
        if folder is None:
            if resume:
                raise ValueError("only a run with a folder can be resumed: name the folder")
            course = self._course()
            course.run(self._stopping)
            return self._summary(course)
        runs.check_free(folder, force, resume)
        description = self.describe()
        checkpoints = Checkpoints(folder / runs.CHECKPOINT, runs.identity_hash(description), checkpoint_every)
        with runs.held(folder):
            return self._run_in(runs.RunFolder(folder), checkpoints, description, resume, keep_learner)

    def stop(self) -> None:
        """Ask the run to end at the next batch or epoch: it writes a checkpoint there and raises KeyboardInterrupt.

        May be called from a signal handler or from another thread.
        """
        self._stopping.set()

    def _run_in(
        self,
        out: runs.RunFolder,
        checkpoints: Checkpoints,
        description: dict[str, Any],
        resume: bool,
        keep_learner: bool,
    ) -> dict[str, Any]:
        begun = out.read(runs.CONFIG) if resume else None
        saved = None
        if begun is not None:
            out.check_same_run(description, begun)
            self._check_traced(out.path, begun)
            if (summary := out.read(runs.SUMMARY)) is not None:
                if not keep_learner or self._keep_learner_after_all(out.path / runs.LEARNER, checkpoints):
                    checkpoints.remove()
                self._recall(out)
                return summary
            saved = checkpoints.load()
        course = self._course(out.append)
        changes = {}
        if begun is not None and saved is not None:
            out.cut_metrics(course.load_state(*saved))
            self._recall(out)
            changes = {**runs.as_begun(begun), **changes_since(begun, description)}
        else:
            out.begin({**description, **({"traced": True} if self._history is not None else {})})
            self.manifest.save(out.path / runs.MANIFEST)
            out.write_plugins(self._plugin_files)
        course.run(self._stopping, Saving(out, checkpoints))
        summary = {**self._summary(course), **changes}
        self._keep_memory(out, course)
        shutil.rmtree(out.path / runs.LEARNER, ignore_errors=True)  # of an attempt that was killed
        kept = not keep_learner or self._keep_learner(out.path / runs.LEARNER)
        out.write(runs.SUMMARY, summary)
        if kept:  # else the learner can be had from it, once there is room
            checkpoints.remove()
        return summary

    def _check_traced(self, folder: Path, begun: dict[str, Any]) -> None:
        """A run is traced from its beginning to its end, or not at all."""
        if begun.get("traced"):
            self._history = self._history or SampleHistory(self.source.class_names)
        elif self._history is not None:
            raise DataError(
                f"the run in {folder} was begun without --trace: what entered its memory before is not known; go on "
                "without it, or --force runs it anew"
            )

    def _recall(self, out: runs.RunFolder) -> None:
        """What the events so far tell of samples in the memory."""
        if self._history is not None:
            self._history.recall(out.path / runs.METRICS)

    def _keep_memory(self, out: runs.RunFolder, course: Course) -> None:
        """The memory with its images, for reports. A disk that is too full for it must not cost the figures."""
        try:
            out.write_bytes(runs.MEMORY, course.recorder.snapshot(self.learner).to_bytes())
        except OSError as error:
            logger.warning("the memory's images are not kept: %s", error)

    def _keep_learner_after_all(self, folder: Path, checkpoints: Checkpoints) -> bool:
        """The learner of a finished run that could not be kept at its end, from the run's last checkpoint."""
        try:
            saved = None if (folder / storage.INDEX).exists() else checkpoints.load()
        except DataError as error:  # the figures of a finished run are there, whatever has become of its checkpoint
            logger.warning("the learner cannot be kept: %s", error)
            self.learner_lost = True
            return True
        if saved is None:
            return True
        course = self._course(watched=False)  # its events are in the folder already
        course.load_state(*saved)
        course.run(self._stopping)
        return self._keep_learner(folder)

    def _keep_learner(self, folder: Path) -> bool:
        """Save the learner with the data's own labels. A disk that is too full for it must not cost the figures."""
        settings, tensors = self.learner.state()
        names = self.source.class_names
        numbered = names == tuple(map(str, range(len(names))))  # the labels are numbers
        try:
            storage.save(folder, {**settings, "classes": settings["classes"] if numbered else list(names)}, tensors)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            logger.warning("the learner is not kept: %s; --resume tries again, once there is room", error)
            self.learner_lost = True
        return not self.learner_lost

    def describe(self) -> dict[str, Any]:
        """The run's config with every option resolved: enough to run it again."""
        learner = self.learner
        return {
            "config": dataclasses.asdict(self.config),
            "resolved": {
                "tasks": resolve_tasks(self.config, self.source),
                "noise": runs.without_folder(resolve_noise(self.config, self.source)),
                "memory": learner.capacity,
                "network": learner.network,
                "device": str(learner.runtime.device),
                "precision": learner.runtime.precision,
                "stream_hash": self.manifest.content_hash,
                "options": dict(self.options),
            },
            "stream": runs.place_in_record(self.config.stream),
            "command": command_for(self.config),
            "hardware": describe_device(learner.runtime.device),
            "versions": versions(),
            "commit": self._commit,
            "code_hash": self._code,
        }

    def _decoding(self, done: int, total: int) -> None:
        self.progress.advance(0, f"decoding images, {done:,} of {total:,}")

    # Putting it together ---------------------------------------------------------------------------------------

    def _hint(self) -> NoiseHint | None:
        """Told only on demand; the realised rate, since that is what is true of the stream."""
        if not self.config.tell_noise:
            return None
        if self.manifest.realised_noise is None:
            raise ValueError("tell_noise needs data whose true labels are known: the noise of these is not known")
        return NoiseHint(noise_kind(self.manifest.noise).hint, self.manifest.realised_noise)

    def _course(self, *own_listeners: Callable[[dict[str, Any]], None], watched: bool = True) -> Course:
        if self.learner.seen:
            raise ValueError("an experiment is run once, and this one's learner has learnt: make a new Experiment")
        images, labels, verified = self.evaluation_set
        history = self._history if watched else None
        listeners = [*own_listeners, *([history.add] if history is not None else []), *self.listeners]
        truth = TrueLabels(self.source, self.manifest)

        def emit(event: dict[str, Any]) -> None:
            for listener in listeners:
                listener(event)

        if images.nbytes <= AHEAD_BYTES:
            images = self.learner.runtime.move(images)  # looked at many times
        clock, groups = Stopwatch(self.learner.runtime), self.manifest.major_classes
        watch = MemoryWatch(truth, emit) if history is not None else None
        recorder = Recorder(images, labels, groups, truth, self._features(), emit, clock, verified, watch)
        return Course(self.config, self.stream, self.learner, recorder, self.progress)

    def _summary(self, course: Course) -> dict[str, Any]:
        return {**course.recorder.summary(), **self._provenance(), "started": course.started}

    def _evaluation_set(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Images, labels, and which of these are true for certain, where that is known of single ones."""
        chosen = self.source.test
        rows: slice | Tensor = slice(self.config.test_limit)
        if self.config.evaluate_on == "validation":
            if not len(self.manifest.holdout):
                raise ValueError(
                    "evaluate_on=validation needs a stream with a holdout: say --holdout N for a generated one"
                )
            held_out = self.manifest.holdout[: self.config.test_limit]
            chosen, rows = self.source.train.to_test_on(), torch.from_numpy(held_out.copy())
        if not len(chosen.images):
            raise ValueError(
                "accuracy needs images to test on, but the data have none: say --test-share 0.2 (in a grid file "
                "test_share = 0.2)"
            )
        return chosen.images[rows], chosen.labels[rows], None if chosen.verified is None else chosen.verified[rows]

    def _features(self) -> Tensor | None:
        """Joint features in stream order, or None."""
        if not resolve_diversity(self.config, self.source):
            return None
        features = diversity_features(self.config, self.source, lambda text: self.progress.advance(0, text))
        return features[torch.from_numpy(self.manifest.order.copy())]

    def _provenance(self) -> dict[str, Any]:
        config, manifest = self.config, self.manifest
        return {
            **self._identity.to_dict(),
            "lanes": self.lanes,
            "data": self.source.name,
            "stream": runs.place_in_record(config.stream),
            "stream_hash": manifest.content_hash,
            "noise": manifest.noise,
            "noise_rate": manifest.noise_rate,
            "noise_map": config.noise_map,
            **({"noise_matrix": manifest.noise_matrix} if manifest.noise_matrix else {}),
            **({"imbalance": manifest.imbalance} if manifest.imbalance != BALANCED else {}),
            "stream_noise": manifest.realised_noise,
            "sampler": config.sampler,
            "trainer": config.trainer,
            "recipe": config.recipe,
            # How image files were read, where the user said it.
            **{name: value for name in FILE_FIELDS if (value := getattr(config, name)) is not None},
            **({"left_out": list(self.source.left_out)} if self.source.left_out else {}),
            "options_changed": {**config.options, **({"epochs": config.epochs} if config.epochs else {})},
            "memory": self.learner.capacity,
            "network": self.learner.network,
            "epochs": self.options.epochs,
            "consolidations": self.options.consolidations,
            **({"task_trainings": self.trainings} if min(self.trainings) < self.options.consolidations else {}),
            "seed": config.seed,
            "told_noise": config.tell_noise,
            "evaluated_on": config.evaluate_on,
            "shortened": config.shortened,
            "device": describe_device(self.learner.runtime.device),
            **multiprocessors(self.learner.runtime.device),
            "precision": self.learner.runtime.precision,
            "graphs": self.learner.runtime.graphs,
            "versions": versions(),
            "commit": self._commit,
            "command": command_for(self.config),
            **plugin_code(self.config),
            **({"plugin_files": runs.file_hashes(self._plugin_files)} if self._plugin_files else {}),
        }


def changes_since(begun: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A warning, and a line for the summary, where a run goes on under other versions than it began with."""
    names = [name for name in ("versions", "commit", "code_hash", "hardware") if begun.get(name) != now[name]]
    if not names:
        return {}
    logger.warning(
        "the run began with other %s: its figures may differ from those of an uninterrupted run",
        " and ".join("code, the package's or a plugin's" if name == "code_hash" else name for name in names),
    )
    found: dict[str, Any] = {"began_with": {name: begun.get(name) for name in names}}
    if "code_hash" in names or "versions" in names:
        found |= {"cell": None, "code_hash": None}  # of no one code: grids and tables do not count it
    return found
