"""An audit in a folder: resumed, continued with corrected labels, kept apart from other files."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import puridiver
from puridiver.auditing import folder as folders
from puridiver.auditing.folder import AuditFolder, audit_in_folder
from puridiver.auditing.passes import AuditSettings, LabelledSet, Pass
from puridiver.auditing.report import AuditReport
from puridiver.errors import BusyError, DataError
from puridiver.files import file_lock
from puridiver.learner import storage
from tests.auditing.samples import QUICK, planted

_, GIVEN, TRUE = planted()
ONE_PASS = AuditSettings(**{**QUICK, "passes": 1})


@pytest.fixture(scope="module")
def done(labelled: LabelledSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an audit of one pass. Tests must not change it."""
    path = tmp_path_factory.mktemp("audit")
    audit_in_folder(AuditFolder(path), labelled, ONE_PASS, asked={"data": "mine"})
    return path


@pytest.fixture
def path(done: Path, tmp_path: Path) -> Path:
    """A copy of that audit."""
    return shutil.copytree(done, tmp_path / "audit")


def act(
    path: Path, labelled: LabelledSet, settings: AuditSettings = ONE_PASS, corrections: dict[int, int] | None = None,
    force: bool = False,
) -> AuditReport:  # fmt: skip
    """Audit, or continue the audit in a folder."""
    labelled = dataclasses.replace(labelled, corrections=corrections or {})
    return audit_in_folder(AuditFolder(path), labelled, settings, asked={}, force=force)


def learner_of(path: Path, labelled: LabelledSet) -> tuple[Any, np.ndarray]:
    """The memory samples of the learner of the first pass, and the row of each."""
    found = AuditFolder(path).load_pass(0)
    assert found is not None
    samples = puridiver.Learner.load(found[0], "cpu").memory.samples
    return samples, Pass(labelled, ONE_PASS, 0).order[samples.arrivals.numpy()]


@pytest.fixture
def run(monkeypatch) -> list[int]:
    """The numbers of the passes that ran from their start."""
    found, real = [], Pass.run
    monkeypatch.setattr(Pass, "run", lambda one: found.append(one.number) or real(one))
    return found


def test_it_finds_what_the_function_finds_and_resumes_by_whole_passes(
    labelled, report, tmp_path, run, monkeypatch
) -> None:
    settings, real = AuditSettings(**QUICK), Pass.run

    def stopped_in_the_second(one: Pass) -> Any:
        if one.number == 1:
            raise KeyboardInterrupt
        return real(one)

    with monkeypatch.context() as patched:
        patched.setattr(Pass, "run", stopped_in_the_second)
        with pytest.raises(KeyboardInterrupt):
            act(tmp_path, labelled, settings)
    found = act(tmp_path, labelled, settings)
    assert run == [0, 1]
    assert np.array_equal(found.p_correct, report.p_correct)
    assert len(pd.read_csv(tmp_path / "suspects.csv")) == len(report.suspects())


def test_corrections_are_learnt_and_remembered(labelled, path, run) -> None:
    wrong = np.flatnonzero(GIVEN != TRUE).tolist()
    after = act(path, labelled, corrections={row: int(TRUE[row]) for row in wrong})
    assert after.checked.sum() == len(wrong)
    assert after.noise.rate < 0.1
    assert len(list((path / "pass-1").glob("learner*"))) == 1
    held = int(learner_of(path, labelled)[1][0])
    after = act(path, labelled, corrections={held: (int(TRUE[held]) + 1) % 3})
    samples, rows = learner_of(path, labelled)
    assert samples.labels[rows == held].tolist() == [(int(TRUE[held]) + 1) % 3]
    again = act(path, labelled)  # nothing new: nothing to learn, nothing forgotten
    assert np.array_equal(again.p_correct, after.p_correct)
    later = act(path, labelled, corrections={wrong[0]: int(GIVEN[wrong[0]])})
    assert later.given[wrong[0]] == GIVEN[wrong[0]]
    assert later.checked.sum() == len(wrong) + 1
    assert run == []  # the learner went on


@pytest.mark.parametrize("first", [True, False])
def test_the_learners_are_told_what_was_checked_also_what_was_right(first, labelled, path, run) -> None:
    """Whether there were learners already when a person checked the labels, or not."""
    place = path / "new" if first else path
    act(place, labelled, corrections=dict(enumerate(TRUE.tolist())))
    assert bool(run) is first
    samples, rows = learner_of(place, labelled)
    assert samples.checked.all()
    assert samples.labels.tolist() == TRUE[rows].tolist()


