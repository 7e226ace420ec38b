"""Snapshots: whole states of a learner with a note of the service, one folder each, from which a service starts."""

import logging
import os
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from puridiver.errors import DataError
from puridiver.files import check_json, make_folder, read_json, sync_folder, to_json, write_atomically
from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

FOLDER, NOTE = "snapshots", "service.json"
BETWEEN = "-000000"  # consolidations: the end of such a name
NOTE_FIELDS = {
    "when": float, "seq": int, "epochs_done": int, "seen": int, "since": int, "consolidations": int, "keys": {},
    "figures": {},
}  # fmt: skip


class Snapshots:
    """The snapshots of a service, oldest first. A name is the number of the last record in it and a count of epochs.

    The count is above 0 in the middle of a consolidation: the service may start there, but nobody rolls back to it.
    """

    def __init__(self, service: Path, keep: int) -> None:
        self.folder, self.keep = service / FOLDER, keep
        # A note never changes, and one with many keys takes 40 ms to read, in which nobody else gets far.
        self._listed: dict[str, dict[str, Any]] = {}
        make_folder(self.folder)
        self.sweep()  # what a crash left amid a write or a removal

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("[0-9]*"))

    def listing(self) -> list[dict[str, Any]]:
        """What there is to roll back to, newest first."""
        shown, known, found = ("when", "seen", "consolidations"), self._listed, {}
        for name in reversed(self.names()):
            with suppress(DataError, FileNotFoundError):  # removed meanwhile, or damaged
                if name.endswith(BETWEEN):
                    note = known.get(name) or self.note(name)
                    found[name] = {"id": name, **{field: note[field] for field in shown}}
        self._listed = found
        return list(found.values())

    def note(self, name: str) -> dict[str, Any]:
        path = self.folder / name / NOTE
        return check_json(read_json(path), NOTE_FIELDS, str(path))

    def write(self, learner: Learner, note: dict[str, Any]) -> int:
        """Write a snapshot, unless it is there; returns its bytes."""
        name = f"{note['seq']:012d}-{note['epochs_done']:06d}"
        place, temporary = self.folder / name, self.folder / f".{name}"
        if not place.exists():
            try:
                learner.save(temporary)
                write_atomically(temporary / NOTE, to_json({**note, "when": time.time()}).encode())
            except OSError:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
            os.replace(temporary, place)
            sync_folder(self.folder)
        return sum(path.stat().st_size for path in place.iterdir())

    def load(self, name: str, device: str) -> Learner:
        return Learner.load(self.folder / name, device)

    def newest(self, device: str) -> tuple[str, Learner] | None:
        """The newest snapshot that is whole; None if there is none yet."""
        problems = []
        for name in reversed(self.names()):
            try:
                self.note(name)
                learner = self.load(name, device)
            except (DataError, FileNotFoundError) as error:
                logger.warning("snapshot %s is set aside, and the one before it loaded: %s", name, error)
                problems.append((name, error))
            else:
                for damaged, _ in problems:  # not before: a version that reads none must not touch any
                    tries = (self.folder / f"damaged-{damaged}{'+' * k}" for k in count())
                    os.replace(self.folder / damaged, next(place for place in tries if not place.exists()))
                return name, learner
        if problems:
            raise DataError(f"no snapshot in {self.folder} is whole: {problems[0][1]}")
        return None

    def covered(self) -> int:
        """The last record of the second newest snapshot: without the newest, the log is needed from there on."""
        return int(self.names()[-2:][0].partition("-")[0])

    def thin(self, needed: Collection[str]) -> None:
        """Hide states from the middle of past consolidations, then those that leave the smallest gaps for their age.

        None of the `needed` is hidden. Removing takes longer, so `sweep` does it later.
        """
        for name in self.names()[:-2]:
            if not name.endswith(BETWEEN):
                self._hide(name)
        kept = [name for name in self.names() if name not in needed]
        while len(kept) > max(self.keep, 4):
            times = [(self.folder / name / NOTE).stat().st_mtime for name in kept]
            gaps = {i: (times[i + 1] - times[i - 1]) / (times[-1] - times[i] + 1) for i in range(1, len(kept) - 2)}
            self._hide(kept.pop(min(gaps, key=gaps.__getitem__)))

    def _hide(self, name: str) -> None:
        """A crash amid a removal must not leave half of a snapshot under its name."""
        os.replace(self.folder / name, self.folder / f".{name}")

    def sweep(self) -> None:
        """Remove what is hidden; not while a snapshot is written."""
        for hidden in self.folder.glob(".*-*/"):
            shutil.rmtree(hidden)


def has_snapshot(folder: Path) -> bool:
    """Whether the folder of a service holds a learner."""
    return any((folder / FOLDER).glob("[0-9]*"))
