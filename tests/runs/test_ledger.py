"""The ledger: rows are added whole, read together, and checked once with file, line and field named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.metrics import METRICS
from puridiver.runs.ledger import FIELDS, NEEDED, append_row, check_ledger, read_ledgers, read_lines
from tests.runs.samples import experiment, tiny_config


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    return experiment(tiny_config(epochs=1, noise="asym-20")).run()


def test_a_row_is_flat_and_names_grid_method_and_column(row, tmp_path):
    assert (row["grid"], row["method"], row["column"]) == (None, "puridiver + puridiver", "digits asym-20")
    assert set(METRICS) <= set(row)
    assert set(NEEDED) <= set(FIELDS) & set(row)
    append_row(tmp_path / "deep" / "ledger.jsonl", row)
    (read,) = read_ledgers([tmp_path / "deep" / "ledger.jsonl"])
    assert read == json.loads(json.dumps(read))
    assert read["options"] == row["options"]


def test_several_ledgers_are_read_as_one_and_a_row_can_be_added_once(row, tmp_path):
    for name, seeds in (("a", (0, 1)), ("b", (2,))):
        for seed in seeds:
            append_row(tmp_path / name, {**row, "seed": seed, "method": "one\u2028two"})  # no line's end in JSON
    append_row(tmp_path / "b", {**row, "seed": 2, "method": "one\u2028two"}, once=True)
    assert [found["seed"] for found in read_ledgers([tmp_path / "a", tmp_path / "b"])] == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 2, is damaged"), ("[" * 100_000, "line 2, is damaged"), ("3", "line 2, is damaged"),
        ('{"a": ' + "9" * 5000 + "}", "line 2, is damaged"), ("{}", "line 2 .* lacks id"),
    ],
    ids=["cut", "deep", "no object", "huge", "empty"],
)  # fmt: skip
def test_a_damaged_line_is_named(text, message, row, tmp_path):
    path = tmp_path / "ledger.jsonl"
    append_row(path, row)
    with path.open("a") as file:
        file.write(text + "\n")
    with pytest.raises(DataError, match=rf"ledger\.jsonl, {message}"):
        read_ledgers([path])


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": "0"}, {"seed": True}, {"grid": 3}, {"last_accuracy": "high"}, {"last_accuracy": 10**400},
        {"options": []}, {"task_accuracy": [0.5, "x"]}, {"memory_purity": [1]}, {"seconds": None},
    ],
    ids=lambda wrong: str(wrong)[:30],
)  # fmt: skip
def test_a_wrong_type_is_named_with_its_line_and_field(wrong, row, tmp_path):
    path = tmp_path / "ledger.jsonl"
    append_row(path, row)
    append_row(path, {**row, **wrong})
    with pytest.raises(DataError, match=rf"line 2 is damaged: {next(iter(wrong))} should"):
        read_ledgers([path])


def test_what_cannot_be_a_ledger_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary\n")
    (tmp_path / "picture").write_bytes(b"\xff\xfe\x00")
    for name, message in (("", "not a regular file"), ("notes.txt", "line 1"), ("picture", "not a ledger")):
        with pytest.raises(DataError, match=message):
            check_ledger(tmp_path / name)
    check_ledger(tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists()
    with pytest.raises(DataError, match="there is no ledger"):
        read_lines(tmp_path / "nowhere.jsonl")
