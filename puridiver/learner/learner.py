"""The public online learner: observe a stream once, keep a small memory, train on it, predict, audit, save."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puridiver import plugins
from puridiver.errors import DataError
from puridiver.learner import divergence, inputs, saved, storage
from puridiver.learner.audit_rows import AuditRow, audit_rows
from puridiver.learner.checks import Checks
from puridiver.learner.consolidation import Consolidating, Consolidation
from puridiver.learner.inputs import Label, SourceId
from puridiver.learner.replay import Replay
from puridiver.learner.sample_ids import ByArrival
from puridiver.learner.saved import Parts, settings_of
from puridiver.learner.status import LastTimes, status_of
from puridiver.learner.turns import Turns
from puridiver.memory import SAMPLERS, Keeper, Moment, Sampler
from puridiver.memory.samples import arrived
from puridiver.nets import Network, choose_network
from puridiver.options import Options, check_reached, resolve
from puridiver.runtime.device import choose_runtime, learning
from puridiver.trainers import TRAINERS, NoiseHint, Split, Trainer, TrainerContext, as_hint, split_memory

LOOK_AT_ONCE = 4_096  # images moved to the device at once: a whole large set need not fit there
LARGE = 4  # times the batch size of training: a stream batch above it is taken in parts


class Learner:
    """Learns online from images whose labels may be wrong.

    Parameters
    ----------
    classes
        The class labels (all integers or all strings), a number n for 0 to n - 1, or None: then classes are added
        as their labels appear.
    image_shape
        (height, width, channels) of the images; 1 or 3 channels.
    memory
        How many samples the episodic memory holds, those included that wait in a sampler's delay buffer.
    sampler, trainer, recipe
        Short names as listed by `puridiver methods`; sampler, trainer and network may be a class of your own
        (`puridiver.register`). A recipe is made for 32 px and more: for images under 24 px its augmentation, online
        rate and epochs are replaced by what suits them (`puridiver.options.SUITS_TINY_IMAGES`).
    network
        "auto" (by image size, on a CPU small), "small", "resnet18", "resnet32" or "resnet34".
    device
        "auto", "cpu", "cuda" or "cuda:N".
    precision, graphs
        On a GPU: "auto" (bfloat16 convolutions where the GPU has them), "float32" or "bfloat16"; and whether steps
        are captured as CUDA graphs. A CPU always computes in float32, uncaptured.
    seed
        Fixes initial weights, augmentation and every random choice.
    grow
        Accept labels that are not in `classes` and add them as new classes. Always so when `classes` is None.
    hint
        What is known of the noise, for the methods that want to be told (Co-teaching, DivideMix).
    options
        Options that replace the recipe's, such as `epochs=50`. Stream batches may have any size; `batch_size` is that
        of memory training, and how many memory samples join a stream batch where the recipe replays.

    Examples
    --------
    >>> import numpy as np, puridiver
    >>> learner = puridiver.Learner(classes=["cat", "dog"], image_shape=(8, 8, 1), memory=20, epochs=1)
    >>> images = np.zeros((4, 8, 8, 1), dtype=np.uint8)
    >>> learner.observe(images, ["cat", "dog", "dog", "cat"])
    range(0, 4)
    >>> learner.consolidate()
    >>> learner.predict(images).shape
    (4,)
    """

    def __init__(
        self,
        classes: int | Iterable[Label] | None = None,
        image_shape: tuple[int, int, int] = (32, 32, 3),
        memory: int = 500,
        *,
        sampler: str | type[Sampler] = "puridiver",
        trainer: str | type[Trainer] = "puridiver",
        recipe: str | Options = "puridiver",
        network: str | type[Network] = "auto",
        device: str = "auto",
        precision: str = "auto",
        graphs: bool = True,
        seed: int = 0,
        grow: bool = False,
        hint: NoiseHint | None = None,
        **options: Any,
    ) -> None:
        self.classes = inputs.as_classes(classes)
        self.image_shape = inputs.as_image_shape(image_shape)
        memory, seed = inputs.as_memory(memory), inputs.as_seed(seed)
        plugins.load_all()
        self.options = resolve(recipe, self.image_shape, overrides=options, others=inputs.LEARNER_ARGUMENTS)
        self.sampler = inputs.member(SAMPLERS, "sampler", plugins.as_name(sampler))(self.options)
        self._trainer_class = inputs.member(TRAINERS, "trainer", plugins.as_name(trainer))
        self.runtime = choose_runtime(device, precision, bool(graphs))
        self.network = choose_network(plugins.as_name(network), self.image_shape, self.runtime.device)
        check_reached(options, self.methods)
        self.seed, self.grow, self.hint = seed, bool(grow) or classes is None, as_hint(hint)
        self._keeper = Keeper(self.sampler, memory, self.image_shape, self.runtime.device)
        self.memory, self.delayed = self._keeper.memory, self._keeper.delayed
        self._ids, self._checks = ByArrival[SourceId](self._keeper), Checks(self._keeper)  # ids: the caller's
        trainer_seed, sampler_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        self._trainer_generator = torch.Generator().manual_seed(trainer_seed)
        self._sampler_generator = torch.Generator().manual_seed(sampler_seed)
        self.seen, self.seen_of = 0, Counter[int]()  # samples, and those of each class
        self._replay = Replay(self.options, self.memory, self._sampler_generator, self.runtime)
        self.has_said_nan = False  # among its predictions: it has diverged
        self._times = LastTimes()
        # One thread may predict while another learns, between two parts of that; of those who change it each waits for
        # the one before to end (taken first).
        self._lock, self._changing = Turns(), Turns()
        self._consolidating = Consolidating(
            self._keeper, self._replay, self._lock, self._changing, lambda: self.trainer, self._moment
        )
        self._trainer: Trainer | None = self._build_trainer(len(self.classes)) if self.classes else None

    def __repr__(self) -> str:
        return saved.described(self)

    # Learning --------------------------------------------------------------------------------------------------

    def observe(self, images: Any, labels: Any, ids: Any = None) -> range:
        """Learn from one batch of the stream, once, and let the sampler decide what the memory keeps.

        Returns their arrivals, by which `audit` and `correct` name them. Images are uint8 (N, H, W, C), or floats in
        [0, 1]. `ids`, strings or integers of your own, one for each image, stay with what the memory keeps
        (`held_ids`, `audit`); that they differ is up to you. A `ValueError` leaves the learner as it was. More than 64
        images (four times the option `batch_size`) are learnt from as several batches, between which another thread
        may predict; a single one is joined by memory samples from the start, where the recipe replays: BatchNorm has
        no statistics of one.
        """
        x = inputs.as_images(images, self.image_shape)
        given = inputs.as_labels(labels, len(x))
        own_ids = [] if ids is None else inputs.as_source_ids(ids, len(x))
        with self._changing, learning():
            numbers, first = self._numbers_of(given), self.seen
            # A large batch has as much to teach as the small ones that it could have come as.
            n_parts = max(1, -(-len(x) // (LARGE * self.options.batch_size)))
            for part, its_numbers in zip(x.tensor_split(n_parts), numbers.tensor_split(n_parts), strict=True):
                with self._lock:
                    self._learn(part, its_numbers.tolist())
                    # Not before: where learning fails, what comes next would inherit them.
                    self._ids.note({a: own_ids[a - first] for a in range(self.seen - len(part), self.seen) if own_ids})
            return range(first, self.seen)

    def _numbers_of(self, labels: list[Label]) -> Tensor:
        """Class ids of labels that are about to be learnt, (N,); new classes join."""
        with self._lock:
            self._consolidating.check_none_under_way("observing")
            found = inputs.new_classes(labels, self.classes, self.grow)
            self._consolidating.leave()
            self._add_classes(found)
        return torch.tensor(inputs.numbered(labels, self.classes), dtype=torch.int64)

    def _learn(self, images: Tensor, numbers: list[int]) -> None:
        """From one batch, by class ids."""
        labels = self.runtime.move(torch.tensor(numbers, dtype=torch.int64))
        batch = arrived(self._on_device(images), labels, self.seen)
        freeze = self.options.online_batchnorm == "frozen_when_full" and self.sampler.freezes_norm and self.memory.full
        replayed = self._replay.next(self.trainer, self.consolidations > 0, alone=len(batch) == 1)
        loss = self.trainer.observe(batch.images, batch.labels, replayed, freeze)
        self._keeper.take(batch, self._moment(loss), self.trainer.meet)
        self.seen += len(batch)
        self.seen_of.update(numbers)
        self._times.observed = time.time()

    def consolidate(
        self, epochs: int | None = None, on_epoch: Callable[[int], None] | None = None, *, seconds: float | None = None
    ) -> None:
        """Train on the memory for some epochs (by default the recipe's); `on_epoch` is called after each.

        15, 31, 63, ... epochs end where the rate of warm restarts is low, others amid one. With `seconds` it ends
        there, too: after the last such number that they are likely to suffice for, and no later than after the epoch
        in which they are over (`status` tells how many it were).
        """
        for epoch in self.consolidation(epochs, seconds=seconds):
            if on_epoch is not None:
                on_epoch(epoch)

    def consolidation(
        self, epochs: int | None = None, *, seconds: float | None = None, warn_if_left: bool = True
    ) -> Generator[int, None, None]:
        """`consolidate`, an epoch at a time: yields the number of each finished epoch.

        Where it is left before the last, what predicted meanwhile goes on to, and a warning is logged (but with
        `warn_if_left=False`, for those who saved it and go on later). A learner that was saved in the middle of a
        consolidation and loaded goes on with it here; one that observes a batch instead has left it early.
        """
        asked = inputs.as_epochs(epochs), self.options.epochs, inputs.as_seconds(seconds)
        return self._consolidating.run(*asked, warn_if_left)

    # Using what was learnt -------------------------------------------------------------------------------------

    def predict(self, images: Any) -> np.ndarray:
        """The most likely class label of each image, (N,).

        By `online_prediction` the network as the last consolidation left it (the default: it has forgotten nothing
        since), as it is, or the mean of both; of classes that it had few samples of, always as it is. While a
        consolidation goes on: as before it, until that comes to a low of its rate. `DivergedError`: nothing but nan.
        """
        with self._lock:  # another thread may add a class
            probabilities = self.predict_proba(images)
            divergence.check(probabilities)
            return np.asarray(self.classes)[probabilities.argmax(axis=1)]

    def predict_proba(self, images: Any, as_it_is: bool = False) -> np.ndarray:
        """Class probabilities, float32 (N, C), in the order of `learner.classes` then; or by the network `as_it_is`."""
        x = inputs.as_images(images, self.image_shape)
        with self._lock:
            look = self.trainer.probabilities if as_it_is else self.trainer.predict
            found = self.runtime.read(look(self._on_device(x)).float()).numpy()
        self.has_said_nan = self.has_said_nan or divergence.warn_of(found)
        return found

    def look(self, images: Any) -> tuple[Tensor, Tensor]:
        """Log-probabilities (N, C) and features (N, d) of images, on the learner's device; a chunk at a time."""
        x = inputs.as_images(images, self.image_shape)
        with self._lock:
            seen = [self.trainer.outputs(self._on_device(part)) for part in x.split(LOOK_AT_ONCE)]
        log_p = torch.cat([part.logits.float().log_softmax(dim=1) for part in seen])
        return log_p, torch.cat([part.features.float() for part in seen])

    def correct(self, labels: Mapping[Any, Label], *, by_id: bool = False) -> int:
        """Replace the labels of memory samples; returns how many of them are held.

        Samples are named by their arrival, or with `by_id` by the ids that you gave to `observe`. For labels that a
        person has checked, those found right included: such a label is not doubted any more (by the trainer
        `puridiver`, `split` and `audit`), and the sampler `puridiver` drops others first (for half of a class at most:
        option `checked_share`). Samples that the memory does not hold any more change nothing: what the network learnt
        from them in passing stays. The next `consolidate` trains on the corrected labels. `uncheck` undoes it.
        """
        with self._changing, self._lock:
            self._consolidating.check_none_under_way("correcting labels")
            ids = self._ids.held() if by_id else None
            new = inputs.as_corrections(labels, self.classes, self.seen, self.grow, ids)
            self._replay.drop()  # drawn with the old labels
            return self._checks.make(new)

    def uncheck(self, samples: Iterable[Any], *, by_id: bool = False) -> int:
        """Undo `correct` for samples, named by arrival or id; returns how many of them are held and were checked.

        They get back the labels that they came with, and may be doubted and dropped like any other.
        """
        with self._changing, self._lock:
            self._consolidating.check_none_under_way("undoing checks of labels")
            arrivals = inputs.as_arrivals(samples, self.seen, self._ids.held() if by_id else None)
            self._replay.drop()
            return self._checks.undo(arrivals)

    def held_ids(self) -> dict[int, SourceId]:
        """Your own ids (`observe`) of the samples that are held, by arrival; those that wait included."""
        with self._lock:
            return self._ids.held()

    def audit(self) -> list[AuditRow]:
        """What the learner thinks of every memory sample's label, the most doubtful first.

        Those that it takes for another class, then the others, whose `p_correct` may be small, too (`AuditRow`).
        """
        with self._lock:
            held = self.memory.samples
            return audit_rows(held, self.split(), self.classes, self._ids.held()) if len(held) else []

    def split(self) -> Split:
        """The memory divided by the network as it is now, whatever the trainer."""
        with self._lock:
            samples = self.memory.samples
            logits = self.trainer.outputs(samples.images).logits
        return split_memory(logits, samples.labels, samples.arrivals, samples.checked, self.options)

    def status(self) -> dict[str, Any]:
        """Figures to watch a learner by, as JSON can hold them; told at once, also while a consolidation is under way.

        Samples and classes that came, what of them is held, how far consolidations are, the sizes of the sets of the
        last memory epoch, when something was last done (seconds since 1970, by this process); see docs/SERVICE.md.
        """
        trainer = self._trainer
        return status_of(self, self._keeper, self._consolidating, trainer.sets if trainer else None, self._times)

    @property
    def capacity(self) -> int:
        """How many samples are held at most, those that wait included."""
        return self._keeper.capacity

    @property
    def consolidations(self) -> int:
        """How many there were; also those that were left after an epoch or more."""
        return self._consolidating.count

    @property
    def begun(self) -> Consolidation | None:
        """The consolidation that has begun and not ended: it is under way, or the learner was saved in it."""
        return self._consolidating.begun

    @property
    def methods(self) -> tuple[str, str, str]:
        """Sampler, trainer and network as `puridiver.options` names them."""
        return f"sampler {self.sampler.name}", f"trainer {self.trainer_name}", f"network {self.network}"

    @property
    def trainer_name(self) -> str:
        return self._trainer_class.name

    @property
    def trainer(self) -> Trainer:
        if self._trainer is None:
            raise ValueError("the learner knows no class yet: observe a batch first, or name classes")
        return self._trainer

    # Keeping it ------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write everything the future depends on to a folder (safetensors and JSON), replacing an older save.

        Between observations, or between two epochs of a `consolidation`.
        """
        with self._changing:
            with self._lock:
                frozen = saved.frozen(Path(folder), *self.state())
            written = storage.write(Path(folder), frozen)  # the disk takes its time: others may predict meanwhile
            self._times.saved = time.time()
            return written

    def __reduce__(self) -> tuple[Any, ...]:
        """For `copy.deepcopy` and `pickle`: what `save` would write."""
        with self._changing, self._lock:
            return Learner._restore, (*self.state(), str(self.runtime.device))

    @classmethod
    def load(
        cls, folder: str | Path, device: str = "auto", grow: bool | None = None, memory: int | None = None
    ) -> Learner:
        """A saved learner, or a run's; `grow` says anew if classes may join, `memory` (no less) what it may hold."""
        settings, tensors = saved.read(Path(folder))
        try:
            return cls._restore(saved.changed(settings, grow, memory), tensors, device)
        except (KeyError, TypeError, RuntimeError) as error:  # RuntimeError: weights of another architecture
            raise DataError(f"{folder} does not hold a whole learner of this version: {error}") from error

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What `save` writes: settings, which are JSON, and tensors."""
        settings = {**settings_of(self), "ids": self._ids.state(), "came_with": self._checks.state()}
        return settings, self._parts().state()

    def load_state(self, settings: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go back to a `state` of a learner that was made with these settings."""
        self.seen = settings["seen"]
        # What has a default here is absent in what older versions saved.
        self.seen_of = Counter(dict(enumerate(settings.get("seen_of", []))))
        self._ids.load_state(settings.get("ids", []))
        self._checks.load_state(settings.get("came_with", []))
        self._consolidating.load_state(settings["consolidations"], saved.consolidation_of(settings))
        self._parts().load_state(tensors)

    @classmethod
    def _restore(cls, settings: dict[str, Any], tensors: dict[str, Tensor], device: str) -> Learner:
        learner = cls(**saved.arguments(settings, device))
        learner.grow = settings["grow"]
        learner.load_state(settings, tensors)
        return learner

    def _parts(self) -> Parts:
        generators = {"trainer": self._trainer_generator, "sampler": self._sampler_generator}
        return Parts(self._keeper, self._trainer, self._replay, generators)

    # Inside ----------------------------------------------------------------------------------------------------

    def _build_trainer(self, n_classes: int) -> Trainer:
        settings = self.options, self.network, n_classes, self.image_shape, self.runtime
        return self._trainer_class(TrainerContext(*settings, self._trainer_generator, self.hint))

    def _add_classes(self, found: list[Label]) -> None:
        if not found:
            return
        classes = self.classes + found
        if self._trainer is None:
            self._trainer = self._build_trainer(len(classes))
        else:
            self._trainer.grow(len(classes))
        self.classes = classes  # at last: where there can be no trainer nothing has changed

    def _on_device(self, images: Tensor) -> Tensor:
        """(N, H, W, C) as given to (N, C, H, W) on the device, where the turn costs nothing."""
        return self.runtime.move(images).permute(0, 3, 1, 2).contiguous()

    def _moment(self, loss: Tensor) -> Moment:
        trainer, generator = self.trainer, self._sampler_generator
        return Moment(
            trainer, loss, len(self.classes), self.seen, generator,
            partial(trainer.strong_view, generator=generator), self.runtime, trainer.new_encoder, self.seen_of,
        )  # fmt: skip
