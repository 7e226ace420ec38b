"""Parts of a grid that several machines ran, put together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.grid import merge as merging
from puridiver.grid.cells import Column, Grid
from puridiver.grid.merge import merge
from puridiver.grid.plan import shard
from puridiver.report.reading import find_runs
from puridiver.report.titles import Title, read_titles, write_titles
from puridiver.runs.folder import read_ledger
from tests.grid.page.samples import write_ledger
from tests.grid.samples import GBS, RSV, TINY, planned_cells, row, small_grid

FILE = '[grid]\nmethods = ["rsv+plain", "gbs+plain"]\nseeds = [1, 2]\n' + "".join(
    f"{name} = {json.dumps(value)}\n" for name, value in TINY.items()
)


def grid(path: Path, out: Path, *more: str) -> int:
    return main(["grid", str(path), "--out", str(out), "--engine", "lanes", "--lanes", "1", *more])


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """A grid of four runs, and the folders of two machines that ran half of it each."""
    folder = tmp_path_factory.mktemp("machines")
    path = folder / "small.toml"
    path.write_text(FILE)
    parts = [folder / "part1", folder / "part2"]
    for number, part in enumerate(parts, start=1):
        assert grid(path, part, "--quiet", "--shard", f"{number}/2") == 0
    return path, parts


def place(folder: Path, rows: list[dict[str, Any]], title: str = "") -> Path:
    """A grid's folder with rows alone."""
    folder.mkdir(parents=True)
    write_ledger(folder / "ledger.jsonl", rows)
    if title:
        write_titles(folder, {found["cell"]: Title(title) for found in rows})
    return folder


def test_shards_have_every_cell_once_and_all_methods_of_a_seed() -> None:
    columns = tuple(Column("digits", "blurry-10", noise, (1, 2, 3), TINY) for noise in ("sym-20", "sym-40"))
    planned = planned_cells(Grid("g", "G", (RSV, GBS), columns))
    parts = [shard(planned, number, 4) for number in (1, 2, 3, 4)]
    assert sorted(p.key for part in parts for p in part) == sorted(p.key for p in planned)
    for part in parts:
        pairs = [(p.cell.column.noise, p.cell.config.seed) for p in part]
        assert all(pairs.count(pair) == 2 for pair in pairs)
    assert [len(part) for part in parts] == [4, 4, 2, 2]
    few = planned_cells(small_grid())  # two seeds
    assert [len(shard(few, number, 3)) for number in (1, 2, 3)] == [2, 1, 1]


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "a/b", "1/0", "-1/2"])
def test_a_shard_that_cannot_be_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["grid", "table1", f"--shard={text}"])
    assert "should be I/N with I from 1 to N, such as 1/3" in capsys.readouterr().err


