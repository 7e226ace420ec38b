"""An audit in a folder: resumed, continued with corrected labels, kept apart from other audits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puridiver
from puridiver.auditing import folder as folders
from puridiver.auditing.folder import AuditFolder, LabelledSet, audit_in_folder
from puridiver.auditing.settings import AuditSettings
from puridiver.errors import BusyError, DataError
from puridiver.files import file_lock
from puridiver.learner import storage
from puridiver.runs.folder import check_free
from tests.auditing.samples import CLASSES, QUICK, planted, words

SETTINGS = AuditSettings(**QUICK)
ONE_PASS = dataclasses.replace(SETTINGS, passes=1)
TWO_PARTS = dataclasses.replace(ONE_PASS, parts=2)


@pytest.fixture(scope="module")
def labelled() -> LabelledSet:
    images, given, _ = planted()
    return LabelledSet(torch.from_numpy(images), given, CLASSES)


@pytest.fixture(scope="module")
def whole(labelled, tmp_path_factory):
    """The audit of one pass and two parts that nobody stopped."""
    return quietly(tmp_path_factory.mktemp("whole"), labelled, TWO_PARTS)[0]


def quietly(
    path: Path, labelled: LabelledSet, settings: AuditSettings = SETTINGS, **changes: Any
) -> tuple[Any, list[str]]:
    told: list[str] = []
    report = audit_in_folder(AuditFolder(path), labelled, settings, on_pass=told.append, **changes)
    return report, told


def test_it_finds_what_the_function_finds(labelled, tmp_path):
    report, _ = quietly(tmp_path, labelled)
    plain = puridiver.audit(labelled.images, words(labelled.given), settings=SETTINGS)
    assert np.array_equal(report.p_correct, plain.p_correct)
    assert (tmp_path / "suspects.csv").exists()


def test_corrections_are_learnt_and_remembered(labelled, tmp_path):
    _, given, true = planted()
    before, _ = quietly(tmp_path, labelled)
    kept = [AuditFolder(tmp_path).load_pass(k).testimony for k in range(2)]
    in_memory = np.flatnonzero(kept[0].in_memory & (given != true))
    rows = [int(row) for row in {*before.suspect_rows()[:12].tolist(), *in_memory.tolist()}]
    after, told = quietly(tmp_path, labelled, corrections={row: int(true[row]) for row in rows})
    assert told[0].startswith(f"pass 1 of 2: went on with {len(in_memory)} corrected")
    assert after.checked.sum() == len(rows)
    assert after.noise.rate < before.noise.rate
    assert len(after.suspects()) < len(before.suspects())
    learner = puridiver.Learner.load(AuditFolder(tmp_path).load_pass(0).learner, "cpu")
    assert len(list((tmp_path / "pass-1").glob("learner*"))) == 1
    samples = learner.memory.samples
    now = np.where(after.checked, true, given)
    assert samples.labels.tolist() == now[kept[0].order[samples.arrivals.numpy()]].tolist()
    again, told = quietly(tmp_path, labelled)  # nothing new: nothing to learn, nothing forgotten
    assert told == ["pass 1 of 2: was there already", "pass 2 of 2: was there already"]
    assert np.array_equal(again.given, after.given)
    later, _ = quietly(tmp_path, labelled, corrections={rows[0]: int(given[rows[0]])})
    assert later.given[rows[0]] == given[rows[0]]
    assert later.checked.sum() == len(rows)


def test_another_audit_is_not_mixed_in(labelled, tmp_path):
    quietly(tmp_path, labelled)
    other = LabelledSet(labelled.images, (labelled.given + 1) % 3, CLASSES)
    with pytest.raises(DataError, match=r"holds another audit: data_sha256 is .* there and .* here"):
        quietly(tmp_path, other)
    with pytest.raises(DataError, match="holds another audit: seed is 0 there and 4 here"):
        audit_in_folder(AuditFolder(tmp_path), labelled, AuditSettings(**{**QUICK, "seed": 4}))
    for content in ("{", "[]", '{"asked": 3}', "[" * 100_000, "\udcff"):
        (tmp_path / "audit.json").write_bytes(content.encode(errors="surrogateescape"))
        with pytest.raises(DataError, match=r"audit\.json.*--force"):
            quietly(tmp_path, labelled)


def test_clearing_takes_only_what_an_audit_wrote(labelled, tmp_path):
    quietly(tmp_path, labelled, ONE_PASS, corrections={0: 1})
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "pass-port").mkdir()
    assert json.loads((tmp_path / "audit.json").read_text())["passes"] == 1
    AuditFolder(tmp_path).clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corrections-1.csv", "notes.txt", "pass-port"]


def test_clearing_that_is_stopped_can_be_done_again(labelled, tmp_path, monkeypatch):
    """What is left is not taken for files of the user's own."""
    quietly(tmp_path, labelled, ONE_PASS)

    def interrupted(*anything: object, **more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("puridiver.auditing.folder.shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            AuditFolder(tmp_path).clear()
    folder = AuditFolder(tmp_path)
    assert folder.results()
    folder.check_own()
    folder.clear()
    assert not list(tmp_path.iterdir())


def test_files_of_somebody_else_are_not_written_over(labelled, tmp_path):
    (tmp_path / "labels.csv").write_text("mine")
    with pytest.raises(DataError, match=r"would write over \(labels\.csv\), and holds no audit"):
        quietly(tmp_path, labelled)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("labels.csv", "mine")]


def test_what_a_person_checked_outlives_a_fresh_start(labelled, tmp_path, caplog):
    quietly(tmp_path, labelled, ONE_PASS, corrections={0: 1})
    before = (tmp_path / "corrections.csv").read_bytes()
    for kept in ("corrections-1.csv", "corrections-2.csv"):
        (tmp_path / "corrections.csv").write_bytes(before)
        AuditFolder(tmp_path).clear()
        assert (tmp_path / kept).read_bytes() == before
        assert kept in caplog.text
    assert not (tmp_path / "corrections.csv").exists()


def test_an_audit_that_is_stopped_before_its_testimony_comes_to_the_same_end(labelled, tmp_path, monkeypatch):
    """The corrected learner was saved, the testimony not: it must not be corrected and trained once more."""
    _, given, true = planted()
    wrong = {int(row): int(true[row]) for row in np.flatnonzero(given != true)}
    for name in ("whole", "cut"):
        quietly(tmp_path / name, labelled, ONE_PASS)
    whole, _ = quietly(tmp_path / "whole", labelled, ONE_PASS, corrections=wrong)
    real = storage.save

    def stopped_at_the_testimony(folder, *content):
        if folder.name == "testimony":
            raise KeyboardInterrupt
        return real(folder, *content)

    monkeypatch.setattr(storage, "save", stopped_at_the_testimony)
    with pytest.raises(KeyboardInterrupt):
        quietly(tmp_path / "cut", labelled, ONE_PASS, corrections=wrong)
    monkeypatch.setattr(storage, "save", real)
    assert len(list((tmp_path / "cut" / "pass-1").glob("learner*"))) == 2
    report, _ = quietly(tmp_path / "cut", labelled, ONE_PASS, corrections=wrong)
    assert np.array_equal(report.p_correct, whole.p_correct)
    assert len(list((tmp_path / "cut" / "pass-1").glob("learner*"))) == 1


@pytest.mark.parametrize("first", [True, False])
def test_the_learners_are_told_what_was_checked_also_what_was_right(first, labelled, tmp_path):
    """Whether there were learners already when a person checked the labels, or not."""
    _, given, true = planted()
    if not first:
        quietly(tmp_path, labelled, ONE_PASS)
    _, told = quietly(tmp_path, labelled, ONE_PASS, corrections={row: int(true[row]) for row in range(len(given))})
    assert ("went on" in told[0]) is not first
    for number in range(1):
        found = AuditFolder(tmp_path).load_pass(number)
        samples = puridiver.Learner.load(found.learner, "cpu").memory.samples
        assert samples.checked.all()
        assert samples.labels.tolist() == true[found.testimony.order[samples.arrivals.numpy()]].tolist()


def test_a_confirmation_alone_is_learnt_from(labelled, tmp_path):
    quietly(tmp_path, labelled, ONE_PASS)
    held = AuditFolder(tmp_path).load_pass(0)
    row = int(np.flatnonzero(held.testimony.in_memory)[0])
    _, told = quietly(tmp_path, labelled, ONE_PASS, corrections={row: int(labelled.given[row])})
    assert told[0].startswith("pass 1 of 1: went on with 0 corrected")
    samples = puridiver.Learner.load(AuditFolder(tmp_path).load_pass(0).learner, "cpu").memory.samples
    assert samples.checked.sum() == 1


def test_a_report_prints_its_figures_and_not_its_arrays(labelled, tmp_path):
    report, _ = quietly(tmp_path, labelled, ONE_PASS, corrections={0: int(labelled.given[0])})
    shown = repr(report)
    assert len(shown) < 200
    assert f"{len(report)} labels of 3 classes, {len(report.suspect_rows())} suspects" in shown
    assert "1 checked" in shown


@pytest.mark.parametrize("change", [{"labels": 3}, {"learner": "../../learner"}, {"scores": 1}, {"votes": 2}])
def test_a_testimony_of_another_form_is_refused(change, labelled, tmp_path):
    quietly(tmp_path, labelled, ONE_PASS)
    settings, tensors = storage.load(tmp_path / "pass-1" / "testimony")
    for name, value in change.items():
        if name in tensors:
            tensors[name] = tensors[name][:, :value]
        else:
            settings[name] = value
    storage.save(tmp_path / "pass-1" / "testimony", settings, tensors)
    with pytest.raises(DataError, match="testimony is damaged"):
        quietly(tmp_path, labelled, ONE_PASS)


def test_a_killed_audit_leaves_no_lock_that_a_run_takes_for_its_own(labelled, tmp_path, monkeypatch):
    def killed(*anything: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "run_pass", killed)
    with pytest.raises(KeyboardInterrupt):
        quietly(tmp_path, labelled)
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"audit.json", ".audit.lock"}
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text("mine")
    with pytest.raises(DataError):
        check_free(tmp_path)
    assert (tmp_path / "plugins" / "mine.py").read_text() == "mine"


def test_two_audits_do_not_write_into_one_folder(labelled, tmp_path):
    with file_lock(tmp_path / folders.LOCK, wait_seconds=0), pytest.raises(BusyError, match="the audit in"):
        quietly(tmp_path, labelled)
