"""Tables of runs by several versions of torch, or on several devices, say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from puridiver.cli import main
from puridiver.grid.against import against
from puridiver.grid.define import read_grid
from puridiver.grid.detail import detail
from puridiver.grid.table import make_table
from puridiver.report import summarise
from puridiver.report.environments import environment_notes
from puridiver.report.table import summary_notes
from tests.grid.ledger_samples import write_ledger
from tests.grid.samples import row

NEWER, OLDER = {"torch": "2.13.0+cpu"}, {"torch": "2.11.0"}
MIXED = "the digits runs are of torch 2.11.0 (1) and 2.13.0+cpu (2), mixed in 1 {}: another torch gives other figures"


def digits(seed: int, **changes: Any) -> dict[str, Any]:
    base = {"data": "digits", "sampler": "rsv", "trainer": "plain", "memory": 100, "network": "small", "epochs": 31}
    return row(seed, 0.5 + seed / 100, **{**base, "versions": NEWER, **changes})


ROWS = [digits(0), digits(1), digits(2, versions=OLDER)]


def test_runs_of_one_version_and_device_need_no_note() -> None:
    more_threads = digits(1, device="x86_64 CPU, 2 threads")
    assert environment_notes([[digits(0, device="x86_64 CPU, 1 thread"), more_threads]]) == []
    elsewhere = row(0, versions=OLDER, device="a GPU")  # other data, which have a table of their own
    assert environment_notes([[digits(0)], [elsewhere]]) == []


def test_a_mean_over_versions_says_which_and_how_many() -> None:
    assert environment_notes([ROWS]) == [MIXED.format("mean")]
    assert environment_notes([ROWS[:2], ROWS[2:]])[0].endswith(
        "never mixed in one mean: another torch gives other figures"
    )
    assert environment_notes([[digits(0), digits(1, versions={})]])[0].startswith(
        "the digits runs are of torch 2.13.0+cpu (1) and of a version that is not told (1), mixed in 1 mean"
    )


def test_a_mean_over_devices_says_so() -> None:
    (note,) = environment_notes([[digits(0, device="GPU one"), digits(1, device="GPU two")]])
    told = "the digits runs are of device GPU one (1) and GPU two (1), mixed in 1 mean"
    assert note == f"{told}: another device may give other figures"


def test_a_plain_table_has_the_note_below(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ledger(tmp_path / "a.jsonl", ROWS)
    for form, line in (("text", MIXED + "."), ("markdown", MIXED + "."), ("latex", "% " + MIXED)):
        assert main(["table", str(tmp_path / "a.jsonl"), "--format", form]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == line.format("line")
    assert main(["table", str(tmp_path / "a.jsonl"), "--format", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert summary_notes(ROWS[:2]) == []


def test_the_tables_of_a_grid_have_it_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[grid]\nmethods = ["rsv+plain", "gbs+plain"]\nseeds = [0, 1, 2]\n')
    grid = read_grid(path)
    rows = [*ROWS, *(digits(seed, sampler="gbs") for seed in (0, 1, 2))]
    told = (
        "the digits runs are of torch 2.11.0 (1) and 2.13.0+cpu (5), mixed in 1 {}: another torch gives other figures"
    )
    assert told.format("mean") in make_table(grid, rows).notes
    assert told.format("mean") in detail(grid, rows)[1]
    assert told.format("comparison") in against(grid, rows, "rsv + plain")[1]


@pytest.mark.parametrize(
    ("change", "mark"),
    [({"device": "NVIDIA H200"}, ", device cuda"), ({"noise_map": "pairs"}, ", noise map pairs"),
     ({"graphs": True}, ", graphs yes")],
)  # fmt: skip
def test_lines_that_are_split_say_by_what(change: dict[str, Any], mark: str) -> None:
    first, second = summarise([digits(0), digits(1, **change)])
    assert first != second
    assert second[3].endswith(mark)
