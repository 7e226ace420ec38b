"""One run: a stream, a learner and the metrics put together, written to a run folder; resumable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from puridiver import data, plugins
from puridiver.data.base import DataSource, ImageSet
from puridiver.files import write_atomically
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.metrics import Event
from puridiver.metrics.recorder import Recorder
from puridiver.runs import Progress
from puridiver.runs import resolve as resolving
from puridiver.runs.begun import Begun
from puridiver.runs.config import RunConfig, command_for, place_in_record
from puridiver.runs.ledger import checked, row_of
from puridiver.runs.loop import AHEAD_BYTES, RunLoop
from puridiver.runtime.device import choose_runtime, describe_device, steady_threads
from puridiver.streams import Stream, TrueLabels, noise_kind
from puridiver.trainers import NoiseHint

if TYPE_CHECKING:
    from puridiver.runs.checkpoint import Checkpoints
    from puridiver.runs.folder import RunFolder

CHECKPOINT_SECONDS = 60.0
Listener = Callable[[Event], None]


class Experiment:
    """One run, ready to go: the data is loaded, the stream resolved, the learner built. `run` does the rest.

    `source` is data that is loaded already, instead of what the config names. `listeners` are called with every event
    of the run. Whoever runs several at once on one device says so in `lanes`, for the record.
    """

    lanes = 1

    def __init__(self, config: RunConfig, progress: Progress | None = None, source: DataSource | None = None) -> None:
        self.config, self.progress = config, progress or Progress()
        self.listeners: list[Listener] = []
        self.source = source or resolving.load_source(
            config, lambda done, total: self.progress.advance(0, f"decoding images, {done:,} of {total:,}")
        )
        self.resolved = resolving.resolve(config, self.source)
        self.options = self.resolved.options
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
        self._commit, self._plugins = resolving.commit(), plugins.origins(*self.resolved.methods).values()
        limit = config.stream_limit
        stream = self.manifest if limit is None else resolving.shortened(self.manifest, limit)
        self.stream = Stream(self.source, stream)
        self.evaluation_set = self._evaluation_set()
        self._stopping = threading.Event()

    def run(
        self, folder: Path | str | None = None, force: bool = False, resume: bool = False,
        checkpoint_every: float = CHECKPOINT_SECONDS, keep_learner: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Run to the end, once, and return the summary; with a folder, leave a record of everything in it.

        `force` replaces the run that the folder holds, `resume` continues it to the bits it would have come to
        uninterrupted. Checkpoints come at the end of each phase and every so many seconds (0: only there). The learner
        is kept with the data's own class names.
        """
        if folder is None and resume:
            raise ValueError("only a run with a folder can be resumed: name the folder")
        now = self.describe()
        with steady_threads(self.learner.runtime.device, self.learner.network):
            if folder is None:
                loop = self._loop()
                loop.run(self._stopping)
                summary = row_of(self, loop, now)
            else:
                from puridiver.runs import folder as runs
                from puridiver.runs.checkpoint import Checkpoints

                out = runs.RunFolder(Path(folder))
                runs.check_free(out.path, force, resume)
                checkpoints = Checkpoints(out.path / runs.CHECKPOINT, self.id, checkpoint_every)
                with out.held():
                    summary = self._run_in(out, checkpoints, now, resume, keep_learner)
        return summary

    def stop(self) -> None:
        """Ask the run to save itself at the next batch or epoch and to raise KeyboardInterrupt; from any thread."""
        self._stopping.set()

    def describe(self) -> Begun:
        """What the run is and what it is begun with, for `config.json`: enough to run it again."""
        resolved, runtime = self.resolved, self.learner.runtime
        filled = {
            "tasks": resolved.tasks, "noise": resolved.noise, "memory": resolved.memory, "network": resolved.network,
            "diversity": resolved.diversity, "options": resolved.own_options,
        }  # fmt: skip
        places, code = list[str](), dict[str, str]()
        for origin in self._plugins:
            places.append(origin.place)
            if origin.source:
                code[place_in_record(origin.place)] = origin.source
        return Begun(
            id=self.id, config=self.config, resolved=filled,
            stream=place_in_record(self.config.stream), command=command_for(self.config, places),
            stream_hash=self.manifest.content_hash, device=describe_device(runtime.device),
            precision=runtime.precision, versions=resolving.versions(), commit=self._commit,
            plugins=code,
        )  # fmt: skip

    def _run_in(self, out: RunFolder, checkpoints: Checkpoints, now: Begun, resume: bool, keep_learner: bool) -> Event:
        """Begin a run, or go on with one, to its end, and write what it leaves, the summary last."""
        from puridiver.metrics.memory_snapshot import MemorySnapshot
        from puridiver.runs import folder as runs
        from puridiver.runs.checkpoint import remove_save

        begun, saved, changes = out.begun() if resume else None, None, dict[str, Any]()
        if begun is not None:
            begun.check_same(now, out.path)
            if (summary := out.read(runs.SUMMARY)) is not None:
                checkpoints.remove()  # where it was killed just before
                return checked(summary, str(out.path / runs.SUMMARY))
            saved = checkpoints.load()
            # It may go on from another folder, from which paths would be others.
            now = now._replace(config=begun.config, stream=begun.stream, command=begun.command)
        loop = self._loop(out.append)
        if begun is not None and saved is not None:
            out.cut_metrics(loop.load_state(*saved))
            changes = now.changes_since(begun)
        else:
            out.begin(now)
            self.manifest.save(out.path / runs.MANIFEST)
        loop.run(self._stopping, checkpoints, out.metrics_size)
        # What does not fit on the disk leaves the run unfinished, and the last checkpoint goes on from here.
        true = loop.recorder.truth.true[self.learner.memory.samples.arrivals.cpu()]
        write_atomically(out.path / runs.MEMORY, MemorySnapshot.of(self.learner, true).to_bytes())
        remove_save(out.path / runs.LEARNER)  # of an attempt that was killed
        if keep_learner:  # with the data's own labels
            settings, tensors = self.learner.state()
            names = self.source.class_names
            numbered = names == tuple(map(str, range(len(names))))
            storage.save(out.path / runs.LEARNER, settings | ({} if numbered else {"classes": list(names)}), tensors)
        summary = {**row_of(self, loop, now), **changes}
        out.write(runs.SUMMARY, summary)
        checkpoints.remove()
        return summary

    def _loop(self, *first: Listener) -> RunLoop:
        """The loop of the run from its beginning; `first` hear each event before the other listeners."""
        if self.learner.seen:
            raise ValueError("an experiment is run once, and this one's learner has learnt: make a new Experiment")
        listeners, features = [*first, *self.listeners], None

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)

        if self.resolved.diversity:
            from puridiver.metrics.joint import joint_features

            cache = (Path(self.config.data_root) if self.config.data_root else data.default_root()) / "joint-features"
            features = joint_features(
                self.source, self.resolved.network, choose_runtime(self.config.device), cache, self.options,
                lambda text: self.progress.advance(0, text),
            )[torch.from_numpy(self.stream.manifest.order.copy())]  # by arrival  # fmt: skip
        truth = TrueLabels.of(self.source, self.stream.manifest)
        groups = self.stream.manifest.major_classes
        recorder = Recorder(self.learner, self.evaluation_set, groups, truth, emit, features)
        return RunLoop(self.config, self.stream, recorder, self.progress)

    def _evaluation_set(self) -> ImageSet:
        chosen, limit = self.source.test, self.config.test_limit
        rows: slice | torch.Tensor = slice(limit)
        if self.config.evaluate_on == "validation":
            if not len(self.manifest.holdout):
                raise ValueError("evaluate_on=validation needs a stream with a holdout: say --holdout N")
            chosen, rows = self.source.train.to_test_on(), torch.from_numpy(self.manifest.holdout[:limit].copy())
        if not len(chosen.images):
            raise ValueError("accuracy needs images to test on, but the data have none: say --test-share 0.2")
        verified, images = None if chosen.verified is None else chosen.verified[rows], chosen.images[rows]
        if images.nbytes <= AHEAD_BYTES:  # evaluated many times
            images = self.learner.runtime.move(images)
        return ImageSet(images, chosen.labels[rows], verified=verified)
