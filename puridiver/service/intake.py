"""The intake: what requests want to change is checked, logged and queued, and answered once it is on disk."""

import hashlib
import json
import math
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from puridiver.errors import PuridiverError, few
from puridiver.learner import inputs
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner
from puridiver.service.log import Log, Place, Record
from puridiver.service.snapshots import Snapshots

KEYS = 10_000  # idempotency keys that are remembered, the newest


@dataclass(frozen=True)
class Policy:
    """When the learner trains on its memory, how much may wait, and how often its state is written."""

    every: int = 1_000  # samples; 0: never for their number
    minutes: float = 0.0  # if anything came since; 0: never for the time
    drift: float = 0.0  # rise of the loss over its lowest since the last consolidation, as a share; 0: never for that
    epochs: int | None = None  # of a consolidation; None: the learner's own
    queue: int = 2_048  # samples that may wait
    checkpoint_seconds: float = 60.0
    keep: int = 20  # snapshots


class BusyQueue(PuridiverError):
    """The queue is full."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the queue is full: try again in {seconds} seconds")
        self.seconds = seconds


class Stopped(PuridiverError):
    """The worker has stopped: the service answers, but learns no more."""


@dataclass
class Progress:
    """What the learner knows after some record. One is kept for the log's end, one for what the worker has applied."""

    seq: int = 0
    seen: int = 0
    since: int = 0  # samples since the last consolidation
    classes: dict[Label, int] = field(default_factory=dict)

    def follow(self, record: Record) -> None:
        self.seq = record["seq"]
        if record["kind"] == "observe":
            self.seen += len(record["labels"])
            self.since += len(record["labels"])
            for label in record["labels"]:
                self.classes.setdefault(label, len(self.classes))
        elif record["kind"] == "consolidate":
            self.since = 0
        elif record["kind"] == "restore":
            self.seen, self.since = record["seen"], record["since"]
            self.classes = {label: number for number, label in enumerate(record["classes"])}


