"""What an audit writes can be read: by people, by spreadsheets without harm, by cleanlab, and by the audit again."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import puridiver
from puridiver.auditing import tables
from puridiver.auditing.corrections import applied, corrections_csv, read_corrections
from puridiver.auditing.report import AuditReport
from puridiver.errors import DataError
from tests.auditing.samples import QUICK, planted

EVIL = ["=HYPERLINK(1)", '猫, "cat"', "-1+2\nline"]
CLASSES = ["cat", "dog"]
TWICE = ["a.png", "b.png", "a.png"]  # two people labelled the first image


@pytest.fixture(scope="module")
def report() -> AuditReport:
    images, given, _ = planted(n=90)
    return puridiver.audit(images, [EVIL[c] for c in given.tolist()], classes=EVIL, **QUICK)


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "corrected.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode())
    return path


# Written -----------------------------------------------------------------------------------------------------------


def test_the_tables_hold_the_judgements_and_cleanlabs_form(report: AuditReport, tmp_path: Path) -> None:
    tables.write_tables(report, tmp_path)
    content = (tmp_path / "suspects.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")  # a mark for spreadsheets: its letters need one
    rows = read(content)
    assert tuple(rows[0]) == tables.SUSPECT_COLUMNS
    for row, judgement in zip(rows, report.suspects(), strict=True):
        assert int(row["row"]) == judgement.row
        assert float(row[tables.PROBABILITY]) == pytest.approx(judgement.p_correct, abs=1e-6)
        assert row["given_label"].removeprefix("'") == judgement.given_label
        assert row["corrected_label"] == ""
    assert len(read((tmp_path / "labels.csv").read_bytes())) == 90
    probabilities, labels = (np.load(tmp_path / "cleanlab" / f"{n}.npy") for n in ("pred_probs", "labels"))
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(labels, report.given)
    issues = read((tmp_path / "cleanlab" / "label_issues.csv").read_bytes())
    assert list(issues[0]) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    assert [row["is_label_issue"] for row in issues] == [str(bool(p < 0.5)) for p in report.p_correct]


def test_cleanlab_reads_it(report: AuditReport, tmp_path: Path) -> None:
    filters = pytest.importorskip("cleanlab.filter", reason="needs cleanlab", exc_type=ImportError)
    tables.write_tables(report, tmp_path)
    probabilities, labels = (np.load(tmp_path / "cleanlab" / f"{n}.npy") for n in ("pred_probs", "labels"))
    found = filters.find_label_issues(labels, probabilities, n_jobs=1)
    assert (report.p_correct[found] < 0.5).mean() > 0.8


def test_no_cell_starts_a_formula() -> None:
    frame = pd.DataFrame({"text": ["@SUM(A1)", "=1+1", "+x", "\tbecause", "fine"], "number": [-3, 4, -5, 6, 7]})
    rows = read(tables.csv_bytes(frame))
    assert [row["text"] for row in rows] == ["'@SUM(A1)", "'=1+1", "'+x", "'\tbecause", "fine"]
    assert rows[0]["number"] == "-3"  # a number, not text


def test_labels_csv_tells_what_was_changed_and_carries_what_the_data_say(report: AuditReport) -> None:
    labels, checked = applied(report.original, {0: 1})
    names = [f"{row}.png" for row in range(90)]
    changed = dataclasses.replace(report, given=labels, checked=checked, names=names)
    own = pd.DataFrame({"timestamp": range(90), "split": "train"})
    other = pd.DataFrame({"name": ["t.png"], "label": [EVIL[0]], "split": ["test"]})
    frame = tables.labels_table(changed, "../images", tables.Carried(own, other))
    rows = read(tables.csv_bytes(frame))
    assert (rows[0]["label"], rows[0]["checked"]) == (EVIL[1], "True")
    assert (rows[0]["path"], rows[0]["timestamp"]) == (os.path.join("../images", "0.png"), "0")
    assert (rows[-1]["name"], rows[-1]["label"], rows[-1]["split"]) == ("t.png", "'" + EVIL[0], "test")
    assert rows[-1]["row"] == rows[-1]["checked"] == rows[-1]["timestamp"] == ""


# Read --------------------------------------------------------------------------------------------------------------


def test_the_list_comes_back_with_the_corrections_that_were_filled_in(report: AuditReport, tmp_path: Path) -> None:
    frame = tables.suspects_table(report)
    frame.loc[0, "corrected_label"], frame.loc[1, "corrected_label"] = frame.suggested_label[0], frame.given_label[1]
    path = tmp_path / "corrected.csv"
    path.write_bytes(b"\xef\xbb\xbf" + tables.csv_bytes(frame))  # as a spreadsheet saves it
    first, second = report.suspect_rows()[:2].tolist()
    expected = {first: int(report.suggested[first]), second: int(report.given[second])}
    assert read_corrections(path, EVIL, 90) == expected
    path.write_bytes(corrections_csv(expected, EVIL))
    assert read_corrections(path, EVIL, 90) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["9,cat"], "line 2: row should be from 0 to 8, but is '9'"),
        (["x,cat"], "line 2: row should be from 0 to 8, but is 'x'"),
        (["1" * 5_000 + ",cat"], "line 2: row should be from 0 to 8"),
        (["1,cat", "2,cow"], "line 3: corrected_label should be one of cat, dog, but is 'cow'"),
        (["1,cat", "1,dog"], "line 3: row 1 is corrected to 'dog', but line 2 says 'cat'; keep one"),
        (["1"], "line 2: the line is shorter than the heading"),
        (['1,"cat'], "not a CSV file"),
    ],
)
def test_corrections_that_make_no_sense_are_refused_by_line(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_corrections(table(tmp_path, "row,corrected_label", *lines), CLASSES, 9)


def test_a_file_that_is_no_such_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="should have the columns corrected_label and row, but has a, b"):
        read_corrections(table(tmp_path, "a,b", "1,2"), CLASSES, 9)
    with pytest.raises(DataError, match="not a CSV file"):
        read_corrections(table(tmp_path), CLASSES, 9)
    (tmp_path / "latin.csv").write_bytes(b"row,corrected_label\r\n1,\xe9\r\n")
    with pytest.raises(DataError, match="should be text in UTF-8"):
        read_corrections(tmp_path / "latin.csv", CLASSES, 9)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="not a regular file"):
        read_corrections(tmp_path / "pipe.csv", CLASSES, 9)


def test_the_same_correction_twice_is_no_contradiction(tmp_path: Path) -> None:
    assert read_corrections(table(tmp_path, "row,corrected_label", "1,cat", "1,cat", "2,"), CLASSES, 9) == {1: 0}


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_spreadsheets_that_part_cells_otherwise_are_read(mark: str, tmp_path: Path) -> None:
    lines = ("name,path,corrected_label", "b.png,x, dog", "c.png,y,")
    path = table(tmp_path, *(line.replace(",", mark) for line in lines))
    assert read_corrections(path, CLASSES, 3, ["a.png", "b.png", "c.png"]) == {1: 1}


def test_integer_labels_are_read_as_they_are_written(tmp_path: Path) -> None:
    assert read_corrections(table(tmp_path, "row,corrected_label", "0,-1", "1,7"), [-1, 7], 9) == {0: 0, 1: 1}


def test_corrections_follow_the_names_of_samples_where_they_have_some(tmp_path: Path) -> None:
    path = table(tmp_path, "row,name,corrected_label", "0,b.png,dog", "1,,cat", "2,'-c.png,dog")
    names = ["new.png", "a.png", "b.png", "-c.png"]
    assert read_corrections(path, CLASSES, 4, names) == {2: 1, 1: 0, 3: 1}
    assert read_corrections(path, CLASSES, 4) == {0: 1, 1: 0, 2: 1}
    with pytest.raises(DataError, match=r"line 2: b\.png is not in this set"):
        read_corrections(path, CLASSES, 4, ["new.png", "a.png", "-c.png"])
    path.write_bytes(corrections_csv({2: 1, 3: 0}, CLASSES, names))
    assert read_corrections(path, CLASSES, 5, ["first.png", *names]) == {3: 1, 4: 0}


@pytest.mark.parametrize("row", [0, 2])
def test_of_samples_with_one_name_the_row_says_which(row: int, tmp_path: Path) -> None:
    path = table(tmp_path, "row,name,corrected_label", f"{row},a.png,dog", "0,b.png,cat")
    assert read_corrections(path, CLASSES, 3, TWICE) == {row: 1, 1: 0}
    for line in ("1,a.png,dog", ",a.png,dog"):
        with pytest.raises(DataError, match=r"line 2: a\.png names several samples \(rows 0, 2\)"):
            read_corrections(table(tmp_path, "row,name,corrected_label", line), CLASSES, 3, TWICE)


def test_corrections_change_labels_and_mark_them_checked() -> None:
    given = np.array([0, 1, 2])
    labels, checked = applied(given, {2: 0, 1: 1})
    assert labels.tolist() == [0, 1, 0]
    assert checked.tolist() == [False, True, True]
    assert given.tolist() == [0, 1, 2]
