"""One run: a stream, a learner and the metrics put together, written to a run folder; resumable."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from puridiver import data, plugins
from puridiver.augment import ViewSettings
from puridiver.data.base import UNKNOWN, DataSource
from puridiver.errors import DataError
from puridiver.files import read_regular, write_atomically
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.metrics import Event
from puridiver.metrics.history import SampleHistory, check_trace_file
from puridiver.metrics.recorder import Recorder
from puridiver.runs import folder as runs
from puridiver.runs import resolve as resolving
from puridiver.runs.checkpoint import Checkpoints, remove_save
from puridiver.runs.config import RunConfig, command_for, place_in_record
from puridiver.runs.ledger import row_of
from puridiver.runs.loop import AHEAD_BYTES, Progress, RunLoop, trainings_of
from puridiver.runtime.device import choose_runtime, describe_device, steady_threads
from puridiver.streams import Stream, TrueLabels, noise_kind
from puridiver.trainers import NoiseHint

logger = logging.getLogger(__name__)

CHECKPOINT_SECONDS = 60.0


def diversity_features(config: RunConfig, source: DataSource, tell: Callable[[str], None]) -> Tensor:
    """Joint features of a run's data, made unless they are cached; `tell` hears how that goes on."""
    from puridiver.metrics.joint import joint_features

    if (source.train.true_labels == UNKNOWN).any():
        raise ValueError("diversity is measured by true labels (Eq. 12), which these data do not have: leave it out")
    resolved, runtime = resolving.resolve(config, source), choose_runtime(config.device)
    views = ViewSettings(resolved.options.crop_padding, resolved.options.flip, "none")
    cache = (Path(config.data_root) if config.data_root else data.default_root()) / "joint-features"
    with steady_threads(runtime.device, resolved.network):
        return joint_features(source, resolved.network, runtime, cache, views, tell, resolved.options)


class Silent:
    """Progress that nobody watches."""

    def start(self, total: int) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...