def test_merged_shards_are_the_whole_grid_with_its_figures(
    shards: tuple[Path, list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, parts = shards
    out = tmp_path / "all"
    before = [sorted(str(file) for file in part.rglob("*")) for part in parts]
    assert main(["merge", *map(str, parts), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 4 runs, 4 of them new\n"
    assert [sorted(str(file) for file in part.rglob("*")) for part in parts] == before
    assert len(find_runs([out])[0]) == 4
    assert {title.text for title in read_titles(out).values()} == {"rsv + plain", "gbs + plain"}
    assert sorted(each.name for each in out.iterdir()) == ["cells", "ledger.jsonl", "titles.json"]
    assert grid(path, out, "--dry-run") == 0
    assert "4 cells: 4 done, 0 failed, 0 to run" in capsys.readouterr().out
    # Again: nothing is new, and nothing is there twice.
    assert main(["merge", *map(str, parts), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 4 runs, 0 of them new\n"
    assert len(read_ledger(out / "ledger.jsonl")) == 4


def test_a_merge_that_was_stopped_goes_on(
    shards: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, parts = shards
    out, whole = tmp_path / "all", shutil.copytree

    def stopped(source: Path, target: Path, **settings: Any) -> None:
        whole(source, target, **settings)
        if len(list(out.glob("cells/*"))) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(merging.shutil, "copytree", stopped)
    with pytest.raises(KeyboardInterrupt):
        merge(parts, out)
    assert len(find_runs([out])[0]) == len(read_ledger(out / "ledger.jsonl")) == 2
    monkeypatch.undo()
    # Killed after a folder had its name and before its row was written: it is known by its summary.
    lines = (out / "ledger.jsonl").read_text().splitlines()
    (out / "ledger.jsonl").write_text(lines[0] + "\n")
    done = merge(parts, out)
    assert (done.total, done.added) == (4, 2)
    assert len({found["cell"] for found in read_ledger(out / "ledger.jsonl")}) == 4
    assert len(list(out.glob("cells/*"))) == 4


def test_a_folder_is_added_to_and_an_unfinished_cell_set_aside(shards: tuple[Path, list[Path]], tmp_path: Path) -> None:
    _, parts = shards
    out = tmp_path / "all"
    shutil.copytree(parts[0], out)
    unfinished = out / "cells" / next((parts[1] / "cells").iterdir()).name
    unfinished.mkdir()
    (unfinished / "config.json").write_text("{}")
    done = merge([out, parts[1]], out)
    assert (done.total, done.added) == (4, 2)
    assert (out / "cells" / f"{unfinished.name}.aside-1" / "config.json").exists()
    with pytest.raises(ValueError, match="there is none but"):
        merge([out], out)


def test_a_run_with_two_results_is_refused_and_nothing_copied(tmp_path: Path) -> None:
    one = place(tmp_path / "a", [row(1, 0.5, versions={"torch": "2.13.0"})])
    other = place(tmp_path / "b", [row(2, 0.5), row(1, 0.6, versions={"torch": "2.11.0"})])
    with pytest.raises(
        DataError, match=r"two results: .*seed 1 came to 50.00% in .*2\.13\.0.* and 60.00% in .*2\.11\.0"
    ):
        merge([one, other], tmp_path / "all", keep_all=True)
    assert not (tmp_path / "all").exists()


def test_the_same_result_on_another_device_is_taken_once_and_others_noted(tmp_path: Path) -> None:
    one = place(tmp_path / "a", [row(1, 0.5)])
    other = place(tmp_path / "b", [row(1, 0.5, device="another CPU", seconds=9.0), row(2, 0.5, device="another CPU")])
    done = merge([one, other], tmp_path / "all")
    assert (done.total, done.added) == (2, 2)
    assert done.notes == [
        "the cifar10 runs are of device a CPU (1) and another CPU (1), mixed in 1 line: another device may give other "
        "figures",
        "2 of 2 runs have no folder: they are in tables, but in no figure or report",
    ]


def test_a_cell_by_other_code_is_refused_unless_all_are_asked_for(tmp_path: Path) -> None:
    one, other = (place(tmp_path / code, [row(1, 0.5, cell=code, code_hash=code)]) for code in ("aaaa", "bbbb"))
    with pytest.raises(DataError, match=r"two states of the code: .* seed 1, code aaaa in .*aaaa and bbbb in .*bbbb"):
        merge([one, other], tmp_path / "all")
    done = merge([one, other], tmp_path / "all", keep_all=True)
    assert done.total == 2
    assert "2 different states of the code" in done.notes[0]


def test_a_cell_with_other_settings_is_refused_unless_all_are_asked_for(tmp_path: Path) -> None:
    made = [
        place(
            tmp_path / str(k), [row(1, 0.5, cell=f"c{k}", config_hash=f"c{k}", settings_hash=f"s{k}", memory=k)], "Mine"
        )
        for k in (60, 100)
    ]
    with pytest.raises(DataError, match=r"two settings: Mine on cifar10, .*\(memory is 60 and 100\)"):
        merge(made, tmp_path / "all")
    assert merge(made, tmp_path / "all", keep_all=True).total == 2


def test_a_joined_ledger_tells_what_figures_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place(tmp_path / "joined", [row(1)])
    assert main(["report", str(tmp_path / "joined")]) == 2
    assert "`puridiver merge` copies both" in capsys.readouterr().err


def test_what_is_no_grid_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["merge", str(tmp_path / "nothing"), "--out", str(tmp_path / "all")]) == 2
    assert "nothing is not there: run `puridiver grid` first" in capsys.readouterr().err


def test_cells_of_one_name_stay_in_one_shard() -> None:
    """Several grids may call methods of other settings by one name."""
    columns = (Column("digits", "blurry-10", "sym-40", (1,), TINY),)
    grids = [Grid(name, name, (RSV, GBS), columns) for name in ("a", "b")]
    planned = [p for grid, memory in zip(grids, (20, 30), strict=True) for p in planned_cells(grid, memory=memory)]
    parts = [shard(planned, number, 2) for number in (1, 2)]
    assert [[p.cell.method.title for p in part] for part in parts] == [[RSV.title] * 2, [GBS.title] * 2]


def test_a_folder_whose_only_run_did_not_reach_its_ledger_is_merged(
    shards: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    part = tmp_path / "part"
    shutil.copytree(shards[1][0], part)
    (part / "ledger.jsonl").unlink()
    assert merge([part], tmp_path / "all").total == 2


def test_the_run_that_has_a_folder_is_copied_without_what_only_a_running_one_needs(
    shards: tuple[Path, list[Path]], tmp_path: Path
) -> None:
    part = tmp_path / "part"
    shutil.copytree(shards[1][0], part)
    for cell in (part / "cells").iterdir():
        (cell / "checkpoint").mkdir(exist_ok=True)
        (cell / "checkpoint" / "index.json").write_text("{}")
        (cell / ".lock").touch()
    merge([part / "ledger.jsonl", part], tmp_path / "all")  # the ledger alone comes first
    copied = list((tmp_path / "all" / "cells").iterdir())
    assert len(copied) == 2
    for cell in copied:
        assert (cell / "summary.json").exists()
        assert not (cell / "checkpoint").exists()
        assert not (cell / ".lock").exists()


def test_streams_made_by_hand_under_one_name_are_told_apart(tmp_path: Path) -> None:
    made = [
        place(
            tmp_path / name,
            [row(1, 0.5, cell=name, settings_hash="s", stream_hash=name, stream="mine-{seed}.json")],
            "Mine",
        )
        for name in ("one", "other")
    ]
    with pytest.raises(DataError, match=r"two settings: Mine .*\(stream_hash is 'one' and 'other'\)"):
        merge(made, tmp_path / "all")
