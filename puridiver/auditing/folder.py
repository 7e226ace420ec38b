"""An audit in a folder: finished passes are kept, so that it can resume, and continue with corrected labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver.auditing import tables
from puridiver.auditing.passes import Advance, AuditSettings, LabelledSet, Pass, Predictions
from puridiver.auditing.report import AuditReport, judge
from puridiver.errors import DataError
from puridiver.files import check_json, file_lock, read_json, write_atomically
from puridiver.learner import storage
from puridiver.learner.learner import Learner
from puridiver.runs.checkpoint import remove_save

INDEX, SUMMARY, CORRECTIONS, PAGE = "audit.json", "summary.json", "corrections.csv", "audit.html"
LOCK = ".audit.lock"  # a name of its own: a run must not take the folder of a killed audit for its own
FORMAT = "puridiver-audit"
ASKED = "asked"  # in the index: what a user said
ASKED_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("data", "data_root", "bad_files", "split", "plant", "network", "device"), (str, None)),
    **dict.fromkeys(("image_size", "limit", "passes", "parts", "memory", "epochs", "seed"), (int, None)),
    "test_share": (float, None), "assignments": ([str, None], None),
}  # fmt: skip


@dataclass(frozen=True)
class AuditFolder:
    """Where an audit's passes, corrections and results lie."""

    path: Path

    def begun(self) -> dict[str, Any]:
        """What the folder's audit was begun with; empty where there is none."""
        place = self.path / INDEX
        if not place.exists():
            return {}
        found = read_json(place)
        if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get(ASKED), dict):
            raise DataError(
                f"{place} is damaged, or not an audit's (it has no format {FORMAT!r}): choose another folder"
            )
        check_json(found[ASKED], ASKED_FIELDS, str(place), ASKED)
        return found

    def begin(self, labelled: LabelledSet, settings: AuditSettings, asked: Mapping[str, Any]) -> None:
        """Write the index: the data and all that decides the learners, which must not change, and what a user asked."""
        digest = sha256(np.ascontiguousarray(labelled.images.numpy()).data)
        digest.update(labelled.original.tobytes())
        index = {"format": FORMAT, "data_sha256": digest.hexdigest(), "classes": labelled.classes, **asdict(settings)}
        begun = self.begun()
        for name, value in index.items():
            if begun and begun.get(name) != value:
                told = f"{name} is {begun.get(name)!r:.40} there and {value!r:.40} here"
                raise DataError(f"{self.path} holds another audit: {told}; choose another folder, or --force")
        index[ASKED] = {**begun.get(ASKED, {}), **asked}
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
        if not self.begun():
            return
        tables.keep_edited(self.path)
        if (self.path / CORRECTIONS).exists():
            tables.keep_beside(self.path / CORRECTIONS)
        for place in self.results():
            if not place.is_dir() or place.is_symlink():
                place.unlink()
                continue
            for save in (place / "predictions", *place.glob("learner-*")):
                remove_save(save)
            with suppress(OSError):  # something else is in it
                place.rmdir()
        (self.path / INDEX).unlink(missing_ok=True)  # last: without it, the rest would count as a user's own

    def pass_folder(self, number: int) -> Path:
        return self.path / f"pass-{number + 1}"

    def load_pass(self, number: int) -> tuple[Path, Predictions] | None:
        """The learner's folder and the predictions of a finished pass; None where there is no such pass."""
        folder = self.pass_folder(number)
        if not (folder / "predictions" / storage.INDEX).exists():
            return None
        settings, tensors = storage.load(folder / "predictions")
        if set(tensors) != set(Predictions._fields) or not isinstance(settings.get("learner"), str):
            raise DataError(f"{folder / 'predictions'} is damaged: it is not what a pass of an audit writes")
        return folder / settings["learner"], Predictions(**{name: tensor.numpy() for name, tensor in tensors.items()})

    def save_pass(self, place: Path, learner: Learner, predictions: Predictions) -> None:
        """Save the learner beside the older one, with which a stopped audit goes on, then the predictions."""
        learner.save(place)
        tensors = {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in predictions._asdict().items()}
        storage.save(place.parent / "predictions", {"learner": place.name}, tensors)
        for older in set(place.parent.glob("learner-*")) - {place}:
            remove_save(older)

    def predictions(self, one: Pass) -> Predictions:
        """Load, continue or run a pass."""
        labels = one.labelled.given.tobytes() + one.labelled.checked.tobytes()  # confirmations count, too
        place = self.pass_folder(one.number) / f"learner-{sha256(labels).hexdigest()[:12]}"
        found = self.load_pass(one.number)
        if found and found[0] == place:
            return found[1]
        if found:
            learner = Learner.load(found[0], one.settings.device)
            one.train_memory(learner)
        else:
            learner = one.run()
        predictions = one.predict(learner)
        self.save_pass(place, learner, predictions)
        return predictions


def audit_in_folder(
    folder: AuditFolder, labelled: LabelledSet, settings: AuditSettings, *, asked: Mapping[str, Any],
    images: str | None = None, force: bool = False, advance: Advance = None,
) -> AuditReport:  # fmt: skip
    """Audit into a folder: finished passes are kept, and corrected labels are learnt.

    The set's corrections join those of earlier reviews in the folder; the later correction of a row counts. `asked` is
    kept in the folder for whoever continues the audit. `images` is the folder of the image files, for labels.csv.
    `force` replaces an audit that the folder holds.
    """
    settings, path = settings.resolved(labelled), folder.path
    path.mkdir(parents=True, exist_ok=True)
    with file_lock(path / LOCK, wait_seconds=0, what=f"the audit in {path}"), settings.threads():
        folder.check_own()
        if force:
            folder.clear()
        folder.begin(labelled, settings, asked)
        if (path / CORRECTIONS).exists():
            known = tables.read_corrections(path / CORRECTIONS, labelled)
            labelled = replace(labelled, corrections=known | dict(labelled.corrections))
        if labelled.corrections:
            write_atomically(path / CORRECTIONS, tables.corrections_csv(labelled))
        passes = [Pass(labelled, settings, number, advance) for number in range(settings.passes)]
        report = judge([folder.predictions(each) for each in passes], labelled, settings)
        tables.keep_edited(path)  # now: somebody may edit it while the learners learnt
        tables.write_tables(report, path, images)
    return report
