"""An audit in a folder: repeated, with corrected labels, kept apart from other files."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from puridiver.auditing import folder as folders
from puridiver.auditing.folder import audit_in_folder, check_own
from puridiver.auditing.passes import AuditSettings, LabelledSet
from puridiver.auditing.report import AuditReport
from puridiver.errors import BusyError, DataError
from puridiver.files import file_lock
from puridiver.learner.learner import Learner
from tests.auditing.samples import QUICK, planted

_, GIVEN, TRUE = planted()
ONE_PASS = AuditSettings(**{**QUICK, "passes": 1})


@pytest.fixture(scope="module")
def done(labelled: LabelledSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an audit of one pass. Tests must not change it."""
    path = tmp_path_factory.mktemp("audit")
    act(path, labelled)
    return path


@pytest.fixture
def path(done: Path, tmp_path: Path) -> Path:
    """A copy of that audit."""
    return shutil.copytree(done, tmp_path / "audit")


def act(
    path: Path, labelled: LabelledSet, settings: AuditSettings = ONE_PASS, corrections: dict[int, int] | None = None,
    force: bool = False,
) -> AuditReport:  # fmt: skip
    """Audit into a folder."""
    return audit_in_folder(path, dataclasses.replace(labelled, corrections=corrections or {}), settings, force=force)


def test_it_finds_what_the_function_finds_also_after_it_was_stopped(labelled, report, tmp_path, monkeypatch) -> None:
    def stopped(*anything: object) -> None:
        raise KeyboardInterrupt

    settings = AuditSettings(**QUICK)
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "consolidate", stopped)
        with pytest.raises(KeyboardInterrupt):
            act(tmp_path, labelled, settings)
    assert np.array_equal(act(tmp_path, labelled, settings).p_correct, report.p_correct)
    assert len(pd.read_csv(tmp_path / "suspects.csv")) == len(report.suspects())


def test_corrections_are_learnt_and_remembered(labelled, path) -> None:
    wrong = np.flatnonzero(GIVEN != TRUE).tolist()
    after = act(path, labelled, corrections={row: int(TRUE[row]) for row in wrong})
    assert after.checked.sum() == len(wrong)
    assert after.noise.rate < 0.1
    again = act(path, labelled)  # nothing is forgotten
    assert np.array_equal(again.p_correct, after.p_correct)
    later = act(path, labelled, corrections={wrong[0]: int(GIVEN[wrong[0]])})
    assert later.given[wrong[0]] == GIVEN[wrong[0]]
    assert later.checked.sum() == len(wrong)


def test_the_learners_are_told_what_was_checked_also_what_was_right(labelled, tmp_path, monkeypatch) -> None:
    told, real = {}, Learner.correct
    monkeypatch.setattr(Learner, "correct", lambda learner, labels: told.update(labels) or real(learner, labels))
    act(tmp_path, labelled, corrections=dict(enumerate(TRUE.tolist())))
    assert len(told) >= QUICK["memory"]  # all that it holds


def test_another_audit_is_not_mixed_in(labelled, path) -> None:
    other = dataclasses.replace(labelled, original=(GIVEN + 1) % 3)
    act(path, labelled, corrections={0: 1})
    (path / "corrections-1.csv").write_text("older")
    before = (path / "corrections.csv").read_bytes()
    with pytest.raises(DataError, match="holds an audit of other data or labels"):
        act(path, other)
    assert act(path, other, force=True).checked.sum() == 0
    assert (path / "corrections-2.csv").read_bytes() == before
    assert not (path / "corrections.csv").exists()


def test_files_of_others_are_not_overwritten(labelled, tmp_path) -> None:
    (tmp_path / "labels.csv").write_text("mine")
    with pytest.raises(DataError, match="holds no audit, but files that one would write over: labels"):
        act(tmp_path, labelled, force=True)
    (tmp_path / "audit.json").write_text("{}")
    with pytest.raises(DataError, match="not an audit's"):
        act(tmp_path, labelled, force=True)
    assert (tmp_path / "labels.csv").read_text() == "mine"


@pytest.mark.parametrize("index", [[], 3, {"format": [1]}, {"format": "puridiver-audit", "data_sha256": {}}])
def test_a_wrong_type_in_an_index_is_refused(index, labelled, path) -> None:
    (path / "audit.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match=r"not an audit's|another audit|other data"):
        act(path, labelled)


def test_an_audit_does_not_write_over_its_data(path) -> None:
    with pytest.raises(DataError, match="belongs to the audit"):
        check_own(path, str(path / "labels.csv"))


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
