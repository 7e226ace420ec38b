"""What an audit writes can be read: by people, by spreadsheets without harm, by cleanlab."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest

import puridiver
from puridiver.auditing import tables
from puridiver.auditing.corrections import applied, corrections_csv, read_corrections
from puridiver.auditing.report import AuditReport, Judgement
from puridiver.errors import DataError
from tests.auditing.samples import QUICK, planted

EVIL = ["=HYPERLINK(1)", '猫, "cat"', "-1+2\nline"]


@pytest.fixture(scope="module")
def report() -> AuditReport:
    images, given, _ = planted(n=90)
    return puridiver.audit(images, [EVIL[c] for c in given.tolist()], classes=EVIL, **QUICK)


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_suspects_are_listed_with_all_that_was_promised(report):
    rows = read(tables.suspects_csv(report.suspects()))
    assert tuple(rows[0]) == tables.SUSPECT_COLUMNS
    assert [int(row["row"]) for row in rows] == report.suspect_rows().tolist()
    for row, judgement in zip(rows, report.suspects(), strict=True):
        assert float(row["probability_given_label_is_right"]) == pytest.approx(judgement.p_correct, abs=1e-6)
        assert row["given_label"].removeprefix("'") == judgement.given_label
        assert row["corrected_label"] == ""


def test_the_list_has_a_mark_for_spreadsheets_where_its_letters_need_one(tmp_path):
    plain, marked = (
        tables.for_spreadsheets(tables.suspects_csv([Judgement(0, "a", given, "dog", 0.1, "why")]))
        for given in ("cat", "Käse")
    )
    assert plain.startswith(b"row,")
    assert marked.decode("utf-8-sig").startswith("row,")
    assert marked.startswith(b"\xef\xbb\xbf")
    path = tmp_path / "filled-in.csv"
    path.write_bytes(marked.replace(b"why,\r\n", "why,Käse\r\n".encode()))
    assert read_corrections(path, ("dog", "Käse"), 1) == {0: 1}


def test_the_written_list_is_the_one_for_spreadsheets(tmp_path):
    images, given, _ = planted(n=90)
    names = ("Käse", "dog", "cat")
    report = puridiver.audit(images, [names[c] for c in given.tolist()], classes=names, **QUICK)
    tables.write_tables(report, tmp_path)
    assert "Käse" in (tmp_path / tables.SUSPECTS).read_text(encoding="utf-8-sig")
    assert (tmp_path / tables.SUSPECTS).read_bytes() == tables.for_spreadsheets(tables.suspects_csv(report.suspects()))
    assert (tmp_path / tables.LABELS).read_bytes().startswith(b"row,")


def test_no_cell_starts_a_formula():
    evil = [Judgement(0, "@SUM(A1)", "=1+1", "+x", 0.1, "\tbecause"), Judgement(1, "-", -3, 4, 0.2, "fine")]
    first, second = read(tables.suspects_csv(evil))
    texts = [first[name] for name in ("name", "given_label", "suggested_label", "why")]
    assert texts == ["'@SUM(A1)", "'=1+1", "'+x", "'\tbecause"]
    assert second["given_label"] == "-3"  # a number, not text


def test_the_folder_for_cleanlab_is_in_its_form(report, tmp_path):
    tables.write_tables(report, tmp_path)
    probabilities = np.load(tmp_path / "cleanlab" / "pred_probs.npy", allow_pickle=False)
    labels = np.load(tmp_path / "cleanlab" / "labels.npy", allow_pickle=False)
    assert probabilities.shape == (90, 3)
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert np.array_equal(labels, report.given)
    rows = read((tmp_path / "cleanlab" / "label_issues.csv").read_text())
    assert list(rows[0]) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    assert [row["is_label_issue"] for row in rows] == [str(bool(p < 0.5)) for p in report.p_correct]
    assert len(read((tmp_path / "labels.csv").read_text())) == 90


def test_cleanlab_reads_it(report, tmp_path):
    filters = pytest.importorskip("cleanlab.filter", reason="needs cleanlab", exc_type=ImportError)
    tables.write_tables(report, tmp_path)
    probabilities, labels = (np.load(tmp_path / "cleanlab" / f"{n}.npy") for n in ("pred_probs", "labels"))
    issues = filters.find_label_issues(labels, probabilities, n_jobs=1)
    assert issues.sum() > 0
    assert (report.p_correct[issues] < 0.5).mean() > 0.8


def corrected(tmp_path: Path, *lines: str, head: str = "row,corrected_label") -> Path:
    path = tmp_path / "corrected.csv"
    path.write_bytes("\r\n".join([head, *lines, ""]).encode())
    return path


def test_the_list_comes_back_with_the_corrections_that_were_filled_in(report, tmp_path):
    rows = read(tables.suspects_csv(report.suspects()))
    rows[0]["corrected_label"], rows[1]["corrected_label"] = rows[0]["suggested_label"], rows[1]["given_label"]
    text = io.StringIO()
    writer = csv.DictWriter(text, tables.SUSPECT_COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    path = tmp_path / "corrected.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text.getvalue().encode())  # as a spreadsheet saves it
    first, second = report.suspect_rows()[:2].tolist()
    expected = {first: int(report.suggested[first]), second: int(report.given[second])}
    assert read_corrections(path, EVIL, 90) == expected
    again = tmp_path / "again.csv"
    again.write_bytes(corrections_csv(expected, EVIL).encode())
    assert read_corrections(again, EVIL, 90) == expected


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["9,cat"], "line 2: row should be from 0 to 8, but is '9'"),
        (["x,cat"], "line 2: row should be from 0 to 8, but is 'x'"),
        (["1,cat", "2,cow"], "line 3: corrected_label should be one of cat, dog, but is 'cow'"),
        (["1,cat", "1,dog"], "line 3: row 1 is corrected to 'dog', but line 2 says 'cat'; keep one"),
        (["1"], "line 2: the line is shorter than the heading"),
    ],
)
def test_corrections_that_make_no_sense_are_refused_by_line(lines, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read_corrections(corrected(tmp_path, *lines), ["cat", "dog"], 9)


def test_a_table_without_the_columns_is_refused(tmp_path):
    with pytest.raises(DataError, match="should have the columns row and corrected_label, but has a, b"):
        read_corrections(corrected(tmp_path, head="a,b"), ["cat"], 9)
    (tmp_path / "latin.csv").write_bytes(b"row,corrected_label\r\n1,\xe9\r\n")
    with pytest.raises(DataError, match="should be text in UTF-8"):
        read_corrections(tmp_path / "latin.csv", ["cat"], 9)


def test_the_same_correction_twice_is_no_contradiction(tmp_path):
    assert read_corrections(corrected(tmp_path, "1,cat", "1,cat", "2,"), ["cat", "dog"], 9) == {1: 0}


@pytest.mark.parametrize("mark", [";", "\t"])
def test_spreadsheets_that_part_cells_otherwise_are_read(mark, tmp_path):
    text = "row,path,corrected_label\r\n1,x,dog\r\n2,y,\r\n".replace(",", mark)
    (tmp_path / "corrected.csv").write_text(text, newline="")
    assert read_corrections(tmp_path / "corrected.csv", ["cat", "dog"], 9) == {1: 1}


def test_integer_labels_are_read_as_they_are_written(tmp_path):
    assert read_corrections(corrected(tmp_path, "0,-1", "1,7"), [-1, 7], 9) == {0: 0, 1: 1}


def test_corrections_change_labels_and_mark_them_checked():
    given = np.array([0, 1, 2])
    labels, checked = applied(given, {2: 0, 1: 1})
    assert labels.tolist() == [0, 1, 0]
    assert checked.tolist() == [False, True, True]
    assert given.tolist() == [0, 1, 2]


def test_labels_csv_tells_what_was_changed(report):
    labels, checked = applied(report.original, {0: 1})
    text = tables.labels_csv(dataclasses.replace(report, given=labels, checked=checked))
    first = read(text)[0]
    assert first["label"] == EVIL[1]
    assert first["checked"] == "True"


def test_corrections_follow_the_names_of_samples_where_they_have_some(tmp_path):
    path = tmp_path / "corrected.csv"
    path.write_text("row,name,corrected_label\n0,b.png,dog\n1,,cat\n2,'-c.png,dog\n")
    classes, names = ["cat", "dog"], ["new.png", "a.png", "b.png", "-c.png"]
    assert read_corrections(path, classes, 4, names) == {2: 1, 1: 0, 3: 1}
    assert read_corrections(path, classes, 4) == {0: 1, 1: 0, 2: 1}
    with pytest.raises(DataError, match=r"line 2: b\.png is not in this set"):
        read_corrections(path, classes, 4, ["new.png", "a.png", "-c.png"])
    path.write_bytes(corrections_csv({2: 1, 3: 0}, classes, names).encode())
    assert read_corrections(path, classes, 5, ["first.png", *names]) == {3: 1, 4: 0}
