"""Changes to a learner's memory from outside: corrected labels, samples to forget, classes to remove, another size.

Memory training reads the memory, so corrections and removals wait for its end; `pending` is saved with the learner.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from puridiver.errors import few
from puridiver.learner import inputs
from puridiver.learner.inputs import Label, SourceId
from puridiver.learner.observation import moment
from puridiver.learner.verdicts import Neighbours
from puridiver.memory import Samples
from puridiver.runtime.device import learning

if TYPE_CHECKING:
    from puridiver.learner.learner import Learner


REMEMBERED_IDS = 10_000  # the learner knows the last ids, at least this many, also of samples that it does not hold


class Corrected(NamedTuple):
    """What became of corrections: each list has the arrivals or ids as they were given."""

    applied: list[Any]  # the memory holds the sample, with its new label
    dropped: list[Any]  # the learner saw it once, but does not hold it
    unknown: list[Any]  # the learner has not seen it, or no longer remembers its id
    queued: list[Any]  # for the end of the consolidation that is under way


class Edit(NamedTuple):
    """What is to become of one sample."""

    label: int | None = None  # a class id; None: as it came
    image: Tensor | None = None  # uint8 (C, H, W), to be offered to the memory if that does not hold the sample
    forget: bool = False


class Edits:
    """Applies changes to a learner's memory, or queues them. The caller holds the lock."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self.pending: dict[int, Edit] = {}  # by arrival

    def correct(self, labels: Mapping[Any, Label | None], by_id: bool, images: Any) -> Corrected:
        learner = self._learner
        new = inputs.as_corrections(labels, learner.class_ids, by_id)
        pictures = [None] * len(new) if images is None else self._pictures(images, len(new))
        within_reach, to_forget, places = self._within_reach(), self._to_forget(), self._arrivals(new, by_id)
        edits: dict[int, Edit] = {}
        named: dict[Any, int] = {}  # one of the arrivals that each key edits
        found = Corrected([], [], [], [])
        for (key, label), image in zip(new.items(), pictures, strict=True):
            own = [arrival for arrival in places[key] if arrival in within_reach]
            if own:
                edits |= dict.fromkeys(own, Edit(label))
            elif image is not None and label is not None and places[key] and places[key][-1] not in to_forget:
                own = places[key][-1:]
                edits[own[0]] = Edit(label, image)
            else:
                (found.dropped if places[key] else found.unknown).append(key)
                continue
            named[key] = own[-1]
        if self._wait(edits):
            found.queued.extend(named)
            return found
        held = self._held()
        for key, arrival in named.items():
            (found.applied if arrival in held else found.dropped).append(key)
        return found

    def forget(self, ids: Iterable[Any], by_id: bool) -> int:
        keys = inputs.as_keys(ids, by_id)
        named, held = {a for own in self._arrivals(keys, by_id).values() for a in own}, self._within_reach()
        self._forget_ids(named - held)
        self._wait(dict.fromkeys(sorted(named & held), Edit(forget=True)))
        return len(named & held)

    def remove_class(self, label: Label) -> None:
        learner = self._learner
        (label,) = inputs.as_labels([label], 1, "label")
        if label not in learner.class_ids or len(learner.classes) == 1:
            known = few(map(repr, learner.classes)) or "(none yet)"
            raise ValueError(f"label should be one of the classes {known}, and not the last one, but got {label!r}")
        learner.consolidating.abandon("removing a class")
        number = learner.class_ids[label]
        classes = learner.classes[:number] + learner.classes[number + 1 :]
        learner.memory.drop_class(number)
        learner.trainer.drop_class(number)
        learner.predictor.drop_class(number, classes)
        learner.noise.drop_class(number)
        learner.seen_of = Counter({k - (k > number): n for k, n in learner.seen_of.items() if k != number})
        learner.classes, learner.class_ids = classes, {label: number for number, label in enumerate(classes)}

    def resize(self, places: int) -> None:
        learner = self._learner
        if places < learner.capacity:
            learner.consolidating.abandon("making the memory smaller")
        if learner.seen:
            with learning():
                learner.memory.resize(places, moment(learner), learner.trainer.on_candidates)
        else:
            learner.memory.resize(places)
        learner.capacity = places

    def remember_ids(self, arrivals: range, ids: list[SourceId]) -> None:
        """Note the caller's ids of samples, and now and then forget the old ones of evicted samples."""
        learner = self._learner
        learner.source_ids |= zip(arrivals, ids, strict=True)
        if len(learner.source_ids) > learner.capacity + 2 * REMEMBERED_IDS:  # seldom: it waits for the GPU
            recent = list(learner.source_ids.items())[-REMEMBERED_IDS:]
            learner.source_ids = dict(sorted({**learner.held_ids(), **dict(recent)}.items()))

    def apply(self) -> None:
        """Apply what waits; a consolidation has ended."""
        if self.pending:
            self._apply(self.pending)
            self.pending = {}

    def _wait(self, edits: dict[int, Edit]) -> bool:
        """Queue edits if a consolidation is under way; else apply them."""
        waits = self._learner.consolidating.begun is not None
        if not waits:
            self.apply()  # what an interrupt left
            self._apply(edits)
            return False
        for arrival, edit in edits.items():
            image = edit.image if edit.image is not None or edit.forget else self.pending.get(arrival, edit).image
            self.pending[arrival] = edit._replace(image=image)
        return True

    def _apply(self, edits: Mapping[int, Edit]) -> None:
        learner, held = self._learner, self._held()
        gone = {arrival for arrival, edit in edits.items() if edit.forget}
        if gone:
            learner.memory.forget(gone)
            self._forget_ids(gone)
        changed = {arrival: edit.label for arrival, edit in edits.items() if arrival in held and arrival not in gone}
        if changed:
            learner.memory.correct(changed)
        offered = {
            arrival: edit
            for arrival, edit in edits.items()
            if edit.image is not None and edit.label is not None and arrival not in held
        }
        if offered:
            self._offer(offered)

    def _forget_ids(self, arrivals: set[int]) -> None:
        ids = self._learner.source_ids
        self._learner.source_ids = {arrival: own for arrival, own in ids.items() if arrival not in arrivals}

    def _offer(self, edits: Mapping[int, Edit]) -> None:
        """Let the sampler choose among the memory and samples that it dropped, whose labels a person has checked."""
        learner, move = self._learner, self._learner.runtime.move
        learner.neighbours = Neighbours()  # an arrival may come back with another picture
        images = torch.stack([edit.image for edit in edits.values() if edit.image is not None])
        labels, arrivals = torch.tensor([edit.label for edit in edits.values()]), torch.tensor(list(edits))
        notes = torch.zeros(len(labels))
        samples = Samples(*map(move, (images, labels, arrivals, notes, labels)))
        with learning():
            for part in samples.split(learner.options.batch_size):
                learner.memory.update(part, moment(learner), learner.trainer.on_candidates)

    def _held(self) -> set[int]:
        return set(self._learner.memory.held().arrivals.tolist())

    def _within_reach(self) -> set[int]:
        """Arrivals that the memory holds or will be offered, and will not have to forget."""
        offered = {arrival for arrival, edit in self.pending.items() if edit.image is not None}
        return (self._held() | offered) - self._to_forget()

    def _to_forget(self) -> set[int]:
        return {arrival for arrival, edit in self.pending.items() if edit.forget}

    def _arrivals(self, keys: Iterable[Any], by_id: bool) -> Mapping[Any, list[int]]:
        """The arrivals of each key, in order: of an id those that are remembered; none of what was not seen."""
        if not by_id:
            return {key: [int(key)] if key < self._learner.seen else [] for key in keys}
        found: dict[SourceId, list[int]] = defaultdict(list)
        for arrival, own in sorted(self._learner.source_ids.items()):
            found[own].append(arrival)
        return {key: found.get(key, []) for key in keys}

    def _pictures(self, images: Any, n: int) -> list[Tensor]:
        x = inputs.as_batch(images, self._learner.input_shape)
        if len(x) != n:
            raise ValueError(f"images should be {n}, one for each correction and in their order, but got {len(x)}")
        return list(self._learner.as_samples(self._learner.runtime.move(x)).cpu())

    # State -------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
        """What waits, as JSON can hold it, and the images among it."""
        rows = [{"arrival": a, "label": edit.label, "forget": edit.forget} for a, edit in self.pending.items()]
        return rows, {str(a): edit.image for a, edit in self.pending.items() if edit.image is not None}

    def load_state(self, rows: Iterable[Mapping[str, Any]], images: Mapping[str, Tensor]) -> None:
        """Go back to a `state`; a ValueError names what does not fit."""
        like, n_classes = self._learner.memory.samples.images, len(self._learner.classes)
        for row in rows:
            if not 0 <= row["arrival"] < self._learner.seen or not 0 <= (row["label"] or 0) < n_classes:
                raise ValueError(f"pending should be of samples seen and classes known, but has {row}")
        for image in images.values():
            if image.dtype != like.dtype or image.shape != like.shape[1:]:
                expected = f"{like.dtype} {tuple(like.shape[1:])}"
                raise ValueError(f"pending images should be {expected}, but got {image.dtype} {tuple(image.shape)}")
        self.pending = {
            row["arrival"]: Edit(row["label"], images.get(str(row["arrival"])), row["forget"]) for row in rows
        }
