"""One run: joins a stream, a learner and the metrics, writes a run folder, and can be resumed."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from puridiver import data, plugins
from puridiver.data.base import DataSource, ImageSet
from puridiver.files import write_atomically
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.metrics import Event
from puridiver.metrics.joint import joint_features
from puridiver.metrics.memory_snapshot import MemorySnapshot
from puridiver.metrics.recorder import Recorder
from puridiver.runs import Progress
from puridiver.runs import folder as runs
from puridiver.runs import resolve as resolving
from puridiver.runs.checkpoint import Checkpoint, remove_save
from puridiver.runs.config import SETTINGS, Role, RunConfig, command_for, place_in_record
from puridiver.runs.ledger import checked
from puridiver.runs.loop import AHEAD_BYTES, RunLoop
from puridiver.runtime.device import choose_runtime, describe_device, steady_threads
from puridiver.streams import Stream, TrueLabels, noise_kind, noise_name
from puridiver.trainers import NoiseHint

CHECKPOINT_SECONDS = 60.0
Listener = Callable[[Event], None]


class Experiment:
    """One run, ready to go: the data is loaded, the stream resolved, the learner built. `run` does the rest.

    `source` is data that is loaded already, instead of what the config names. `listeners` are called with every event
    of the run. Once `stopping` is set, from any thread, the run saves itself at the next batch or epoch and raises
    KeyboardInterrupt. Whoever runs several at once on one device says so in `lanes`, for the record.
    """

    lanes = 1

    def __init__(self, config: RunConfig, progress: Progress | None = None, source: DataSource | None = None) -> None:
        self.config, self.progress = config, progress or Progress()
        self.listeners: list[Listener] = []
        self.source = source or data.load(
            *resolving.data_of(config),
            lambda done, total: self.progress.advance(0, f"decoding images, {done:,} of {total:,}"),
        )
        found = self.resolved = resolving.resolve(config, self.source)
        self.options = found.options
        self.manifest = resolving.resolve_run_stream(config, found, self.source)
        hint = None
        if config.tell_noise:
            if self.manifest.realised_noise is None:
                raise ValueError("tell_noise needs data whose true labels are known: the noise of these is not known")
            hint = NoiseHint(noise_kind(self.manifest.noise).hint, self.manifest.realised_noise)
        how: dict[str, Any] = {**config.values(Role.MACHINE), **found.methods, "seed": config.seed, "hint": hint}
        classes, shape = len(self.source.class_names), self.source.input_shape
        self.learner = Learner(classes, shape, found.memory, recipe=self.options, **how)
        # Now and not at the end: files may be edited during the run.
        self.id = resolving.run_id(config, found, self.manifest.content_hash)
        self._commit, self._plugins = resolving.commit(), plugins.origins(*found.methods.items())
        limit = config.stream_limit
        stream = self.manifest if limit is None else resolving.shortened(self.manifest, limit)
        self.stream = Stream(self.source, stream)
        self.evaluation_set = self._evaluation_set()
        self.stopping = threading.Event()

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
        with steady_threads(self.learner.runtime.device, self.resolved.network):
            if folder is None:
                loop = self._loop()
                loop.run(self.stopping)
                summary = {**self.facts(), **loop.figures()}
            else:
                out = runs.RunFolder(Path(folder))
                runs.check_free(out.path, force, resume)
                checkpoint = Checkpoint(out.path / runs.CHECKPOINT, self.id, checkpoint_every)
                with out.held():
                    summary = self._run_in(out, checkpoint, resume, keep_learner)
        return summary

    def facts(self) -> dict[str, Any]:
        """The part of the ledger's row that is known before the run."""
        config, manifest, options, methods = self.config, self.manifest, self.options, self.resolved.methods
        learner, runtime = self.learner, self.learner.runtime
        as_given = manifest.noise == "none" and manifest.realised_noise != 0
        noise = "as given" if as_given else noise_name(manifest.noise, manifest.noise_rate)
        facts = {
            "id": self.id, "grid": None, "method": "{sampler} + {trainer}".format_map(methods),
            "title": plugins.title_of(methods["sampler"], methods["trainer"]),
            "column": f"{self.source.name} {noise}", "seed": config.seed, "data": self.source.name,
            "stream": place_in_record(config.stream), "stream_hash": manifest.content_hash, "noise": manifest.noise,
            "noise_rate": manifest.noise_rate, "noise_map": config.noise_map, "stream_noise": manifest.realised_noise,
            "sampler": methods["sampler"], "trainer": methods["trainer"], "recipe": config.recipe,
            "options": {**config.options, **({} if config.epochs is None else {"epochs": config.epochs})},
            "memory": learner.capacity, "network": methods["network"], "epochs": options.epochs,
            "consolidations": options.consolidations, "told_noise": config.tell_noise,
            "evaluated_on": config.evaluate_on, "shortened": (config.stream_limit, config.test_limit) != (None, None),
            "device": describe_device(runtime.device), "precision": runtime.precision, "graphs": runtime.graphs,
            "lanes": self.lanes, "versions": resolving.versions(), "commit": self._commit,
            "command": command_for(config, [origin.place for origin in self._plugins.values()]),
        }  # fmt: skip
        told_where_so = {
            "noise_matrix": manifest.noise_matrix, "imbalance": manifest.imbalance,
            "left_out": list(self.source.left_out), "plugins": {key: o.code for key, o in self._plugins.items()},
            **{name: v for name, v in config.values(Role.SOURCE, changed=True).items() if not SETTINGS[name].path},
        }  # fmt: skip
        return facts | {name: value for name, value in told_where_so.items() if value}

    def _run_in(self, out: runs.RunFolder, checkpoint: Checkpoint, resume: bool, keep_learner: bool) -> Event:
        """Start or resume a run, complete it, and write its results, the summary last."""
        code = {place_in_record(origin.place): origin.source for origin in self._plugins.values() if origin.source}
        now = runs.Begun(self.config, self.resolved.filled, code, self.facts())
        begun, saved, changes = out.begun() if resume else None, None, dict[str, Any]()
        if begun is not None:
            begun.check_same(now, out.path)
            if (summary := out.read(runs.SUMMARY)) is not None:
                checkpoint.remove()  # where it was killed just before
                return checked(summary, str(out.path / runs.SUMMARY))
            saved = checkpoint.load()
            # Relative paths in the record stay those of the folder in which the run began.
            facts = {**now.facts, "stream": begun.facts["stream"], "command": begun.facts["command"]}
            now = now._replace(config=begun.config, facts=facts)
        loop = self._loop(out.append)
        if begun is not None and saved is not None:
            out.cut_metrics(loop.load_state(*saved))
            changes = begun.changes_until(now)
        else:
            out.begin(now)
            self.manifest.save(out.path / runs.MANIFEST)
        loop.run(self.stopping, checkpoint, out.metrics_size)
        # If the disk is full the run stays unfinished, and a resumed one continues here.
        self._keep(out, loop, keep_learner)
        summary = {**now.facts, **loop.figures(), **changes}
        out.write(runs.SUMMARY, summary)
        checkpoint.remove()
        return summary

    def _keep(self, out: runs.RunFolder, loop: RunLoop, keep_learner: bool) -> None:
        """Write the memory and, if asked for, the learner with the data's own labels."""
        true = loop.recorder.truth.true[self.learner.memory.samples.arrivals.cpu()]
        write_atomically(out.path / runs.MEMORY, MemorySnapshot.of(self.learner, true).to_bytes())
        remove_save(out.path / runs.LEARNER)  # of an attempt that was killed
        if keep_learner:
            settings, tensors = self.learner.state()
            names = self.source.class_names
            numbered = names == tuple(map(str, range(len(names))))
            storage.save(out.path / runs.LEARNER, settings | ({} if numbered else {"classes": list(names)}), tensors)

    def _loop(self, *first: Listener) -> RunLoop:
        """The loop of the run from its beginning; `first` hear each event before the other listeners."""
        if self.learner.seen:
            raise ValueError("an experiment is run once, and this one's learner has learnt: make a new Experiment")
        listeners, features = [*first, *self.listeners], None

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)

        if self.resolved.diversity:
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