class Intake:
    """The part of the engine that requests call; the worker, which applies what is queued, is the other one."""

    policy: Policy
    device: str
    learner: Learner
    log: Log
    snapshots: Snapshots
    tail: Progress  # what the learner will know once everything logged is applied
    figures: dict[str, Any]

    def __init__(self) -> None:
        self._changed = threading.Condition()  # of everything that requests and the worker share
        self.keys: OrderedDict[str, list[Any]] = OrderedDict()  # fingerprint and answer of each
        self._pending: deque[tuple[Record, Place]] = deque()
        self._restores: list[tuple[int, str]] = []  # rollbacks that a start may apply again, and their snapshots
        self.waiting = 0  # samples in it
        self.failure = ""  # why the worker has stopped
        self.problems: dict[str, str] = {}  # of the disk, by what could not be written

    def observe(
        self, images: np.ndarray, labels: list[Label], ids: list[Any] | None, key: str | None
    ) -> dict[str, Any]:
        """Log a batch of uint8 (N, H, W, C); the answer names its arrivals."""
        if isinstance(next(iter(self.tail.classes), None), int):  # forms have no numbers
            labels = [int(each) if isinstance(each, str) and each.isdecimal() else each for each in labels]
        labels = inputs.as_labels(labels, len(images))
        ids = None if ids is None else inputs.as_labels(ids, len(images), "ids")

        def check() -> dict[str, Any]:
            inputs.class_ids(labels, self.tail.classes, self.learner.grow)
            if self.waiting and self.waiting + len(images) > self.policy.queue:
                raise BusyQueue(self._seconds_to_wait(len(images)))
            return {"first": self.tail.seen, "count": len(images)}

        fields = {"labels": labels, "ids": ids}
        return self._change("observe", fields, key, check, np.ascontiguousarray(images).tobytes())

    def correct(self, corrections: list[dict[str, Any]], images: np.ndarray | None, key: str | None) -> dict[str, Any]:
        """Log labels that a person has checked: an `arrival` or an `id`, a `label` or None to undo, an `image` or None.

        `image` is a row of `images`, uint8 (N, H, W, C): the sample's own, in case that the memory has dropped it.
        """

        def check() -> dict[str, Any]:
            often = Counter((name, each[name]) for each in corrections for name in ("arrival", "id"))
            if twice := [f"{name} {key!r}" for (name, key), n in often.items() if n > 1 and key is not None]:
                raise ValueError(f"each sample should have one correction, but several are of {few(twice, 3)}")
            for name, _, named in by_name(corrections):
                inputs.as_corrections({each[name]: each["label"] for each in named}, self.tail.classes, name == "id")
            return {"count": len(corrections)}

        body = b"" if images is None else np.ascontiguousarray(images).tobytes()
        return self._change("correct", {"corrections": corrections}, key, check, body)

    def forget(self, arrivals: list[int], ids: list[Any], key: str | None) -> dict[str, Any]:
        """Log that the memory has to forget samples."""
        return self._change("forget", {"arrivals": arrivals, "ids": ids}, key, lambda: {"count": len(arrivals + ids)})

    def consolidate(self, epochs: int | None, key: str | None) -> dict[str, Any]:
        """Log a training on the memory; one may wait."""
        wanted = epochs or self._epochs()

        def check() -> dict[str, Any]:
            if not self.tail.seen:
                raise ValueError("the memory is empty: observe a batch before consolidating")
            if self._consolidation_waits():
                raise BusyQueue(self._seconds_to_wait(0))
            return {"epochs": wanted}

        more = {"epochs": wanted, "why": "asked for"}
        return self._change("consolidate", {"epochs": epochs}, key, check, more=more)

    def restore(self, name: str, key: str | None) -> dict[str, Any]:
        """Log a rollback to a snapshot that can be loaded; a `KeyError` if there is none of that name."""
        asked = {"snapshot": name}
        if answer := self._known(key, _fingerprint("restore", asked)):  # also once the snapshot is gone
            return answer
        if name not in [each["id"] for each in self.snapshots.listing()]:
            raise KeyError(name)
        try:
            note, learner = self.snapshots.note(name), self.snapshots.load(name, self.device)
        except FileNotFoundError as error:  # removed meanwhile
            raise KeyError(name) from error

        def check() -> dict[str, Any]:
            if name not in self.snapshots.names():  # removed meanwhile; from here on it stays
                raise KeyError(name)
            return {"snapshot": name, "seen": learner.seen}

        there = {"seen": learner.seen, "since": note["since"], "classes": learner.classes}
        return self._change("restore", asked, key, check, more=there)

    def _known(self, key: str | None, fingerprint: str) -> dict[str, Any] | None:
        """The answer that a request with this key got before."""
        with self._changed:
            if key is None or key not in self.keys:
                return None
            first, answer = self.keys[key]
        if first != fingerprint:
            raise ValueError(f"the idempotency key {key!r:.80} belongs to another request: use a new key for each")
        return answer

    def _change(
        self, kind: str, asked: dict[str, Any], key: str | None, check: Callable[[], dict[str, Any]], body: bytes = b"",
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> dict[str, Any]:  # fmt: skip
        """Check and log a record; returns the answer, which is on disk with it. A known key gets its first answer.

        The record holds what was `asked`, by which a repeated request is known, and `more`, which a repeat may change.
        """
        fingerprint = _fingerprint(kind, asked, body)
        with self._changed:
            if known := self._known(key, fingerprint):
                return known
            if self.failure:
                raise Stopped(f"the service learns no more until it is restarted: {self.failure}")
            if len(self._pending) >= self.policy.queue:
                raise BusyQueue(self._seconds_to_wait(0))
            seq = self.tail.seq + 1
            answer = {"seq": seq, **check()}
            record = {"seq": seq, "kind": kind, **asked, **more, "key": key, "print": fingerprint, "answer": answer}
            records = [record]
            # By what is logged, and not by what is learnt: where it comes must not depend on how fast the worker is.
            if kind == "observe" and 0 < self.policy.every <= self.tail.since + answer["count"]:
                records.append({"seq": seq + 1, "kind": "consolidate", "epochs": self._epochs(), "why": "samples"})
            self._append(records, body)
            return answer

    def _append(self, records: list[Record], body: bytes = b"") -> None:
        try:
            place = self.log.append(records, body)
        except OSError as error:
            self.problems["log"] = str(error)
            raise
        self.problems.pop("log", None)
        for record in records:
            self._enqueue(record, place)
        self._changed.notify_all()

    def _enqueue(self, record: Record, place: Place) -> None:
        self.tail.follow(record)
        self._pending.append((record, place))
        self._note_restore(record)
        self.waiting += len(record.get("labels", ()))
        if record.get("key") is not None:
            self.keys[record["key"]] = [record["print"], record["answer"]]
            while len(self.keys) > KEYS:
                self.keys.popitem(last=False)

    def _note_restore(self, record: Record) -> None:
        if record["kind"] == "restore":
            self._restores.append((record["seq"], record["snapshot"]))

    def _epochs(self) -> int:
        return self.policy.epochs or self.learner.options.epochs

    def _consolidation_waits(self) -> bool:
        """Whether one is logged and not begun."""
        under_way = self.learner.consolidating.begun is not None
        return sum(record["kind"] == "consolidate" for record, _ in self._pending) > under_way

    def _seconds_to_wait(self, more: int) -> int:
        """Until the queue has room for so many more samples, by the speed so far."""
        over = self.waiting + more - self.policy.queue
        return min(60, max(1, math.ceil(over / (self.figures["rate"] or 50.0))))


def _fingerprint(kind: str, asked: dict[str, Any], body: bytes = b"") -> str:
    digest = hashlib.blake2b(json.dumps([kind, asked]).encode(), digest_size=16)
    digest.update(body)
    return digest.hexdigest()


def by_name(corrections: list[dict[str, Any]]) -> list[tuple[str, bool, list[dict[str, Any]]]]:
    """Corrections in the groups that a learner takes at a time: by arrival or id, with images or without."""
    found = []
    for name in ("arrival", "id"):
        own = [each for each in corrections if each[name] is not None]
        for with_image in (False, True):
            found.append((name, with_image, [each for each in own if (each["image"] is not None) == with_image]))
    return [group for group in found if group[2]]