def test_an_audit_that_is_stopped_before_its_predictions_comes_to_the_same_end(
    labelled, path, done, monkeypatch
) -> None:
    """The corrected learner was saved, the predictions not: it must not be corrected and trained once more."""
    wrong = {int(row): int(TRUE[row]) for row in np.flatnonzero(GIVEN != TRUE)}
    whole = act(shutil.copytree(done, path.parent / "whole"), labelled, corrections=wrong)
    real = storage.save

    def stopped_at_the_predictions(folder, *content):
        if folder.name == "predictions":
            raise KeyboardInterrupt
        return real(folder, *content)

    monkeypatch.setattr(storage, "save", stopped_at_the_predictions)
    with pytest.raises(KeyboardInterrupt):
        act(path, labelled, corrections=wrong)
    monkeypatch.setattr(storage, "save", real)
    assert len(list((path / "pass-1").glob("learner*"))) == 2
    assert np.array_equal(act(path, labelled).p_correct, whole.p_correct)
    assert len(list((path / "pass-1").glob("learner*"))) == 1


def test_another_audit_is_not_mixed_in(labelled, path) -> None:
    with pytest.raises(DataError, match=r"holds another audit: data_sha256 is .* there and .* here"):
        act(path, dataclasses.replace(labelled, original=(GIVEN + 1) % 3))
    with pytest.raises(DataError, match="holds another audit: seed is 0 there and 4 here"):
        act(path, labelled, dataclasses.replace(ONE_PASS, seed=4))
    assert AuditFolder(path).begun()["asked"] == {"data": "mine"}


def test_clearing_takes_only_what_an_audit_wrote_and_can_be_stopped(labelled, path, monkeypatch) -> None:
    def interrupted(*anything: object, **more: object) -> None:
        raise KeyboardInterrupt

    act(path, labelled, corrections={0: 1})
    (path / "notes.txt").write_text("mine")
    (path / "pass-2-port").mkdir()
    (path / "corrections-1.csv").write_text("older")
    before = (path / "corrections.csv").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("puridiver.auditing.folder.remove_save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            AuditFolder(path).clear()
    AuditFolder(path).check_own()  # what is left does not count as a user's own files
    AuditFolder(path).clear()
    left = ["corrections-1.csv", "corrections-2.csv", "notes.txt", "pass-2-port"]
    assert sorted(place.name for place in path.iterdir()) == left
    assert (path / "corrections-2.csv").read_bytes() == before


def test_an_index_of_somebody_else_is_no_audit_even_by_force(labelled, tmp_path) -> None:
    (tmp_path / "pass-1").mkdir()
    (tmp_path / "pass-1" / "x").write_text("mine")
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(DataError, match="not an audit's"):
        act(tmp_path, labelled, force=True)
    assert (tmp_path / "pass-1" / "x").read_text() == "mine"


@pytest.mark.parametrize(
    "asked", [{"data": 3}, {"limit": [1]}, {"network": {}}, {"assignments": [1]}, {"split": 10**400}]
)
def test_a_wrong_type_in_an_index_is_named(asked, path) -> None:
    index = json.loads((path / "audit.json").read_text())
    (path / "audit.json").write_text(json.dumps({**index, "asked": asked}))
    with pytest.raises(DataError, match=rf"audit\.json is damaged: asked\.{next(iter(asked))} should be"):
        AuditFolder(path).begun()


@pytest.mark.parametrize("force", [False, True])
def test_an_edited_list_is_kept_beside(force, labelled, path, caplog) -> None:
    act(path, labelled, force=force)
    assert not list(path.glob("suspects-*.csv"))  # nothing was typed
    for number, typed in enumerate((b"1,x,cat,dog,0.1,why,K\xe4se\r\n", b",,,,,,owl\r\n"), 1):
        content = (path / "suspects.csv").read_bytes() + typed
        (path / "suspects.csv").write_bytes(content)
        act(path, labelled, force=force)
        assert (path / f"suspects-{number}.csv").read_bytes() == content
        assert f"suspects-{number}.csv" in caplog.text
        assert typed not in (path / "suspects.csv").read_bytes()


def test_two_audits_do_not_write_into_one_folder(labelled, path) -> None:
    with file_lock(path / folders.LOCK, wait_seconds=0), pytest.raises(BusyError, match="the audit in"):
        act(path, labelled)
