from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.report.reading import Run, by_column, find_runs, grouped, load_run, representatives


@pytest.fixture
def copy(grid: Path, tmp_path: Path) -> Path:
    """A run folder that a test may damage."""
    shutil.copytree(grid / "cells" / "plain-0", tmp_path / "run")
    return tmp_path / "run"


def changed(run: Run, settings: dict[str, Any] | None = None, **names: Any) -> Run:
    """The run as one of another config, method or column."""
    config = dataclasses.replace(run.begun.config, **(settings or {}))
    return dataclasses.replace(run, **names, begun=run.begun._replace(config=config))


def test_a_grid_stands_for_its_finished_runs_a_run_counts_once_and_an_unfinished_one_is_a_note(copy, grid) -> None:
    (copy / "summary.json").unlink()
    runs, notes = find_runs([grid, grid / "cells" / "plain-0", copy])
    assert sorted(run.folder.name for run in runs) == ["alpha", "plain-0", "puridiver-0", "puridiver-1"]
    assert len(notes) == 1
    assert str(copy) in notes[0]
    with pytest.raises(DataError, match=r"summary.json; the run is unfinished"):
        find_runs([copy])


@pytest.mark.parametrize("name", ["summary.json", "config.json", "manifest.json", "metrics.jsonl"])
def test_a_damaged_file_is_named(copy: Path, name: str) -> None:
    for content in (b"{", b"[]", b"{}"):
        (copy / name).write_bytes(content)
        with pytest.raises(DataError, match=name):
            load_run(copy)


def test_what_is_no_run_folder_is_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "grid" / "cells").mkdir(parents=True)
    for name, words in (("none", "there is no such folder"), ("file", "cannot be read"), ("grid", "holds no finished")):
        with pytest.raises(DataError, match=words):
            find_runs([tmp_path / name])


def test_runs_that_differ_by_seed_alone_are_one_group_and_labels_name_only_what_differs(grid: Path) -> None:
    groups = grouped(find_runs([grid])[0])
    assert {group.label: [run.seed for run in group.runs] for group in groups} == {
        "PuriDivER": [0, 1], "PuriDivER, alpha=0.3": [0], "RSV + cross-entropy": [0],
    }  # fmt: skip
    one = load_run(grid / "cells" / "puridiver-0")
    other = changed(one, {"holdout": 700}, column="digits none")
    assert [group.label for group in grouped([one, other])] == ["PuriDivER"] * 2
    assert list(representatives([one, other])) == [f"PuriDivER, {run.column}" for run in (one, other)]
    labels = [group.label for group in grouped([one, changed(one, {"holdout": 700})])]
    assert labels == ["PuriDivER, holdout=0", "PuriDivER, holdout=700"]


def test_a_grids_ledger_names_its_runs_and_they_come_in_order_of_their_start(grid: Path, tmp_path: Path) -> None:
    shutil.copytree(grid, tmp_path / "grid")
    with (tmp_path / "grid" / "ledger.jsonl").open("w") as ledger:
        for folder in (tmp_path / "grid" / "cells").iterdir():
            row = json.loads((folder / "summary.json").read_text())
            ledger.write(json.dumps({**row, "method": f"Method {folder.name}", "column": "digits"}) + "\n")
    runs, _ = find_runs([tmp_path / "grid"])
    assert [run.method for run in runs] == [f"Method {run.folder.name}" for run in runs]
    assert {run.column for run in runs} == {"digits"}
    assert [run.summary["started"] for run in runs] == sorted(run.summary["started"] for run in runs)


def test_groups_are_divided_by_column(grid: Path) -> None:
    one = load_run(grid / "cells" / "puridiver-0")
    runs = [changed(one, column=column, method=method) for column in "ab" for method in ("rsv", "rm")]
    found = {title: [(group.label, group.number) for group in part] for title, part in by_column(grouped(runs)).items()}
    assert found == {title: [("rsv", 0), ("rm", 1)] for title in (", a", ", b")}
    assert list(by_column(grouped(runs[:2]))) == [""]
