"""The engine: changes go to the log, and one worker applies them to the learner in the order of the log.

Whatever changes the learner is a record of the log: batches, corrections, consolidations, rollbacks. Learning is
deterministic, so a learner that starts from any snapshot and applies the records after it comes to the same bits.
"""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.errors import DataError
from puridiver.files import file_lock, make_folder
from puridiver.learner.learner import Learner
from puridiver.learner.snapshot import Snapshot
from puridiver.runtime.device import release_freed_memory, step_back
from puridiver.service.intake import Intake, Policy, Progress, by_name
from puridiver.service.log import Log, Place, Record
from puridiver.service.snapshots import Snapshots

logger = logging.getLogger(__name__)

RESULTS = 8_000  # weight of the results that are remembered, the newest: a verdict weighs 1
POINTS = 400  # of the curves
REVIEW_SECONDS = 2.0  # that a review is not made anew


class Engine(Intake):
    """A learner in a folder of its own that applies what its log holds; see the module."""

    def __init__(self, folder: Path, make: Callable[[], Learner], policy: Policy, device: str = "auto") -> None:
        self.folder, self.policy, self.device = folder, policy, device
        make_folder(folder)
        self._closing = ExitStack()
        self._closing.enter_context(file_lock(folder / ".serve.lock", 1.0, f"the service in {folder}"))
        try:
            self._open(make)
        except BaseException:
            self._closing.close()
            raise

    def _open(self, make: Callable[[], Learner]) -> None:
        """Load the newest snapshot, and queue what the log holds beyond it."""
        folder, policy, device = self.folder, self.policy, self.device
        super().__init__()
        self.snapshots = Snapshots(folder, policy.keep)
        self.log = Log(folder / "log")
        found = self.snapshots.newest(device)
        self.learner = found[1] if found else make()
        note = self.snapshots.note(found[0]) if found else {}
        classes = {label: number for number, label in enumerate(self.learner.classes)}
        self.done = Progress(note.get("seq", 0), self.learner.seen, note.get("since", 0), dict(classes))
        self.tail = Progress(self.done.seq, self.done.seen, self.done.since, classes)
        self.keys.update(note.get("keys", {}))
        self.results: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._remembered = 0  # weight of these
        self.figures = {"lowest": None, "rate": None, "speed": (0.0, 0.0), "curve": []} | note.get("figures", {})
        self._stopping = False
        self._checkpointed = self._consolidated = time.monotonic()
        self._review: tuple[int, float, list[dict[str, Any]]] = (-1, 0.0, [])
        self._reviewing, self._writing = threading.Lock(), threading.Lock()
        self.published: dict[str, Any] = {}
        self.diverged = False  # a prediction was nan
        self.predictor: Snapshot | None = None  # None: there is no class yet
        self._publish()
        for record, place in self.log.records(self.done.seq):
            if record["seq"] > self.done.seq:
                self._enqueue(record, place)
            else:
                self._note_restore(record)
        if not found:
            self._write_snapshot()  # or an error: without it, the log would be about nothing
        self._worker = threading.Thread(target=self._work, name="learner", daemon=True)

    def start(self) -> None:
        self._worker.start()

    def close(self) -> None:
        """Stop after the record or epoch under way, and write a snapshot."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._worker.ident is not None:
            self._worker.join()
        self.log.close()
        self._closing.close()

    def drain(self, seconds: float | None = None) -> bool:
        """Wait until everything logged is applied; False if that took too long or the worker stopped."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending or self.failure, seconds) is True

    # The worker -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        step_back()
        try:
            while not self._stopping:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping or self._pending, 0.5)
                    job = self._pending[0] if self._pending and not self._stopping else None
                if job is not None and not self._apply(*job):
                    break  # with a snapshot written amid the consolidation
                self._decide()
                if time.monotonic() - self._checkpointed > self.policy.checkpoint_seconds:
                    self.checkpoint()
            else:
                self.checkpoint()
        except Exception as error:  # predictions go on, and whoever watches must hear of it
            logger.exception("the worker has stopped")
            self.failure = f"{type(error).__name__}: {error}"
        with self._changed:
            self._changed.notify_all()

    def _apply(self, record: Record, place: Place) -> bool:
        """Apply a record to the learner; False if the service stops amid a consolidation."""
        start = time.monotonic()
        try:
            result = self._applied(record, place)
        except ValueError as error:
            if record["kind"] == "observe":  # it was checked: the answer must not have been a lie
                raise
            result = {"error": str(error)}
        if result is None:
            return False
        n = len(record.get("labels", ()))
        self._publish()
        if record["kind"] == "restore":
            self.diverged = False
        with self._changed:
            self._pending.popleft()
            self.waiting -= n
            self.done.follow(record)
            self._note_speed(n, time.monotonic() - start)
            self._remember(record["seq"], result)
            self._changed.notify_all()
        if record["kind"] in ("consolidate", "restore"):
            self._consolidated, self.figures["lowest"] = time.monotonic(), None
            self.checkpoint()
        return True

    def _remember(self, seq: int, result: dict[str, Any]) -> None:
        self.results[seq] = result
        self._remembered += _weight(result)
        while self._remembered > RESULTS:
            self._remembered -= _weight(self.results.popitem(last=False)[1])

    def _applied(self, record: Record, place: Place) -> dict[str, Any] | None:
        """What a record comes to; None for a consolidation that was left."""
        match record["kind"]:
            case "observe":
                return self._learn(record, self._images(place))
            case "correct":
                return self._correct(record["corrections"], self._images(place))
            case "forget":
                named = ((record["arrivals"], False), (record["ids"], True))
                return {"forgotten": sum(self.learner.forget(keys, by_id=by_id) for keys, by_id in named)}
            case "restore":
                self.learner = self.snapshots.load(record["snapshot"], self.device)
                curve = self.figures["curve"]
                self.figures["curve"] = [each for each in curve if each["samples_seen"] <= self.learner.seen]
                return {}
            case _:
                return {} if self._train(record["epochs"]) else None

    def _images(self, place: Place) -> np.ndarray:
        shape = self.learner.input_shape
        return np.frombuffer(self.log.read(place), np.uint8 if len(shape) == 3 else np.float32).reshape(-1, *shape)

    def _learn(self, record: Record, images: np.ndarray) -> dict[str, Any]:
        if self.learner.seen != record["answer"]["first"]:
            raise DataError(f"record {record['seq']} of the log does not begin at arrival {self.learner.seen}")
        found = self.learner.observe(images, record["labels"], record["ids"])
        verdicts = zip(found.p_right.tolist(), found.suggested, strict=True)
        return {"verdicts": [{"p_right": p if math.isfinite(p) else None, "suggested": label} for p, label in verdicts]}

    def _correct(self, corrections: list[dict[str, Any]], images: np.ndarray) -> dict[str, Any]:
        result: dict[str, Any] = {"applied": [], "dropped": [], "unknown": []}
        for name, with_image, named in by_name(corrections):
            own = images[[each["image"] for each in named]] if with_image else None
            labels = {each[name]: each["label"] for each in named}
            found = self.learner.correct(labels, by_id=name == "id", images=own)._asdict()
            for what in result:
                result[what] += found[what]
        return result

    def _train(self, epochs: int) -> bool:
        """Train on the memory, or go on where a snapshot was written; False if the service stops meanwhile."""
        for _ in self.learner.consolidation(epochs):
            self._publish()
            if self._stopping or time.monotonic() - self._checkpointed > self.policy.checkpoint_seconds:
                self.checkpoint()
            if self._stopping:
                return False
        return True

    def _decide(self) -> None:
        """Log a consolidation if the time has come for one, or the stream has drifted."""
        policy, now = self.policy, time.monotonic()
        loss, lowest = self.published["loss"], self.figures["lowest"]
        late = 0 < policy.minutes * 60 <= now - self._consolidated
        drifted = policy.drift > 0 and None not in (loss, lowest) and loss >= (1 + policy.drift) * lowest
        with self._changed:
            if (late or drifted) and self.done.since and not self._consolidation_waits():
                why = "time" if late else "drift"
                record = {"seq": self.tail.seq + 1, "kind": "consolidate", "epochs": self._epochs(), "why": why}
                try:
                    self._append([record])
                except OSError as error:
                    logger.warning("a consolidation could not be logged: %s", error)

    def checkpoint(self) -> None:
        """Write a snapshot, and remove the part of the log that it replaces. A full disk becomes a problem in `status`.

        Call it between two records or epochs: from the worker, or while the worker has nothing to do.
        """
        with self._writing:
            try:
                self._write_snapshot()
                self.problems.pop("snapshot", None)
            except OSError as error:
                logger.warning("no snapshot could be written: %s", error)
                self.problems["snapshot"] = str(error)
        release_freed_memory()

    def _write_snapshot(self) -> None:
        begun, self._checkpointed = self.learner.consolidating.begun, time.monotonic()
        with self._changed:
            note = {
                "seq": self.done.seq, "epochs_done": begun.epochs_done if begun else 0, "seen": self.learner.seen,
                "since": self.done.since, "consolidations": self.learner.consolidations, "keys": dict(self.keys),
                "figures": self.figures,
            }  # fmt: skip
        size = self.snapshots.write(self.learner, note)
        with self._changed:  # a rollback is logged before or after this, and finds its snapshot or an error
            covered = self.snapshots.covered()
            self._restores = [each for each in self._restores if each[0] > covered]
            self.snapshots.thin({name for _, name in self._restores})
            self.log.reserve = 2 * size
            self.log.forget_through(covered)
        self.snapshots.sweep()

    # Figures ----------------------------------------------------------------------------------------------------

    def _note_speed(self, n: int, seconds: float) -> None:
        """Samples a second, trainings on the memory counted in."""
        spent, learnt = (0.98 * x for x in self.figures["speed"])
        self.figures["speed"] = spent + seconds, learnt + n
        self.figures["rate"] = (learnt + n) / max(spent + seconds, 1e-6) or None

    def _publish(self) -> None:
        """What predictions and `status` tell from now on."""
        learner, curve = self.learner, self.figures["curve"]
        self.predictor = learner.snapshot() if learner.classes else None
        alpha = learner.sampler.diagnostics().get("alpha")
        now = learner.status() | {"alpha": None if alpha is None else float(alpha)}
        if now["loss"] is not None:
            self.figures["lowest"] = min(now["loss"], self.figures["lowest"] or math.inf)
        if not curve or time.time() - curve[-1]["when"] > 1:
            point = {name: now[name] for name in ("samples_seen", "loss", "agreement", "noise_rate", "alpha")}
            self.figures["curve"] = [*curve, {"when": time.time(), **point}][-POINTS:]
        self.published = now

    def status(self) -> dict[str, Any]:
        """Figures as JSON can hold them; takes no lock of the learner."""
        with self._changed:
            queue = {"samples": self.waiting, "records": len(self._pending), "most": self.policy.queue}
            log = {"last": self.tail.seq, "applied": self.done.seq, "bytes": self.log.size()}
            speed, failure = {"samples_a_second": self.figures["rate"]}, {"failure": self.failure or None}
            own = {"queue": queue, "log": log, "logged": self.tail.seen, "problems": dict(self.problems)}
            return self.published | own | speed | failure | {"diverged": self.diverged or self.published["diverged"]}

    def review(self, most: int) -> list[dict[str, Any]]:
        """Memory samples whose labels look wrong, the most doubtful first, without those a waiting correction names."""
        with self._reviewing:
            seq, when, rows = self._review
            now = self.done.seq  # before the audit: what is applied meanwhile makes it old
            if seq != now and time.monotonic() - when > REVIEW_SECONDS:
                rows = self.learner.lock.run(self._doubtful)
                self._review = now, time.monotonic(), rows
        with self._changed:
            named = [each for record, _ in self._pending for each in record.get("corrections", ())]
        done = {each.get(name) for each in named for name in ("arrival", "id")} - {None}
        return [row for row in rows if row["arrival"] not in done and row["id"] not in done][:most]

    def _doubtful(self) -> list[dict[str, Any]]:
        learner, held = self.learner, self.learner.memory.samples
        images = dict[int, np.ndarray]()
        if held.images.ndim == 4:  # and not vectors
            images = dict(zip(held.arrivals.tolist(), held.images.permute(0, 2, 3, 1).cpu().numpy(), strict=True))
        rows = [row for row in learner.audit() if not row.checked and row.suggested_label != row.given_label]
        return [
            {
                "arrival": row.arrival, "id": row.id, "given": row.given_label, "suggested": row.suggested_label,
                "p_right": row.p_correct, "image": images.get(row.arrival),
            }
            for row in rows
        ]  # fmt: skip


def _weight(result: dict[str, Any]) -> int:
    return 16 + sum(len(each) for each in result.values() if isinstance(each, list))
