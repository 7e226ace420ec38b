"""An audit in a folder: finished passes are kept, so that it can resume, and continue with corrected labels."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from puridiver.auditing.corrections import applied, corrections_csv, keep_beside, keep_filled_in, read_corrections
from puridiver.auditing.noise_model import put_together
from puridiver.auditing.passes import Advance, Testimony, consolidate, run_pass, say_nothing, tell_labels, testify
from puridiver.auditing.report import AuditReport, judge
from puridiver.auditing.settings import AuditSettings
from puridiver.auditing.tables import CLEANLAB, LABELS, SUSPECTS, Carried, write_tables
from puridiver.errors import DataError
from puridiver.files import file_lock, read_json, write_atomically
from puridiver.learner import storage
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner

INDEX, SUMMARY, CORRECTIONS, PAGE = "audit.json", "summary.json", "corrections.csv", "audit.html"
LOCK = ".audit.lock"  # a name of its own: a run must not take the folder of a killed audit for its own
LEARNER, TESTIMONY = "learner", "testimony"  # in the folder of a pass
ASKED = "asked"  # the index's entry of what a user said, to be recalled


@dataclass(frozen=True)
class LabelledSet:
    """What is audited."""

    images: Tensor  # uint8 (N, H, W, C)
    given: np.ndarray  # int64 (N,): class ids as they came
    classes: list[Label]
    names: list[str] | None = None
    folder: Path | None = None  # in which the names are files
    carried: Carried | None = None

    def digest(self) -> str:
        """SHA-256 over pixels, labels and classes."""
        found = hashlib.sha256(json.dumps([list(self.images.shape), self.classes]).encode())
        for part in self.images.split(4096):
            found.update(part.contiguous().numpy().tobytes())
        found.update(self.given.tobytes())
        return found.hexdigest()


class FinishedPass(NamedTuple):
    """The digest of the labels of a pass, its testimony, and the folder of its learner."""

    labels: str
    testimony: Testimony
    learner: Path


class AuditFolder:
    """Where an audit's passes, corrections and results lie."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # The audit that the folder holds

    def begun(self) -> dict[str, Any] | None:
        """What the folder's audit was begun with, or None where there is none."""
        try:
            found = read_json(self.path / INDEX)
        except FileNotFoundError:
            return None
        except DataError as error:
            raise DataError(f"{error}; --force starts the audit afresh") from error
        if not isinstance(found, dict) or not isinstance(found.get(ASKED, {}), dict):
            raise DataError(f"{self.path / INDEX} is damaged: {ASKED} should be an object; --force starts afresh")
        return found

    def asked(self) -> dict[str, Any]:
        """The options that the folder's audit was begun with."""
        found: dict[str, Any] = (self.begun() or {}).get(ASKED, {})
        return found

    def check_same(self, description: Mapping[str, Any]) -> None:
        """Raise an error that names what differs between the folder's audit and this one."""
        begun = self.begun()
        differing = [name for name in description if begun is not None and begun.get(name) != description[name]]
        if begun is not None and differing:
            told = "; ".join(f"{name} is {begun.get(name)!r:.40} there and {description[name]!r:.40} here"
                             for name in differing)  # fmt: skip
            raise DataError(
                f"{self.path} holds another audit: {told}; use the same settings to continue it, choose another "
                "folder, or say --force to train anew"
            )

    def results(self) -> list[Path]:
        """What exists of all that an audit writes beside its index."""
        named = (self.path / name for name in (SUMMARY, PAGE, SUSPECTS, LABELS, CORRECTIONS, CLEANLAB))
        passes = (place for place in self.path.glob("pass-*") if place.name.removeprefix("pass-").isdecimal())
        return [*(place for place in named if place.exists()), *sorted(passes)]

    def check_own(self) -> None:
        """Raise an error where an audit would overwrite files that no audit wrote."""
        others = [] if (self.path / INDEX).exists() else [place.name for place in self.results()]
        if others:
            raise DataError(
                f"{self.path} has files that an audit would write over ({', '.join(others)}), and holds no audit "
                f"({INDEX}): name a new folder for the audit, or move these files away"
            )

    def check_spares(self, data: Path) -> None:
        """Raise an error where the audit would overwrite its data."""
        real = Path(os.path.realpath(data))
        if any(real.is_relative_to(os.path.realpath(place)) for place in self.results()):
            raise DataError(
                f"{data} belongs to the audit in {self.path}, which would write over it: name another folder"
            )

    def begin(self, description: Mapping[str, Any]) -> None:
        write_atomically(self.path / INDEX, (json.dumps(description, indent=1) + "\n").encode())

    def clear(self) -> None:
        """Remove an older audit; other files stay, and what a person checked stays under another name."""
        keep_filled_in(self.path / SUSPECTS)
        if (self.path / CORRECTIONS).exists():
            keep_beside(self.path / CORRECTIONS)
        for place in self.results():
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink()
        (self.path / INDEX).unlink(missing_ok=True)  # last: without it, the rest would count as a user's own

    def corrections(self, labelled: LabelledSet) -> dict[int, int]:
        """What earlier reviews corrected."""
        path = self.path / CORRECTIONS
        return read_corrections(path, labelled.classes, len(labelled.given), labelled.names) if path.exists() else {}

    # Passes

    def pass_folder(self, number: int) -> Path:
        return self.path / f"pass-{number + 1}"

    def load_pass(self, number: int, shape: tuple[int, int] | None = None) -> FinishedPass | None:
        """A finished pass, or None; its arrays must be of `shape` (samples, classes)."""
        folder = self.pass_folder(number)
        if not (folder / TESTIMONY / storage.INDEX).exists():
            return None
        settings, tensors = storage.load(folder / TESTIMONY)
        wanted = {"order": 1, "in_memory": 1, "scores": 2, "votes": 2}  # dimensions
        names = [settings.get(name) for name in ("labels", LEARNER)]
        fits = all(
            name in tensors and (shape is None or tensors[name].shape == shape[:n]) for name, n in wanted.items()
        )
        if not fits or not all(isinstance(name, str) and os.sep not in name for name in names):
            raise DataError(f"{folder / TESTIMONY} is damaged: it belongs to other data; --force starts afresh")
        parts = {name: tensors[name].numpy() for name in wanted}
        return FinishedPass(settings["labels"], Testimony(**parts), folder / settings[LEARNER])

    def save_pass(self, number: int, labels: str, learner: Learner, testimony: Testimony) -> None:
        """Save the learner beside the older one, then the testimony, which finishes the pass.

        An audit that stops in between continues from the learner of the older testimony.
        """
        folder, name = self.pass_folder(number), f"{LEARNER}-{labels[:12]}"
        learner.save(folder / name)
        tensors = {part: torch.from_numpy(np.ascontiguousarray(value)) for part, value in vars(testimony).items()}
        storage.save(folder / TESTIMONY, {"labels": labels, LEARNER: name}, tensors)
        for older in folder.glob(f"{LEARNER}*"):
            if older.name != name:
                shutil.rmtree(older, ignore_errors=True)


