"""An audit in a folder: finished passes are kept, so that it can resume, and continue with corrected labels."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from puridiver.auditing import tables
from puridiver.auditing.noise_model import combine
from puridiver.auditing.passes import Advance, AuditSettings, LabelledSet, Testimony, run_pass, testify, train_memory
from puridiver.auditing.report import AuditReport, judge
from puridiver.errors import DataError
from puridiver.files import file_lock, read_json, write_atomically
from puridiver.learner import storage
from puridiver.learner.learner import Learner

INDEX, SUMMARY, CORRECTIONS, PAGE = "audit.json", "summary.json", "corrections.csv", "audit.html"
LOCK = ".audit.lock"  # a name of its own: a run must not take the folder of a killed audit for its own
TESTIMONY, ASKED = "testimony", "asked"  # in the folder of a pass; in the index, what a user said


@dataclass(frozen=True)
class AuditFolder:
    """Where an audit's passes, corrections and results lie."""

    path: Path

    def begun(self) -> dict[str, Any]:
        """What the folder's audit was begun with; empty where there is none."""
        return dict(read_json(self.path / INDEX)) if (self.path / INDEX).exists() else {}

    def begin(self, labelled: LabelledSet, settings: AuditSettings, asked: Mapping[str, Any] | None) -> None:
        """Write the index: the data, all that decides the learners, and what a user `asked` for.

        What an audit that the folder holds was begun with must be the same.
        """
        digest = sha256(np.ascontiguousarray(labelled.images.numpy()).data)
        digest.update(labelled.original.tobytes())
        index = {"data_sha256": digest.hexdigest(), "classes": labelled.classes, **asdict(settings)}
        index["epochs"] = settings.epochs_for(settings.memory_for(len(labelled.original)))
        begun = self.begun()
        for name, value in index.items():
            if begun and begun.get(name) != value:
                told = f"{name} is {begun.get(name)!r:.40} there and {value!r:.40} here"
                raise DataError(f"{self.path} holds another audit: {told}; choose another folder, or --force")
        index[ASKED] = begun.get(ASKED, {}) if asked is None else dict(asked)
        write_atomically(self.path / INDEX, (json.dumps(index, indent=1) + "\n").encode())

    def results(self) -> list[Path]:
        """What exists of all that an audit writes beside its index."""
        named = [self.path / name for name in (SUMMARY, PAGE, CORRECTIONS, *tables.FILES)]
        passes = [place for place in self.path.glob("pass-*") if place.name.removeprefix("pass-").isdecimal()]
        return [*(place for place in named if place.exists()), *sorted(passes)]

    def check_own(self, data: str | None = None) -> None:
        """Raise an error where an audit would overwrite files that no audit wrote, or its data."""
        results = self.results()
        if results and not (self.path / INDEX).exists():
            told = ", ".join(place.name for place in results)
            raise DataError(f"{self.path} holds no audit, but files that one would write over: {told}")
        if data and any(Path(data).resolve().is_relative_to(place.resolve()) for place in results):
            raise DataError(f"{data} belongs to the audit in {self.path}, which would write over it")

    def clear(self) -> None:
        """Remove an older audit; other files stay, and what a person checked stays under another name."""
        tables.keep_edited(self.path)
        if (self.path / CORRECTIONS).exists():
            tables.keep_beside(self.path / CORRECTIONS)
        for place in self.results():
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink()
        (self.path / INDEX).unlink(missing_ok=True)  # last: without it, the rest would count as a user's own

    def load_pass(self, number: int) -> tuple[str, Testimony] | None:
        """The digest of the labels of a finished pass, and its testimony; None where there is no such pass."""
        folder = self.path / f"pass-{number + 1}" / TESTIMONY
        if not (folder / storage.INDEX).exists():
            return None
        settings, tensors = storage.load(folder)
        return settings["labels"], Testimony(**{name: tensor.numpy() for name, tensor in tensors.items()})

    def learner(self, number: int, labels: str) -> Path:
        """The folder of the learner that a pass with these labels made."""
        return self.path / f"pass-{number + 1}" / f"learner-{labels[:12]}"

    def save_pass(self, number: int, labels: str, learner: Learner, testimony: Testimony) -> None:
        """Save the learner beside the older one, with which a stopped audit goes on, then the testimony."""
        own = self.learner(number, labels)
        learner.save(own)
        tensors = {part: torch.from_numpy(np.ascontiguousarray(value)) for part, value in vars(testimony).items()}
        storage.save(own.parent / TESTIMONY, {"labels": labels}, tensors)
        for older in set(own.parent.glob("learner-*")) - {own}:
            shutil.rmtree(older, ignore_errors=True)


def audit_in_folder(
    folder: AuditFolder, labelled: LabelledSet, settings: AuditSettings, *, asked: Mapping[str, Any] | None = None,
    data: pd.DataFrame | None = None, force: bool = False, advance: Advance = None,
    on_pass: Callable[[str], object] = lambda text: None,
) -> AuditReport:  # fmt: skip
    """Audit into a folder: finished passes are kept, and corrected labels are learnt.

    The set's corrections join those of earlier reviews in the folder; the later correction of a row counts. `asked` is
    kept in the folder for whoever continues the audit. `data` is the `data_table` for labels.csv. `force` replaces an
    audit that the folder holds.
    """
    settings, path = settings.with_network(tuple(labelled.images.shape[1:])), folder.path
    path.mkdir(parents=True, exist_ok=True)
    with file_lock(path / LOCK, wait_seconds=0, what=f"the audit in {path}"), settings.threads():
        if force:
            folder.clear()
        folder.check_own()
        folder.begin(labelled, settings, asked)
        if (path / CORRECTIONS).exists():
            known = tables.read_corrections(path / CORRECTIONS, labelled)
            labelled = replace(labelled, corrections=known | dict(labelled.corrections))
        if labelled.corrections:
            write_atomically(path / CORRECTIONS, tables.corrections_csv(labelled))
        testimonies = []
        for number in range(settings.passes):
            text, testimony = _one_pass(folder, labelled, settings, number, advance)
            testimonies.append(testimony)
            on_pass(f"pass {number + 1} of {settings.passes}: {text}")
        report = judge(combine(testimonies), labelled, settings)
        tables.keep_edited(path)  # now: somebody may edit it while the learners learnt
        tables.write_tables(report, path, data)
    return report


def _one_pass(
    folder: AuditFolder, labelled: LabelledSet, settings: AuditSettings, number: int, advance: Advance
) -> tuple[str, Testimony]:
    """Load, continue or run a pass; what was done, and what its learner says."""
    digest = sha256(labelled.given.tobytes() + labelled.checked.tobytes()).hexdigest()  # confirmations count, too
    found = folder.load_pass(number)
    if found is None:
        learner, testimony = run_pass(labelled, settings, number, advance)
        text = f"{learner.seen} samples seen"
    elif found[0] == digest:
        return "was there already", found[1]
    else:
        learner, order = Learner.load(folder.learner(number, found[0]), settings.device), found[1].order
        changed = train_memory(learner, labelled, order, settings, number, advance)
        text = f"went on with {changed} corrected in memory"
        testimony = testify(learner, labelled, order, settings)
    folder.save_pass(number, digest, learner, testimony)
    return text, testimony