class Experiment:
    """One run, ready to go: the data is loaded, the stream resolved, the learner built. `run` does the rest.

    `source` is data that is loaded already, instead of what the config names. `listeners` are called with every event
    of the run; one whose attribute `needs_memory_events` is true also hears which samples enter and leave the memory.
    Whoever runs several at once on one device says so in `lanes`, for the record.
    """

    lanes = 1

    def __init__(self, config: RunConfig, progress: Progress | None = None, source: DataSource | None = None) -> None:
        self.config, self.progress = config, progress or Silent()
        self.listeners: list[Callable[[Event], None]] = []
        self.source = source or resolving.load_source(config, self._decoding)
        self.resolved = resolving.resolve(config, self.source)
        self.options, methods = self.resolved.options, self.resolved.methods
        self.manifest = resolving.resolve_run_stream(config, self.source)
        hint = None
        if config.tell_noise:
            if self.manifest.realised_noise is None:
                raise ValueError("tell_noise needs data whose true labels are known: the noise of these is not known")
            hint = NoiseHint(noise_kind(self.manifest.noise).hint, self.manifest.realised_noise)
        self.learner = Learner(
            len(self.source.class_names), self.source.image_shape, self.resolved.memory, sampler=config.sampler,
            trainer=config.trainer, recipe=self.options, network=self.resolved.network, device=config.device,
            precision=config.precision, graphs=config.graphs, seed=config.seed, hint=hint,
        )  # fmt: skip
        # Now, and not at the end: files may be edited while the run goes on.
        self.id = resolving.run_id(config, self.source, self.manifest.content_hash)
        self._commit, self.plugin_codes = resolving.commit(), plugins.codes(*methods)
        self.plugin_files, self._places = resolving.plugin_files(methods), resolving.plugin_places(methods)
        self.stream = Stream(self.source, self.manifest)
        self.trainings = trainings_of(self.manifest.task_ends, self.options, config.stream_limit)
        self.evaluation_set = self._evaluation_set()
        self._stopping = threading.Event()
        self.learner_lost = False  # whether a run was to keep its learner and could not

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
            Write to this .csv or .parquet file what became of each sample that was ever in the memory.
        """
        history = None
        if trace is not None:
            check_trace_file(Path(trace))
            history = SampleHistory(self.source.class_names)
        with steady_threads(self.learner.runtime.device, self.learner.network):
            if folder is not None:
                out = runs.RunFolder(Path(folder))
                summary = self._run_in(out, force, resume, checkpoint_every, keep_learner, history)
            elif resume:
                raise ValueError("only a run with a folder can be resumed: name the folder")
            else:
                loop = self._loop(history, *self.listeners)
                loop.run(self._stopping)
                summary = row_of(self, loop)
        if trace is not None and history is not None:
            history.write(Path(trace))
        return summary

    def stop(self) -> None:
        """Ask the run to end at the next batch or epoch: it writes a checkpoint there and raises KeyboardInterrupt.

        May be called from a signal handler or from another thread.
        """
        self._stopping.set()

    def _run_in(
        self, out: runs.RunFolder, force: bool, resume: bool, every: float, keep_learner: bool,
        history: SampleHistory | None,
    ) -> Event:  # fmt: skip
        runs.check_free(out.path, force, resume)
        checkpoints = Checkpoints(out.path / runs.CHECKPOINT, self.id, every)
        with runs.held(out.path):
            begun = out.begun() if resume else None
            now = self.describe(keep_learner, history is not None)
            if begun is None:
                return self._go(out, checkpoints, now, None, keep_learner, history)
            begun.check_same(now, out.path)
            if history is not None and not begun.traced:
                raise DataError(f"the run in {out.path} was begun without --trace: go on without, or say --force")
            if (summary := out.read(runs.SUMMARY)) is not None:
                _replay(out, history)
                self._complete(out, checkpoints, keep_learner and begun.keep_learner)
                return summary
            if begun.traced:  # to its end, also where nobody asks for the table now
                history = history or SampleHistory(self.source.class_names)
            return self._go(out, checkpoints, now, begun, keep_learner, history)

    def _go(
        self, out: runs.RunFolder, checkpoints: Checkpoints, now: runs.Begun, begun: runs.Begun | None,
        keep_learner: bool, history: SampleHistory | None,
    ) -> Event:  # fmt: skip
        """Begin a run, or go on with one, to its end, and write what it leaves, the summary last."""
        saved, changes = None if begun is None else checkpoints.load(), dict[str, Any]()
        loop = self._loop(out.append, history, *self.listeners)
        if begun is not None:  # it may go on from another folder, from which paths would be others
            changes = {"stream": begun.stream, "command": begun.command}
            now = dataclasses.replace(now, config=begun.config, traced=begun.traced, **changes)
        if begun is not None and saved is not None:
            try:
                out.cut_metrics(loop.load_state(*saved))
            except DataError as error:
                raise DataError(f"{checkpoints.folder}: {error}; --force starts the run afresh") from error
            _replay(out, history)
            changes |= changes_since(begun, now)
        else:
            out.begin(now, self.plugin_files)
            self.manifest.save(out.path / runs.MANIFEST)
        loop.run(self._stopping, checkpoints, out.metrics_size)
        summary = {**row_of(self, loop), **changes}
        try:  # a disk that is too full for the memory's images must not cost the figures
            write_atomically(out.path / runs.MEMORY, loop.recorder.snapshot(self.learner).to_bytes())
        except OSError as error:
            logger.warning("the memory's images are not kept: %s", error)
        remove_save(out.path / runs.LEARNER)  # of an attempt that was killed
        kept = not keep_learner or self._keep_learner(out.path / runs.LEARNER)
        out.write(runs.SUMMARY, summary)
        if kept:  # else the learner can be had from it, once there is room
            checkpoints.remove()
        return summary

    def _complete(self, out: runs.RunFolder, checkpoints: Checkpoints, keep_learner: bool) -> None:
        """Keep the learner of a finished run whose end could not, from its last checkpoint."""
        folder = out.path / runs.LEARNER
        if keep_learner and not (folder / storage.INDEX).exists():
            try:
                saved = checkpoints.load()
                if saved is None:
                    raise DataError(f"{out.path} has no checkpoint to make it from; --force runs it anew")
            except DataError as error:  # the figures of a finished run are there, whatever became of its checkpoint
                logger.warning("the learner cannot be kept: %s", error)
                self.learner_lost = True
                return
            loop = self._loop()  # its events are in the folder already
            loop.load_state(*saved)
            loop.run(self._stopping)
            if not self._keep_learner(folder):
                return
        checkpoints.remove()

    def _keep_learner(self, folder: Path) -> bool:
        """Save the learner with the data's own labels. A disk that is too full for it must not cost the figures."""
        settings, tensors = self.learner.state()
        names = self.source.class_names
        numbered = names == tuple(map(str, range(len(names))))  # the labels are numbers
        try:
            storage.save(folder, {**settings, "classes": settings["classes"] if numbered else list(names)}, tensors)
        except OSError as error:
            remove_save(folder)
            logger.warning("the learner is not kept: %s; --resume tries again, once there is room", error)
            self.learner_lost = True
        return not self.learner_lost

    def describe(self, keep_learner: bool = False, traced: bool = False) -> runs.Begun:
        """What the run is and what it is begun with, for `config.json`: enough to run it again."""
        resolved, runtime = self.resolved, self.learner.runtime
        filled = {name: getattr(resolved, name) for name in ("tasks", "noise", "memory", "network", "diversity")}
        return runs.Begun(
            id=self.id, config=self.config, resolved={**filled, "options": resolved.own_options},
            stream=place_in_record(self.config.stream), command=command_for(self.config, self._places),
            stream_hash=self.manifest.content_hash, device=describe_device(runtime.device),
            precision=runtime.precision, versions=resolving.versions(), commit=self._commit,
            keep_learner=keep_learner, traced=traced, files=[runs.CONFIG, *runs.FILES, *self.plugin_files],
        )  # fmt: skip

    def _decoding(self, done: int, total: int) -> None:
        self.progress.advance(0, f"decoding images, {done:,} of {total:,}")

    def _loop(self, *listening: Callable[[Event], None] | None) -> RunLoop:
        listeners = [listener for listener in listening if listener is not None]
        if self.learner.seen:
            raise ValueError("an experiment is run once, and this one's learner has learnt: make a new Experiment")
        images, labels, verified = self.evaluation_set

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)

        if images.nbytes <= AHEAD_BYTES:
            images = self.learner.runtime.move(images)  # evaluated many times
        features = None
        if self.resolved.diversity:
            found = diversity_features(self.config, self.source, lambda text: self.progress.advance(0, text))
            features = found[torch.from_numpy(self.manifest.order.copy())]  # in stream order
        watched = any(getattr(listener, "needs_memory_events", False) for listener in listeners)
        truth, groups = TrueLabels(self.source, self.manifest), self.manifest.major_classes
        recorder = Recorder(images, labels, groups, truth, emit, features, verified, watched)
        return RunLoop(self.config, self.stream, self.learner, recorder, self.progress)

    def _evaluation_set(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Images, labels, and which of these are true for certain, where that is known of single ones."""
        chosen, limit = self.source.test, self.config.test_limit
        rows: slice | Tensor = slice(limit)
        if self.config.evaluate_on == "validation":
            if not len(self.manifest.holdout):
                raise ValueError("evaluate_on=validation needs a stream with a holdout: say --holdout N")
            chosen, rows = self.source.train.to_test_on(), torch.from_numpy(self.manifest.holdout[:limit].copy())
        if not len(chosen.images):
            raise ValueError("accuracy needs images to test on, but the data have none: say --test-share 0.2")
        return chosen.images[rows], chosen.labels[rows], None if chosen.verified is None else chosen.verified[rows]


def _replay(out: runs.RunFolder, history: SampleHistory | None) -> None:
    """Let a history hear the events that are in the folder already."""
    lines: Sequence[bytes] = read_regular(out.path / runs.METRICS).splitlines() if history is not None else ()
    for line in lines:
        history(json.loads(line))  # type: ignore[misc]


def changes_since(begun: runs.Begun, now: runs.Begun) -> dict[str, Any]:
    """A warning, and an entry for the summary, where a run goes on with other versions or on another machine."""
    names = [n for n in ("versions", "commit", "device", "precision") if getattr(begun, n) != getattr(now, n)]
    if not names:
        return {}
    logger.warning("the run began with other %s: its figures may differ from those of one machine", " and ".join(names))
    return {"began_with": {name: getattr(begun, name) for name in names}}
