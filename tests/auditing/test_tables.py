"""What an audit writes can be read: by people, by spreadsheets without harm, by cleanlab, and by the audit again."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from puridiver.auditing import folder as tables
from puridiver.auditing.folder import corrections_csv, read_corrections
from puridiver.auditing.passes import LabelledSet
from puridiver.auditing.report import AuditReport
from puridiver.errors import DataError
from tests.auditing.samples import CLASSES

EVIL = ["=HYPERLINK(1)", '猫, "cat"', "-1+2\nline"]


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "corrected.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode())
    return path


def samples(n: int, names: list[str] | None = None, classes: list | None = None, **more) -> LabelledSet:
    return LabelledSet(torch.zeros(n, 8, 8, 1), np.zeros(n, dtype=int), classes or CLASSES, names, **more)


@pytest.fixture(scope="module")
def evil(report: AuditReport) -> AuditReport:
    return dataclasses.replace(report, classes=EVIL, names=None)


def test_the_tables_hold_the_judgements(evil: AuditReport, tmp_path: Path) -> None:
    tables.write_tables(evil, tmp_path)
    content = (tmp_path / "suspects.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")  # a mark for spreadsheets: its letters need one
    rows = read(content)
    assert tuple(rows[0]) == tables.SUSPECT_COLUMNS
    for row, judgement in zip(rows, evil.suspects(), strict=True):
        assert int(row["row"]) == judgement.row
        assert float(row[tables.PROBABILITY]) == pytest.approx(judgement.p_correct, abs=1e-6)
        assert row["given_label"].removeprefix("'") == judgement.given_label
        assert row["corrected_label"] == ""
    assert len(read((tmp_path / "labels.csv").read_bytes())) == 150
    arrays = np.load(tmp_path / "cleanlab.npz")
    assert np.allclose(arrays["pred_probs"].sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(arrays["labels"], evil.given)


def test_cleanlab_reads_it(report: AuditReport, tmp_path: Path) -> None:
    filters = pytest.importorskip("cleanlab.filter", reason="needs cleanlab", exc_type=ImportError)
    tables.write_tables(report, tmp_path)
    found = filters.find_label_issues(**np.load(tmp_path / "cleanlab.npz"), n_jobs=1)
    assert (report.p_correct[found] < 0.5).mean() > 0.8


def test_labels_csv_says_what_was_changed_and_where_the_images_are(report: AuditReport) -> None:
    given = report.given.copy()
    given[0] = (given[0] + 1) % 3
    table = tables.labels_table(dataclasses.replace(report, given=given, checked=np.arange(150) == 0), "../images")
    first = table.iloc[0]
    assert (first.label, first.original_label) == (CLASSES[given[0]], CLASSES[report.given[0]])
    assert (first.checked, first.path, len(table)) == (True, "../images/-img/0.png", 150)


def test_the_list_comes_back_with_the_corrections_that_were_filled_in(evil: AuditReport, tmp_path: Path) -> None:
    frame = tables.suspects_table(evil)
    frame.loc[0, "corrected_label"], frame.loc[1, "corrected_label"] = frame.suggested_label[0], frame.given_label[1]
    path = tmp_path / "corrected.csv"
    path.write_bytes(b"\xef\xbb\xbf" + tables.csv_bytes(frame))  # as a spreadsheet saves it
    first, second = evil.suspect_rows()[:2].tolist()
    expected = {first: int(evil.suggested[first]), second: int(evil.given[second])}
    assert read_corrections(path, samples(150, classes=EVIL)) == expected
    path.write_bytes(corrections_csv(samples(150, classes=EVIL, corrections=expected)))
    assert read_corrections(path, samples(150, classes=EVIL)) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["9,cat"], "line 2: row should be one of 0, 1, .*, but is '9'"),
        (["x,cat"], "line 2: row should be one of"),
        (["1" * 5_000 + ",cat"], "line 2: row should be one of"),
        (["1,cat", "2,cow"], "line 3: corrected_label should be one of cat, dog, owl, but is 'cow'"),
        (["1,cat", "1,dog"], "line 3: row 1 is 'dog' here"),
        (["1,cat,dog"], "not a CSV file"),
        (['1,"cat'], "not a CSV file"),
    ],
)
def test_corrections_that_make_no_sense_are_refused_by_line(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_corrections(table(tmp_path, "row,corrected_label", *lines), samples(9))


def test_a_file_that_is_no_such_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_bytes(b"a,b\r\n1,2\r\n")
    (tmp_path / "empty.csv").write_bytes(b"\r\n")
    (tmp_path / "latin.csv").write_bytes(b"row,corrected_label\r\n1,\xe9\r\n")
    os.mkfifo(tmp_path / "pipe.csv")
    for name, message in (
        ("other", "the columns corrected_label and row, but has a, b"), ("empty", "not a CSV file"),
        ("latin", "should be one of"), ("pipe", "not a regular file"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            read_corrections(tmp_path / f"{name}.csv", samples(9))


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_spreadsheets_that_part_cells_otherwise_are_read(mark: str, tmp_path: Path) -> None:
    lines = ("name,path,corrected_label", "b.png,x, dog", "b.png,x,dog", "c.png,y,")
    path = table(tmp_path, *(line.replace(",", mark) for line in lines))
    assert read_corrections(path, samples(3, ["a.png", "b.png", "c.png"])) == {1: 1}


def test_corrections_follow_the_names_of_samples_where_they_have_some(tmp_path: Path) -> None:
    path = table(tmp_path, "row,name,corrected_label", "0,b.png,dog", "1,,cat", "2,'-c.png,dog")
    names = ["new.png", "a.png", "b.png", "-c.png"]
    assert read_corrections(path, samples(4, names)) == {2: 1, 1: 0, 3: 1}
    assert read_corrections(path, samples(4)) == {0: 1, 1: 0, 2: 1}
    with pytest.raises(DataError, match=r"line 2: b\.png is not in this set"):
        read_corrections(path, samples(3, ["new.png", "a.png", "-c.png"]))
    path.write_bytes(corrections_csv(samples(4, names, corrections={2: 1, 3: 0})))
    assert read_corrections(path, samples(5, ["first.png", *names])) == {3: 1, 4: 0}


@pytest.mark.parametrize("row", [0, 2])
def test_of_samples_with_one_name_the_row_says_which(row: int, tmp_path: Path) -> None:
    twice = samples(3, ["a.png", "b.png", "a.png"])  # two people labelled the first image
    path = table(tmp_path, "row,name,corrected_label", f"{row},a.png,dog", "0,b.png,cat")
    assert read_corrections(path, twice) == {row: 1, 1: 0}
    for line in ("1,a.png,dog", ",a.png,dog"):
        with pytest.raises(DataError, match="line 2: row should be one of 0, 2, but is"):
            read_corrections(table(tmp_path, "row,name,corrected_label", line), twice)
