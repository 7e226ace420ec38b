"""The public online learner: observe a stream once, keep a small memory, train on it, predict, audit, save."""

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from puridiver import discovery, plugins
from puridiver.learner import datasets, inputs, observation, saving
from puridiver.learner.audit import AuditRow, audit_rows
from puridiver.learner.consolidation import Consolidations
from puridiver.learner.edits import Corrected, Edits
from puridiver.learner.inputs import Label, SourceId
from puridiver.learner.lock import FairLock, exclusive
from puridiver.learner.monitor import Monitor, status_of
from puridiver.learner.predictor import Predictor, check_finite
from puridiver.learner.snapshot import Snapshot
from puridiver.learner.verdicts import Neighbours, NoiseEstimate, Observed
from puridiver.memory import SAMPLERS, Sampler
from puridiver.nets import Backbone, Network, as_backbone, choose_network, fine_tuned, is_light
from puridiver.options import Options, check_reached
from puridiver.recipes import choose_methods, resolve
from puridiver.runtime.device import choose_runtime
from puridiver.trainers import TRAINERS, NoiseHint, Split, Trainer, TrainerContext, split_memory

NO_CLASS = "the learner knows no class yet: observe a batch first, or name classes"


class Learner:
    """Learns online from images, or vectors, whose labels may be wrong.

    Parameters
    ----------
    classes
        The class labels (all integers or all strings), a number n for 0 to n - 1, or None: classes join as they appear.
    input_shape
        (height, width, channels) of images, with 1 or 3 channels, or (d,) of vectors, such as embeddings.
    memory
        How many samples the episodic memory holds.
    sampler, trainer, recipe, network
        Names as listed by `puridiver methods`; sampler, trainer and network may be a class of your own
        (`puridiver.register`). Sampler and trainer "auto" go by the network: `sieve` and `verdict` for a light one,
        which the default recipe trains on the stream, else `puridiver` for both. For vectors and for small or grey
        images some values of a recipe are replaced (`puridiver.recipes.suited_to`). The network "auto" goes by the
        input, and is a light one on a CPU. The network may also be a module that maps images to features, a `Backbone`,
        or "timm:..." or "hf:...".
    device, precision, graphs
        "auto", "cpu", "cuda" or "cuda:N". On a GPU: "auto" (bfloat16 convolutions where the GPU has them), "float32"
        or "bfloat16"; and whether steps are captured as CUDA graphs. A CPU computes in float32, uncaptured.
    seed
        Fixes initial weights, augmentation and every random choice.
    grow
        Accept labels that are not in `classes` and add them as new classes. `classes=None` implies it.
    hint
        What is known of the noise, for the methods that want to be told (Co-teaching, DivideMix).
    options
        Options that replace the recipe's, such as `epochs=50`. Stream batches may have any size: `batch_size` is that
        of memory training and replay.

    Examples
    --------
    >>> import numpy as np, puridiver
    >>> learner = puridiver.Learner(classes=["cat", "dog"], input_shape=(8, 8, 1), memory=20, epochs=1)
    >>> images = np.zeros((4, 8, 8, 1), dtype=np.uint8)
    >>> learner.observe(images, ["cat", "dog", "dog", "cat"]).arrivals
    range(0, 4)
    >>> learner.consolidate()
    >>> learner.predict(images).shape
    (4,)
    """

    _trainer: Trainer  # both from the first class on
    predictor: Predictor

    def __init__(
        self,
        classes: int | Iterable[Label] | None = None,
        input_shape: tuple[int, ...] = (32, 32, 3),
        memory: int = 500,
        *,
        sampler: str | type[Sampler] = "auto",
        trainer: str | type[Trainer] = "auto",
        recipe: str | Options = "puridiver",
        network: str | type[Network] | nn.Module | Backbone = "auto",
        device: str = "auto",
        precision: str = "auto",
        graphs: bool = True,
        seed: int = 0,
        grow: bool = False,
        hint: NoiseHint | None = None,
        **options: Any,
    ) -> None:
        self.classes, self.input_shape = inputs.as_classes(classes), inputs.as_input_shape(input_shape)
        self.capacity = inputs.as_whole(memory, "memory", 1, " sample")
        self.seed = inputs.as_whole(seed, "seed", 0)
        if hint is not None and not isinstance(hint, NoiseHint):
            raise ValueError(f"hint should be a NoiseHint, such as NoiseHint('sym', 0.4), or None, but got {hint!r}")
        self.grow, self.hint = bool(grow) or classes is None, hint
        plugins.load_all()
        arguments = [name for name in inspect.signature(Learner).parameters if name != "options"]
        self.runtime = choose_runtime(device, precision, bool(graphs))
        self.backbone = as_backbone(network)
        self._network = self._network_for(network)
        light = is_light(self._network) if isinstance(self._network, str) else self._network.light
        sampler, self.trainer_name = choose_methods(plugins.as_name(sampler), plugins.as_name(trainer), recipe, light)
        kind = self._trainer_class = discovery.find("trainer", TRAINERS, self.trainer_name)
        self.options = resolve(recipe, self.sample_shape, None, options, arguments, kind.suits, self.capacity)
        self.sampler: Sampler = discovery.find("sampler", SAMPLERS, sampler)(self.options)
        self.network = self._network if isinstance(self._network, str) else self._network.name
        # Sampler, trainer and network as `puridiver.options` names them.
        self.methods = f"sampler {self.sampler.name}", f"trainer {self.trainer_name}", f"network {self.network}"
        check_reached(options, self.methods)
        self.memory = self.sampler.memory_class(self.sampler, self.capacity, self.sample_shape, self.runtime)
        self.source_ids: dict[int, SourceId] = {}  # by arrival; old ones of evicted samples go now and then
        seeds = zip(("trainer", "sampler"), np.random.SeedSequence(self.seed).generate_state(2).tolist(), strict=True)
        self.generators = {name: torch.Generator().manual_seed(seed) for name, seed in seeds}
        self.seen, self.seen_of = 0, Counter[int]()  # samples, and those of each class id
        self.has_said_nan = False  # in a prediction: it has diverged
        # Whoever changes the learner, or reads the live network, holds the lock. Predictions read snapshots.
        self.lock, self.save_lock = FairLock(), threading.Lock()
        self.consolidating, self.edits, self.monitor = Consolidations(self), Edits(self), Monitor(self.runtime)
        self.noise = NoiseEstimate(torch.zeros(0, 0, device=self.runtime.device))
        self.neighbours = Neighbours()
        self.class_ids: dict[Label, int] = {}
        if self.classes:
            self.set_classes(self.classes)

    def __repr__(self) -> str:
        kind = "vectors" if len(self.input_shape) == 1 else "images"
        frozen = self.backbone is not None and self.backbone.is_frozen
        of_backbone = f" on features of {type(self.backbone.module).__name__}" if self.backbone and frozen else ""
        return (
            f"<Learner: {len(self.classes)} classes{', growing' if self.grow else ''}; {kind} "
            f"{'x'.join(map(str, self.input_shape))}; sampler {self.sampler.name}, trainer {self.trainer_name}, "
            f"network {self.network}{of_backbone} on {self.runtime.device}; {self.seen} samples seen, "
            f"{len(self.memory)} in a memory of {self.capacity}>"
        )

    # Learning --------------------------------------------------------------------------------------------------

    def observe(self, images: Any, labels: Any, ids: Any = None, *, judge: bool = True) -> Observed:
        """Learn from one batch of the stream, once, and let the sampler decide what the memory keeps.

        Returns the arrivals of the images, and how likely each label is right, judged before it is learnt. Images are
        uint8, or floats in [0, 1], (N, H, W, C) or (N, C, H, W); vectors are finite floats (N, d). `ids`, strings or
        integers of your own, stay with what the memory keeps (`held_ids`, `audit`). A `ValueError` leaves the learner
        unchanged. A large batch is learnt in parts, since it has as much to teach as small ones. `judge=False` saves
        the judgement, and on a GPU the wait for it, unless the methods need it themselves (`sieve`, `verdict`).
        """
        x = inputs.as_batch(images, self.input_shape)
        given = inputs.as_labels(labels, len(x))
        own_ids = None if ids is None else inputs.as_labels(ids, len(x), "ids")
        return self.lock.run(self.monitor.timing("observing")(observation.observe), self, x, given, own_ids, judge)

    def observe_all(self, source: Any, keys: Sequence[str] = datasets.KEYS) -> range:
        """`observe` every item of a torch Dataset or DataLoader or a Hugging Face Dataset, in its order.

        Items are (image, label) or dicts with these `keys`. A DataLoader decides the batches; other sources come by
        the option `stream_batch`, or `batch_size`. Returns the arrivals. An error in the middle leaves the learner with
        what it has observed until then.
        """
        first = self.seen
        for images, labels in datasets.batches(source, self.options.stream_batch or self.options.batch_size, keys):
            self.observe(images, labels)
        return range(first, self.seen)

    def consolidate(self, epochs: int | None = None, on_epoch: Callable[[int], None] | None = None) -> None:
        """Train on the memory for some epochs (by default the recipe's); `on_epoch` is called after each.

        After 15, 31, 63, ... epochs the rate of warm restarts is low, and the network at its best.
        """
        for epoch in self.consolidation(epochs):
            if on_epoch is not None:
                on_epoch(epoch)

    def consolidation(self, epochs: int | None = None) -> Generator[int, None, None]:
        """`consolidate`, an epoch at a time: yields the number of each finished epoch.

        If you stop early, the weights that answered meanwhile keep answering. A learner that was saved in the middle of
        a consolidation and loaded continues it here. If it observes a batch instead, the consolidation ends.
        """
        return self.consolidating.run(None if epochs is None else inputs.as_whole(epochs, "epochs", 0))

    # Using what was learnt -------------------------------------------------------------------------------------

    def predict(self, images: Any) -> np.ndarray:
        """The most likely class label of each image, (N,).

        The option `online_prediction` decides which weights answer (`Predictor`). On a CPU a prediction waits for
        nobody. A `DivergedError` says that the network predicts nan.
        """
        probabilities, labels = self._answer(images)
        check_finite(probabilities)
        return labels[probabilities.argmax(axis=1)]

    def predict_proba(self, images: Any, as_it_is: bool = False) -> np.ndarray:
        """Class probabilities, float32 (N, C), in the order of `learner.classes`; `as_it_is`: of the live network."""
        return self._answer(images, as_it_is)[0]

    def _answer(self, images: Any, live: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities, and the labels of their columns."""
        x = inputs.as_batch(images, self.input_shape)
        if not self.classes:
            raise ValueError(NO_CLASS)
        moved = self.runtime.move(x)
        if live or self.predictor.needs_lock:
            p, labels = self.lock.run(lambda: self.predictor.predict(self.as_samples(moved), live))
        else:
            p, labels = self.predictor.predict(self.as_samples(moved))
        found = self.runtime.read(p.float()).numpy()
        if not np.isfinite(found).all():
            self.has_said_nan = True
        return found, labels

    def snapshot(self) -> Snapshot:
        """What predicts now, for other threads: it never changes and waits for nobody. Takes a few milliseconds."""
        if not self.classes:
            raise ValueError(NO_CLASS)
        frozen = self.lock.run(self.predictor.frozen) if self.predictor.needs_lock else self.predictor.frozen()
        self.runtime.wait()  # until the copies are made

        def as_samples(images: Any) -> Tensor:
            return self.as_samples(inputs.as_batch(images, self.input_shape).to(self.runtime.device))

        return Snapshot(frozen, as_samples, self.seen)

    # Changing what it holds ------------------------------------------------------------------------------------

    @exclusive
    def correct(self, labels: Mapping[Any, Label | None], *, by_id: bool = False, images: Any = None) -> Corrected:
        """Replace the labels of memory samples.

        Samples are named by arrival, or with `by_id` by the ids that you gave to `observe`. Tell it every label that a
        person has checked, also those found right: `audit` and the trainer `puridiver` no longer doubt them, and the
        sampler `puridiver` evicts others first. None undoes it: the sample gets back the label that it came with.

        With `images`, one for each label and in their order, the sampler may choose samples again that it had dropped.
        During a consolidation corrections wait for its end. The learner remembers the ids of what it holds and of the
        last 10,000 samples or more that had one: an older id is `unknown`, while every arrival so far is known.
        """
        return self.edits.correct(labels, by_id, images)

    @exclusive
    def forget(self, ids: Iterable[Any], *, by_id: bool = False) -> int:
        """Remove samples and their ids from the memory; returns how many of them it holds.

        Samples are named as in `correct`. During a consolidation they go at its end. Weights that learnt from them stay
        as they are.
        """
        return self.edits.forget(ids, by_id)

    @exclusive
    def remove_class(self, label: Label) -> None:
        """Remove a class with its memory samples: it is not predicted any more. If it comes again, it is a new one.

        During a consolidation this is a `ConsolidatingError`.
        """
        self.edits.remove_class(label)

    @exclusive
    def resize(self, memory: int) -> None:
        """Set how many samples the memory may hold. If it holds more, the sampler chooses which of them stay.

        A smaller memory is a `ConsolidatingError` during a consolidation.
        """
        self.edits.resize(inputs.as_whole(memory, "memory", 1, " sample"))

    @exclusive
    def held_ids(self) -> dict[int, SourceId]:
        """Your own ids (`observe`) of the samples that are held, by arrival."""
        arrivals = self.memory.held().arrivals.tolist() if self.source_ids else []
        return {arrival: self.source_ids[arrival] for arrival in arrivals if arrival in self.source_ids}

    @exclusive
    def audit(self) -> list[AuditRow]:
        """The learner's opinion of every memory sample's label, the most doubtful first.

        First come samples with another suggested class; the `p_correct` of the others may be small, too (`AuditRow`).
        """
        held = self.memory.samples
        return audit_rows(held, self.split(), self.classes, self.held_ids()) if len(held) else []

    @exclusive
    def split(self) -> Split:
        """The memory divided by the live network, whatever the trainer."""
        samples = self.memory.samples
        logits = self.trainer.models[0].outputs(samples.images).logits
        return split_memory(logits, samples.labels, samples.arrivals, samples.checked, self.options)

    def status(self) -> dict[str, Any]:
        """Figures to watch a learner by, as JSON can hold them.

        It takes no lock, so it answers during a consolidation; while a batch is learnt it may tell only a part of it.
        """
        return status_of(self)

    @property
    def consolidations(self) -> int:
        """How many there were, including those that stopped after an epoch or more."""
        return self.consolidating.count

    @property
    def trainer(self) -> Trainer:
        if not self.classes:
            raise ValueError(NO_CLASS)
        return self._trainer

    # Keeping it ------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write everything the future depends on to a folder (one safetensors file), replacing an older save.

        Between observations, or between two epochs of a `consolidation`.
        """
        return saving.save(self, Path(folder))

    @exclusive
    def __reduce__(self) -> tuple[Any, ...]:
        """For `copy.deepcopy` and `pickle`: what `save` would write."""
        return saving.made_again, (Learner, *self.state(), str(self.runtime.device), self.backbone)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        device: str = "auto",
        grow: bool | None = None,
        memory: int | None = None,
        network: nn.Module | Backbone | str | None = None,
    ) -> "Learner":
        """A saved learner, or that of a run. `grow` replaces the saved setting, `memory` resizes the memory (`resize`).

        A save does not hold the backbone that a learner was made with: give it again as `network`, unless it was named.
        A `DataError` names what is missing, damaged or does not fit in the save.
        """
        return saving.load(cls, Path(folder), device, grow, memory, network)

    state, load_state = exclusive(saving.state_of), exclusive(saving.restore)

    # Inside ----------------------------------------------------------------------------------------------------

    def _network_for(self, network: Any) -> str | type[Network]:
        """The network that is trained; decides the shape of the samples that it and the memory take."""
        self.sample_shape = self.input_shape
        if self.backbone is None:
            return choose_network(plugins.as_name(network), self.input_shape, self.runtime.device)
        width = self.backbone.width(self.input_shape)  # also: can it take these images?
        if not self.backbone.is_frozen:
            return fine_tuned(self.backbone)
        self.runtime.place(self.backbone.module)
        self.sample_shape = (width,)
        return choose_network("auto", self.sample_shape, self.runtime.device)

    def as_samples(self, batch: Tensor) -> Tensor:
        """A checked batch on the device as network and memory take it: (N, C, H, W), vectors, or frozen features."""
        found = inputs.channels_first(batch)  # on the device, where the turn costs nothing
        return self.backbone.features(found) if self.backbone and self.backbone.is_frozen else found

    def set_classes(self, classes: list[Label]) -> None:
        """Make the trainer, or let it grow; the caller holds the lock."""
        if not self.class_ids:
            shape, generator, runtime = self.sample_shape, self.generators["trainer"], self.runtime
            context = TrainerContext(self.options, self._network, len(classes), shape, runtime, generator, self.hint)
            self._trainer = self._trainer_class(context)
            self.predictor = Predictor(self._trainer, classes)
        else:
            self._trainer.grow(len(classes))
            self.predictor.grow(classes)
        # Last, so that nothing changes if the trainer cannot be made.
        self.classes, self.class_ids = classes, {label: number for number, label in enumerate(classes)}