def audit_in_folder(
    folder: AuditFolder, labelled: LabelledSet, settings: AuditSettings, corrections: dict[int, int] | None = None,
    advance: Advance = say_nothing, on_pass: Callable[[str], None] | None = None,
    asked: Mapping[str, Any] | None = None, force: bool = False,
) -> AuditReport:  # fmt: skip
    """Audit into a folder: finished passes are kept, and corrected labels are learnt.

    `corrections` join those of earlier reviews in the folder; the later correction of a row counts. `asked` is kept in
    the folder for whoever continues the audit. `force` replaces an audit that the folder holds.
    """
    settings = settings.with_network(tuple(labelled.images.shape[1:]))
    folder.path.mkdir(parents=True, exist_ok=True)
    with file_lock(folder.path / LOCK, wait_seconds=0, what=f"the audit in {folder.path}"), settings.threads():
        if force:
            folder.clear()
        description = describe(labelled, settings)
        folder.check_own()
        folder.check_same(description)
        folder.begin({**description, ASKED: folder.asked() if asked is None else dict(asked)})
        known = folder.corrections(labelled) | (corrections or {})
        if known:
            write_atomically(folder.path / CORRECTIONS, corrections_csv(known, labelled.classes, labelled.names))
        given, checked = applied(labelled.given, known)
        testimonies = []
        for number in range(settings.passes):
            text, testimony = _one_pass(folder, labelled, given, checked, settings, number, advance)
            testimonies.append(testimony)
            if on_pass is not None:
                on_pass(text)
        evidence = put_together(testimonies)
        report = judge(evidence, given, labelled.classes, settings, labelled.given, checked, labelled.names)
        keep_filled_in(folder.path / SUSPECTS, report)  # now: somebody may have typed while the learners learnt
        write_tables(report, folder.path, labelled.folder, labelled.carried)
    return report


def describe(labelled: LabelledSet, settings: AuditSettings) -> dict[str, Any]:
    """What must be equal for an audit to continue: the data and everything that decides the learners."""
    epochs = settings.epochs_for(settings.memory_for(len(labelled.given)))
    return {"data_sha256": labelled.digest(), "classes": labelled.classes, **settings.to_dict(), "epochs": epochs}


def _one_pass(
    folder: AuditFolder, labelled: LabelledSet, given: np.ndarray, checked: np.ndarray, settings: AuditSettings,
    number: int, advance: Advance,
) -> tuple[str, Testimony]:  # fmt: skip
    # Confirmed labels are learnt, too, so they are part of the digest.
    digest = hashlib.sha256(given.tobytes() + (checked.tobytes() if checked.any() else b"")).hexdigest()
    found = folder.load_pass(number, (len(given), len(labelled.classes)))
    name = f"pass {number + 1} of {settings.passes}"
    if found is not None and found.labels == digest:
        return f"{name}: was there already", found.testimony
    if found is None:
        learner, testimony = run_pass(labelled.images, given, labelled.classes, settings, number, advance, checked)
        text = f"{name}: {learner.seen} samples seen"
    else:
        learner = Learner.load(found.learner, settings.device)
        changed = tell_labels(learner, given, checked, found.testimony.order)
        consolidate(learner, settings, lambda n: advance(n, f"{name}: corrected memory"))
        testimony = testify(learner, labelled.images, given, found.testimony.order, settings)
        text = f"{name}: went on with {changed} corrected memory label{'s' if changed != 1 else ''}"
    folder.save_pass(number, digest, learner, testimony)
    return text, testimony
