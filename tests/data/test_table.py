"""Which files a table names, with which labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from puridiver.data import UNKNOWN
from puridiver.data.listing import list_table
from puridiver.errors import DataError

ROWS = [
    {"path": "a.png", "label": "cat", "true_label": "cat", "timestamp": "2024-01-03", "split": "train"},
    {"path": "b.png", "label": "dog", "true_label": "", "timestamp": "2024-01-01T10:00:00+02:00", "split": "train"},
    {"path": "c.png", "label": "cat", "true_label": "owl", "timestamp": "2024-01-01T10:00:00Z", "split": "test"},
    {"path": "d.png", "label": "dog", "true_label": "dog", "timestamp": "1970-01-01T00:16:40Z", "split": "train"},
]
CAPITALS = {"path": "Path", "label": " Label ", "true_label": "True_Label", "timestamp": "Timestamp", "split": "SPLIT"}


def write_table(folder: Path, kind: str, rows: list[dict]) -> Path:
    path = folder / f"table.{kind}"
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(str(v) for v in row.values()) for row in rows)]
        path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path)
    return path


def names(found, column: str = "label") -> list:
    return [UNKNOWN if label == UNKNOWN else found.class_names[label] for label in found.files[column]]


@pytest.mark.parametrize("headings", [{name: name for name in CAPITALS}, CAPITALS], ids=["plain", "capitals"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_table_of_every_kind_says_the_same(kind, headings, tmp_path):
    rows = [{headings[name]: value for name, value in row.items()} for row in ROWS]
    found = list_table(write_table(tmp_path, kind, rows))
    assert found.files["path"].tolist() == ["a.png", "b.png", "d.png", "c.png"]  # test entries last
    assert found.class_names == ("cat", "dog", "owl")
    assert names(found) == ["cat", "dog", "dog", "cat"]
    assert names(found, "true_label") == ["cat", UNKNOWN, "dog", "owl"]
    assert found.files["is_test"].tolist() == [False, False, False, True]
    assert found.files["time"].tolist() == [1704240000.0, 1704096000.0, 1000.0, 1704103200.0]
    assert found.root == tmp_path


@pytest.mark.parametrize("mark", [";", "\t"])
def test_cells_may_be_parted_by_semicolons_or_tabs(mark, tmp_path):
    lines = [("\ufeffpath", "label", "true_label"), ("a,b.png", "a cat", ""), (f'"c{mark}d.png"', "dog", "a cat")]
    (tmp_path / "table.tsv").write_text("".join(mark.join(line) + "\r\n" for line in lines), newline="")
    found = list_table(tmp_path / "table.tsv", 0)
    assert found.files["path"].tolist() == ["a,b.png", f"c{mark}d.png"]
    assert names(found, "true_label") == [UNKNOWN, "a cat"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_labels_may_be_large_numbers_and_true_ones_may_have_gaps(kind, tmp_path):
    large = [2**53 + 1, 2**53, -(2**62), 2**63 - 1]
    rows = [{"path": f"{i}.png", "label": label, "true_label": None} for i, label in enumerate(large)]
    rows[0]["true_label"] = 2**53 + 1
    found = list_table(write_table(tmp_path, kind, rows), 0)
    assert names(found) == [str(label) for label in large]
    assert names(found, "true_label") == [str(2**53 + 1), *[UNKNOWN] * 3]
    assert "time" not in found.files


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("csv", "label\ncat\n", "columns path and label, but has label"),
        ("csv", "path,label\n", "should have rows"),
        ("csv", "pfad;etikett\na.png;cat\n", "columns path and label, but has pfad, etikett"),
        ("csv", "path,label\na.png,cat\nb.png\n", "row 2 .* label should name a class"),
        ("csv", "path,label\na.png,cat,dog\n", "not a CSV file"),
        ("csv", "path,label,label\na.png,cat,dog\n", "same heading"),
        ("csv", "path,label\na.png,\n", "row 1 .* label should name a class"),
        ("csv", "path,label\na.png,cat\nb.png,NaN\n", "row 2 .* label should name a class"),
        ("csv", "path,label,split\na.png,cat,mine\n", "split should be one of train, test"),
        ("csv", "path,label,timestamp\na.png,cat,yesterday\n", "row 1 .* timestamp should be"),
        ("csv", "path,label,timestamp\na.png,cat,7\nb.png,cat,2024-05-01\n", "row 2 .* timestamp should be"),
        ("csv", "path,label,timestamp\na.png,cat,1e999\n", "row 1 .* timestamp should be"),
        ("csv", 'path,label\n"a.png,cat\n', "not a CSV file, or a damaged one"),
        ("csv", "path,label\na.png,ca\0t\n", "no NUL"),
        ("jsonl", '{"path": "a.png"', "row 1 "),
        ("jsonl", "[1]", "row 1 is no JSON object"),
        ("jsonl", '{"a":' * 100_000, "row 1 "),
        ("jsonl", '{"path": "a.png", "label": ["cat"]}', "label should be text or a number"),
        ("jsonl", '{"path": "a.png", "label": "' + "x" * 10**6 + '"}', "1 to 1000 letters"),
        ("jsonl", '{"path": "a", "label": "b", "timestamp": ' + "9" * 400 + "}", "timestamp should be"),
        ("parquet", "no parquet", "not a Parquet file, or a damaged one"),
    ],
)
def test_faults_of_tables_are_told_with_their_row(kind, content, message, tmp_path):
    (tmp_path / f"table.{kind}").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        list_table(tmp_path / f"table.{kind}", 0)
    assert str(tmp_path / f"table.{kind}") in str(caught.value)
    assert len(str(caught.value)) < 500


def test_whole_numbers_are_one_class_however_they_are_written(tmp_path):
    """As pandas writes a column with gaps beside one without."""
    for given, true, expected in (
        (["0", "1", "2", "3"], ["1.0", "nan", "0.0", "4."], ["0", "1", "2", "3", "4"]),
        (["3", "+4", "0", "007"], ["3.0", "missing", "0", ""], ["0", "007", "3", "4", "missing"]),
        (["3", "3.0", "cat"], ["", "", ""], ["3", "3.0", "cat"]),
    ):
        rows = [{"path": "a.png", "label": a, "true_label": b} for a, b in zip(given, true, strict=True)]
        assert sorted(list_table(write_table(tmp_path, "csv", rows), 0).class_names) == expected


@pytest.mark.parametrize("mark", ["NaN", "None", "N/A", "<NA>", "-1", "?", "Unknown"])
def test_marks_of_missing_true_labels_are_no_classes(mark, tmp_path):
    rows = [{"path": f"{i}.png", "label": "ab"[i], "true_label": true} for i, true in enumerate([mark, "a"])]
    found = list_table(write_table(tmp_path, "csv", rows), 0)
    assert found.class_names == ("a", "b")
    assert names(found, "true_label") == [UNKNOWN, "a"]
    rows[0]["label"] = mark
    if mark != "NaN":
        assert names(list_table(write_table(tmp_path, "csv", rows), 0), "true_label") == [mark, "a"]  # a class's name


def test_labels_that_are_no_utf8_are_refused_and_paths_are_not(tmp_path):
    (tmp_path / "table.csv").write_bytes("path,label\nä.png,cat\n".encode("latin-1"))
    assert list_table(tmp_path / "table.csv", 0).files["path"].tolist() == ["\udce4.png"]
    (tmp_path / "table.csv").write_bytes("PATH,true_label,Label\na.png,Äpfel,cat\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a class name should have .* in UTF-8"):
        list_table(tmp_path / "table.csv", 0)
    (tmp_path / "table.csv").write_text("path,label\na.png,cat\n", encoding="utf-16")
    assert list_table(tmp_path / "table.csv", 0).class_names == ("cat",)


def test_times_of_parquet_may_be_timestamps_or_dates(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for values, kind, expected in (
        ([7_000_000_000_123, 0], pyarrow.timestamp("ns"), [7000.0, 0.0]),
        ([1, 0], pyarrow.date32(), [86400.0, 0.0]),
    ):
        table = {"path": ["a.png", "b.png"], "label": ["x", "y"], "timestamp": pyarrow.array(values, kind)}
        parquet.write_table(pyarrow.table(table), tmp_path / "table.parquet")
        assert list_table(tmp_path / "table.parquet", 0).files["time"].tolist() == expected
    table["timestamp"] = pyarrow.array([2**31 - 1, 0], pyarrow.date32())  # beyond the years that Python knows
    parquet.write_table(pyarrow.table(table), tmp_path / "table.parquet")
    with pytest.raises(DataError, match=r"table\.parquet"):
        list_table(tmp_path / "table.parquet", 0)


def test_names_guarded_against_spreadsheets_are_read_as_they_were(tmp_path):
    written = ["'=1+1", "'-1", "'quoted'", "'"]
    (tmp_path / "labels.csv").write_text("path,label\n" + "".join(f"a.png,{name}\n" for name in written))
    assert sorted(list_table(tmp_path / "labels.csv", 0.0).class_names) == sorted(["=1+1", "-1", "'quoted'", "'"])
