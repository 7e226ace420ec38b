"""What was typed into suspects.csv is never lost."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from puridiver.auditing import tables
from puridiver.auditing.corrections import read_corrections
from puridiver.auditing.folder import AuditFolder, LabelledSet, audit_in_folder
from puridiver.auditing.settings import AuditSettings
from tests.auditing.samples import CLASSES, QUICK, planted

Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def labelled() -> LabelledSet:
    images, given, _ = planted(n=90)
    return LabelledSet(torch.from_numpy(images), given, CLASSES, [f"-{row}.png" for row in range(90)])


@pytest.fixture
def again(labelled: LabelledSet, tmp_path: Path) -> Callable[..., Rows]:
    """Audit, or continue the audit, in the folder of the test; returns the list of suspects."""

    def act(corrections: dict[int, int] | None = None) -> Rows:
        audit_in_folder(AuditFolder(tmp_path), labelled, AuditSettings(**{**QUICK, "passes": 1}), corrections)
        return read(tmp_path / "suspects.csv")

    return act


def read(path: Path) -> Rows:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def save(path: Path, rows: Rows, mark: str = ",") -> bytes:
    """Write the list as a spreadsheet does."""
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=mark)
        writer.writeheader()
        writer.writerows(rows)
    return path.read_bytes()


def test_a_list_with_filled_in_labels_is_kept_beside(again, tmp_path, caplog) -> None:
    rows = again()
    again()
    assert not list(tmp_path.glob("suspects-*.csv"))
    rows[2]["corrected_label"] = "owl"
    before = save(tmp_path / "suspects.csv", rows, ";")
    again()
    assert (tmp_path / "suspects-1.csv").read_bytes() == before
    assert "suspects-1.csv" in caplog.text


def test_a_list_of_which_a_filled_in_line_vanishes_is_kept_beside(again, tmp_path, caplog) -> None:
    rows = again()
    first = int(rows[0]["row"])
    for number, label in enumerate(("owl", "cat"), 1):  # another file says dog, and has the last word
        rows[0]["corrected_label"] = label
        before = save(tmp_path / "suspects.csv", rows)
        assert str(first) not in {row["row"] for row in again({first: 1})}
        assert (tmp_path / f"suspects-{number}.csv").read_bytes() == before
        assert f"suspects-{number}.csv; --corrections takes it" in caplog.text


def test_a_list_whose_labels_were_all_taken_up_is_not_kept(again, labelled, tmp_path) -> None:
    rows = again()
    for row in rows:
        row["corrected_label"] = row["suggested_label"]
    save(tmp_path / "suspects.csv", rows)
    again(read_corrections(tmp_path / "suspects.csv", CLASSES, 90, labelled.names))
    assert not list(tmp_path.glob("suspects-*.csv"))


def with_notes(path: Path) -> None:
    save(path, [{**row, "notes": "ask Kim"} for row in read(path)])


def in_another_code(path: Path) -> None:
    path.write_bytes(path.read_bytes() + "1,x,cat,dog,0.1,why,Käse".encode("latin-1"))


def with_a_line_twice(path: Path) -> None:
    rows = read(path)
    save(path, [*rows, {**rows[0], "corrected_label": "cat"}, {**rows[0], "corrected_label": "dog"}])


@pytest.mark.parametrize("change", [with_notes, in_another_code, with_a_line_twice])
def test_a_list_that_holds_more_than_labels_is_kept_beside(change, again, tmp_path, caplog) -> None:
    again()
    change(tmp_path / "suspects.csv")
    before = (tmp_path / "suspects.csv").read_bytes()
    again()
    assert (tmp_path / "suspects-1.csv").read_bytes() == before
    assert "suspects-1.csv" in caplog.text
    assert tuple(read(tmp_path / "suspects.csv")[0]) == tables.SUSPECT_COLUMNS


def test_a_fresh_start_keeps_a_list_that_was_filled_in(again, tmp_path, caplog) -> None:
    rows = again()
    AuditFolder(tmp_path).clear()
    assert {path.name for path in tmp_path.iterdir()} <= {".audit.lock"}  # nothing was typed
    rows[0]["corrected_label"] = "owl"
    before = save(tmp_path / "suspects.csv", rows)
    AuditFolder(tmp_path).clear()
    assert (tmp_path / "suspects-1.csv").read_bytes() == before
    assert "was filled in" in caplog.text
