"""An audit in a folder: what is done of it is kept, so that it can be resumed, and continued with corrected labels."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from puridiver import plugins
from puridiver.auditing.carried import Carried
from puridiver.auditing.corrections import applied, corrections_csv, read_corrections
from puridiver.auditing.evidence import put_together
from puridiver.auditing.passes import (
    Advance,
    Begun,
    Testimony,
    consolidate,
    run_pass,
    say_nothing,
    tell_labels,
    testify,
    threads_of,
    with_network,
)
from puridiver.auditing.report import AuditReport, judge
from puridiver.auditing.reviewing import carry_over, keep_beside, read_review
from puridiver.auditing.settings import AuditSettings
from puridiver.auditing.tables import CLEANLAB, LABELS, NOTHING, SUSPECTS, write_tables
from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.learner import storage
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner

logger = logging.getLogger(__name__)

INDEX, SUMMARY, CORRECTIONS, PAGE = "audit.json", "summary.json", "corrections.csv", "audit.html"
LEARNER = "learner"  # how the names of a pass's learners begin
BEGUN = "begun"  # how those of one in the middle of a pass do
ASKED = "asked"  # the index's entry of what a user said, so that it need not be said again


@dataclass(frozen=True)
class LabelledSet:
    """What is audited."""

    images: Tensor  # uint8 (N, H, W, C)
    given: np.ndarray  # int64 (N,): class ids as they came
    classes: list[Label]
    names: list[str] | None = None
    folder: Path | None = None  # in which the names are files
    carried: Carried = NOTHING

    def digest(self) -> str:
        """SHA-256 over pixels, labels and classes."""
        found = hashlib.sha256(json.dumps([list(self.images.shape), self.classes]).encode())
        for part in self.images.split(4096):
            found.update(part.contiguous().numpy().tobytes())
        found.update(self.given.tobytes())
        return found.hexdigest()


class FinishedPass(NamedTuple):
    """The digest of the labels that a pass was of, its testimony, and where its learner lies."""

    labels: str
    testimony: Testimony
    learner: Path


class AuditFolder:
    """Where an audit's passes, corrections and results lie."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begun(self) -> dict[str, Any] | None:
        """What the folder's audit was begun with, or None where there is none."""
        try:
            return json.loads((self.path / INDEX).read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataError(f"{self.path / INDEX} is damaged: {error}; --force starts the audit afresh") from error

    def asked(self) -> dict[str, Any]:
        """Options that the folder's audit was begun with, by their names; an audit of an older version has none."""
        found = (self.begun() or {}).get(ASKED, {})
        return found if isinstance(found, dict) else {}

    def check_same(self, description: dict[str, Any]) -> None:
        """An error that names what differs between the folder's audit and this one."""
        begun = self.begun()
        differing = [name for name in description if begun is not None and begun.get(name) != description[name]]
        if begun is not None and differing:
            told = "; ".join(f"{name} is {_short(begun.get(name))} there and {_short(description[name])} here"
                             for name in differing)  # fmt: skip
            raise DataError(
                f"{self.path} holds another audit: {told}; say the same as there to go on with it, "
                "choose another folder, or say --force, which trains anew"
            )

    def results(self) -> list[Path]:
        """What is there of all that an audit writes beside its index."""
        named = (self.path / name for name in (SUMMARY, PAGE, SUSPECTS, LABELS, CORRECTIONS, CLEANLAB))
        passes = (place for place in self.path.glob("pass-*") if place.name.removeprefix("pass-").isdecimal())
        return [*(place for place in named if place.exists()), *sorted(passes)]

    def check_own(self) -> None:
        """An error where the folder has files that an audit would write over, and that no audit wrote."""
        others = [] if (self.path / INDEX).exists() else [place.name for place in self.results()]
        if others:
            raise DataError(
                f"{self.path} has files that an audit would write over ({', '.join(others)}), and holds no audit "
                f"({INDEX}): name a new folder for the audit, or move these files away"
            )

    def check_spares(self, data: Path) -> None:
        """An error where the audit would write over the data that it is of."""
        real = Path(os.path.realpath(data))
        if any(real.is_relative_to(os.path.realpath(place)) for place in self.results()):
            raise DataError(
                f"{data} belongs to the audit in {self.path}, which would write over it: name another folder for the "
                "audit of it"
            )

    def begin(self, description: dict[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / INDEX, (json.dumps(description, indent=1) + "\n").encode())

    def clear(self) -> None:
        """Take an older audit away; other files of the folder stay, and what a person checked under another name."""
        review = read_review(self.path / SUSPECTS)
        if review.labels or not review.whole:
            keep_beside(self.path / SUSPECTS, "it was filled in during the audit before")
        if (self.path / CORRECTIONS).exists():
            keep_beside(self.path / CORRECTIONS, "it has what was corrected in the audit before")
        for place in self.results():
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink()
        (self.path / INDEX).unlink(missing_ok=True)  # last: without it, what is left would be taken for a user's own

    def pass_folder(self, number: int) -> Path:
        return self.path / f"pass-{number + 1}"

    def load_pass(self, number: int) -> FinishedPass | None:
        folder = self.pass_folder(number)
        if not (folder / "testimony" / storage.INDEX).exists():
            return None
        settings, tensors = storage.load(folder / "testimony")
        parts = {name: tensors[name].numpy() for name in ("order", "in_memory", "scores", "votes")}
        return FinishedPass(settings["labels"], Testimony(**parts), folder / settings.get("learner", LEARNER))

    def save_pass(self, number: int, labels: str, learner: Learner, testimony: Testimony) -> None:
        """The learner first, beside the one before: a pass counts as finished once its testimony is there.

        So whoever is stopped between the two goes on from the learner that the older testimony is of.
        """
        folder, name = self.pass_folder(number), f"{LEARNER}-{labels[:12]}"
        learner.save(folder / name)
        tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in vars(testimony).items()}
        storage.save(folder / "testimony", {"labels": labels, "learner": name}, tensors)
        for older in folder.glob(f"{LEARNER}*"):
            if older.name != name:
                shutil.rmtree(older, ignore_errors=True)
        self._forget_begun(number)

    def load_begun(self, number: int, labels: str, device: str) -> Begun | None:
        """Where a pass of these labels was left, by an earlier process that was stopped.

        What cannot be read costs what was done since the state before, and not the audit.
        """
        found = {int(place.name.split("-")[1]): place for place in self.pass_folder(number).glob(f"{BEGUN}-*")
                 if place.name.endswith(f"-{labels[:12]}") and (place / storage.INDEX).exists()}  # fmt: skip
        for steps in sorted(found, reverse=True):
            try:
                return Begun(Learner.load(found[steps], device), steps)
            except DataError as error:
                logger.warning("an unfinished pass is left out: %s", error)
        return None

    def save_begun(self, number: int, labels: str, begun: Begun) -> None:
        """The newest alone stays. A disk that is too full for it must not cost the audit."""
        place = self.pass_folder(number) / f"{BEGUN}-{begun.steps}-{labels[:12]}"
        try:
            begun.learner.save(place)
        except OSError as error:
            shutil.rmtree(place, ignore_errors=True)
            logger.warning("what is done of this pass is not kept: %s", error)
            return
        self._forget_begun(number, place)

    def _forget_begun(self, number: int, but: Path | None = None) -> None:
        for older in self.pass_folder(number).glob(f"{BEGUN}-*"):
            if older != but:
                (older / storage.INDEX).unlink(missing_ok=True)  # first: without it, no state
                shutil.rmtree(older, ignore_errors=True)

    def corrections(self, labelled: LabelledSet) -> dict[int, int]:
        """What earlier reviews corrected."""
        path = self.path / CORRECTIONS
        return read_corrections(path, labelled.classes, len(labelled.given), labelled.names) if path.exists() else {}


def audit_in_folder(
    folder: AuditFolder, labelled: LabelledSet, settings: AuditSettings, corrections: dict[int, int] | None = None,
    advance: Advance = say_nothing, on_pass: Callable[[str], None] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> AuditReport:  # fmt: skip
    """Audit into a folder, going on with what is there: finished passes are kept, corrected labels are learnt.

    `corrections` join those of earlier reviews in the folder; a later word on a row replaces the earlier one. `asked`
    is kept in the folder for whoever goes on with it.
    """
    height, width, channels = labelled.images.shape[1:]
    settings = with_network(settings, (height, width, channels))
    description = describe(labelled, settings)
    folder.check_own()
    folder.check_same(description)
    folder.begin({**description, ASKED: folder.asked() if asked is None else dict(asked)})
    known = folder.corrections(labelled) | (corrections or {})
    if known:
        content = corrections_csv(known, labelled.classes, labelled.names).encode()
        write_atomically(folder.path / CORRECTIONS, content)
    given, checked = applied(labelled.given, known)
    testimonies = []
    for number in range(settings.passes):
        with threads_of(settings):
            text, testimony = _one_pass(folder, labelled, given, checked, settings, number, advance)
        testimonies.append(testimony)
        if on_pass is not None:
            on_pass(text)
    report = judge(
        put_together(testimonies), given, labelled.classes, settings, labelled.given, checked, labelled.names
    )
    typed = carry_over(folder.path / SUSPECTS, report)  # read now: somebody may have typed while the learners learnt
    write_tables(report, folder.path, labelled.folder, labelled.carried, typed)
    return report


def describe(labelled: LabelledSet, settings: AuditSettings) -> dict[str, Any]:
    """What must be equal for an audit to go on: the data and everything that decides the learners."""
    epochs = settings.epochs_for(settings.memory_for(len(labelled.given)))
    code = {f"code of {key}": code for key, code in plugins.codes(("network", settings.network)).items()}
    return {
        "data_sha256": labelled.digest(), "classes": labelled.classes, **settings.to_dict(), "epochs": epochs, **code
    }  # fmt: skip


def _one_pass(
    folder: AuditFolder, labelled: LabelledSet, given: np.ndarray, checked: np.ndarray, settings: AuditSettings,
    number: int, advance: Advance,
) -> tuple[str, Testimony]:  # fmt: skip
    # What was confirmed is learnt from, too.
    digest = hashlib.sha256(given.tobytes() + (checked.tobytes() if checked.any() else b"")).hexdigest()
    found = folder.load_pass(number)
    name = f"pass {number + 1} of {settings.passes}"
    if found is not None and found.labels == digest:
        return f"{name}: was there already", found.testimony
    if found is None:
        learner, testimony = run_pass(
            labelled.images, given, labelled.classes, settings, number, advance, checked,
            folder.load_begun(number, digest, settings.device), partial(folder.save_begun, number, digest),
        )  # fmt: skip
        text = f"{name}: {learner.seen} samples seen"
    else:
        learner = Learner.load(found.learner, settings.device)
        changed = tell_labels(learner, given, checked, found.testimony.order)
        consolidate(learner, settings, lambda n: advance(n, f"{name}: corrected memory"))
        testimony = testify(learner, labelled.images, given, found.testimony.order, settings)
        text = f"{name}: went on with {changed} corrected memory label{'s' if changed != 1 else ''}"
    folder.save_pass(number, digest, learner, testimony)
    return text, testimony


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
