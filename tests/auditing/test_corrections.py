"""Which sample a line of corrections means: by its name, by its row where a name is not enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from puridiver.auditing.corrections import corrections_csv, read_corrections
from puridiver.errors import DataError

CLASSES = ["cat", "dog"]
TWICE = ["a.png", "b.png", "a.png"]  # two people labelled the first image


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "corrected.csv"
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.mark.parametrize("row", [0, 2])
def test_of_samples_with_one_name_the_row_says_which(row, tmp_path):
    path = table(tmp_path, "row,name,corrected_label", f"{row},a.png,dog", "0,b.png,cat")
    assert read_corrections(path, CLASSES, 3, TWICE) == {row: 1, 1: 0}  # b.png is one alone: its row does not matter
    path.write_text(corrections_csv({row: 1}, CLASSES, TWICE))
    assert read_corrections(path, CLASSES, 3, TWICE) == {row: 1}


@pytest.mark.parametrize(
    ("head", "line", "told"),
    [
        ("row,name,corrected_label", "1,a.png,dog", r"row '1' is none of them"),
        ("row,name,corrected_label", ",a.png,dog", "the line has no row"),
        ("name,corrected_label", "a.png,dog", "the line has no row"),
    ],
)
def test_a_name_of_several_samples_without_a_row_of_theirs_is_refused(head, line, told, tmp_path):
    message = rf"line 2: a\.png is the name of several samples of this set \(rows 0, 2\), and {told}; say in the column"
    with pytest.raises(DataError, match=message):
        read_corrections(table(tmp_path, head, line), CLASSES, 3, TWICE)


@pytest.mark.parametrize("mark", [",", ";"])
def test_names_will_do_for_rows(mark, tmp_path):
    path = table(tmp_path, f"name{mark}corrected_label", f"b.png{mark}dog", f"c.png{mark}")
    assert read_corrections(path, CLASSES, 3, ["a.png", "b.png", "c.png"]) == {1: 1}


def test_a_table_that_says_no_sample_is_refused(tmp_path):
    path = table(tmp_path, "name,corrected_label", "b.png,dog", ",cat")
    with pytest.raises(DataError, match="but has name, corrected_label; the samples of this set have no names"):
        read_corrections(path, CLASSES, 3)
    with pytest.raises(DataError, match="line 3: there is no name, and the table has no column row"):
        read_corrections(path, CLASSES, 3, TWICE)
    path = table(tmp_path, "corrected_label", "dog")
    with pytest.raises(DataError, match=r"should have the column corrected_label, and name or row \(or both\)"):
        read_corrections(path, CLASSES, 3, TWICE)


def test_a_table_that_is_no_csv_is_told(tmp_path):
    path = table(tmp_path, "row,corrected_label", "1," + "x" * 200_000)
    with pytest.raises(DataError, match="is not a CSV file, or a damaged one: field larger"):
        read_corrections(path, CLASSES, 3)
