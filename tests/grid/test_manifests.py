"""Grids of ready-made streams: their noise is their own, and they are known by what they hold."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from puridiver.data import load
from puridiver.errors import DataError
from puridiver.grid.against import against
from puridiver.grid.cells import Grid, cells
from puridiver.grid.define import read_grid, with_methods, with_noises
from puridiver.grid.plan import Sources, done_rows, plan
from puridiver.grid.table import column_title, make_table
from puridiver.report import summarise
from puridiver.streams import make_stream
from tests.grid.samples import rows_of

METHODS = 'methods = ["rsv+plain", "gbs+plain"]'


def make_manifest(path: Path, noise: str, seed: int = 0) -> str:
    path.parent.mkdir(exist_ok=True)
    make_stream(load("digits"), noise=noise, seed=seed).save(path)
    return str(path)


def grid_of(folder: Path, streams: list[str], more: str = "seeds = [0, 1]") -> Grid:
    path = folder / "mine.toml"
    path.write_text(f"[grid]\ndiversity = false\nstreams = {streams}\n{METHODS}\n{more}\n")
    return read_grid(path)


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Manifests of two noises with the same name."""
    return [
        make_manifest(tmp_path / name / "manifest.json", noise) for name, noise in (("x", "sym-20"), ("y", "sym-60"))
    ]


def test_columns_have_the_noise_of_their_manifests(tmp_path: Path, two: list[str]) -> None:
    grid = grid_of(tmp_path, two)
    (block,) = make_table(grid, []).blocks
    assert [column_title(column, block) for column in block.columns] == [f"{two[0]}, sym-20", f"{two[1]}, sym-60"]


def test_manifests_of_one_name_are_told_apart_by_their_content(tmp_path: Path, two: list[str]) -> None:
    grid = grid_of(tmp_path, two)
    rows = rows_of(grid, lambda cell: 0.2 if cell.column.noise == "sym-20" else 0.6)
    (block,) = make_table(grid, rows).blocks
    assert [[entry.ours for entry in line] for _, line in block.lines] == [["20.0 ± 0.0 (2)", "60.0 ± 0.0 (2)"]] * 2
    lines, notes = against(grid, rows, "rsv + plain")
    assert any("all seeds of a manifest learn from one stream" in note for note in notes)
    assert [(line.where[1], line.where[2], line.pairs) for line in lines] == [
        (two[0], "sym-20", "2"), (two[1], "sym-60", "2"),
    ]  # fmt: skip


def test_a_manifest_that_was_moved_is_still_that_of_its_runs(tmp_path: Path, two: list[str]) -> None:
    rows = rows_of(grid_of(tmp_path, two))
    shutil.move(two[0], tmp_path / "other.json")
    (block,) = make_table(grid_of(tmp_path, [str(tmp_path / "other.json")]), rows).blocks
    assert [line[0].seeds for _, line in block.lines] == [2, 2]


def test_a_manifest_is_not_crossed_with_noises(tmp_path: Path, two: list[str]) -> None:
    with pytest.raises(
        DataError, match=r"x/manifest\.json, which is already made, with its own noise: leave noises out"
    ):
        grid_of(tmp_path, two, 'noises = ["none", "sym-20"]')


def test_a_stream_is_not_named_twice_whatever_it_is_called(tmp_path: Path, two: list[str]) -> None:
    copy = str(shutil.copy(two[0], tmp_path / "copy.json"))
    with pytest.raises(DataError, match=r"streams has .*copy\.json', which are one"):
        grid_of(tmp_path, [*two, copy])
    with pytest.raises(DataError, match="streams has 'disjoint' twice"):
        grid_of(tmp_path, ["disjoint", "disjoint"])


def test_a_manifest_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"streams names nowhere\.json, which is not there"):
        grid_of(tmp_path, ["nowhere.json"])


def test_each_seed_may_have_a_manifest(tmp_path: Path) -> None:
    paths = [make_manifest(tmp_path / f"s-{seed}.json", "sym-40", seed) for seed in (0, 1)]
    grid = grid_of(tmp_path, [str(tmp_path / "s-{seed}.json")])
    planned = plan(cells(grid), Sources())
    assert len({p.stream_hash for p in planned}) == 2
    rows = rows_of(grid, lambda cell: 0.2 + cell.config.seed / 10)
    (block,) = make_table(grid, rows).blocks
    assert [line[0].ours for _, line in block.lines] == ["25.0 ± 7.1 (2)"] * 2
    assert make_table(grid, rows).notes == ("last accuracy %, mean ± standard deviation (seeds)",)
    assert [line[-2] for line in summarise(rows)] == ["2", "2"]  # a plain table averages them, too
    # A run that named its manifest by itself is the same run.
    named = grid_of(tmp_path, paths[1:], "seeds = [1]")
    mixed = [row for row in rows if row["seed"] == 0] + rows_of(named, lambda cell: 0.3)
    assert len(done_rows(planned, mixed, any_code=False)) == 4
    (block,) = make_table(grid, mixed).blocks
    assert [line[0].ours for _, line in block.lines] == ["25.0 ± 7.1 (2)"] * 2


@pytest.mark.parametrize("stream", ["s.json", "s-{seed}.json"])
def test_runs_of_a_manifest_that_was_edited_are_counted(tmp_path: Path, stream: str) -> None:
    paths = [tmp_path / name for name in dict.fromkeys(stream.replace("{seed}", str(seed)) for seed in (0, 1))]
    for seed, path in enumerate(paths):
        make_manifest(path, "sym-40", seed)
    grid = grid_of(tmp_path, [str(tmp_path / stream)])
    rows = rows_of(grid)
    assert not any("not shown" in note for note in make_table(grid, rows).notes)
    for seed, path in enumerate(paths):
        make_manifest(path, "sym-40", seed + 7)
    table = make_table(grid_of(tmp_path, [str(tmp_path / stream)]), rows)
    told = f"4 digits runs are of another manifest or noise matrix than what {stream} has now and not shown"
    assert any(note.startswith(told) for note in table.notes)
    assert "- no run of these settings and this code" in table.notes
    part = with_methods([grid_of(tmp_path, [str(tmp_path / stream)])], ["rsv + plain"])[0]
    assert any(note.startswith("2 digits runs are of another manifest") for note in make_table(part, rows).notes)


def test_runs_of_a_noise_matrix_that_was_edited_are_counted(tmp_path: Path) -> None:
    def grid_with(right: float) -> Grid:
        wrong = (1 - right) / 9
        lines = [",".join(str(right if i == j else wrong) for j in range(10)) for i in range(10)]
        (tmp_path / "T.csv").write_text("\n".join(lines))
        return grid_of(tmp_path, ["blurry-10"], f'seeds = [0]\nnoises = ["sym-40", "matrix:{tmp_path}/T.csv"]')

    rows = rows_of(grid_with(0.8))
    assert len(rows) == 4
    again = grid_with(0.8)
    assert not any("matrix" in note for note in make_table(again, rows).notes)
    edited = grid_with(0.7)
    told = "2 digits runs are of another manifest or noise matrix than what T.csv has now and not shown"
    assert any(note.startswith(told) for note in make_table(edited, rows).notes)
    without = with_noises([edited], ["sym-40"])[0]
    assert not any("matrix" in note for note in make_table(without, rows).notes)


def test_manifests_of_all_seeds_have_one_noise(tmp_path: Path) -> None:
    for seed, noise in enumerate(("sym-40", "sym-60")):
        make_manifest(tmp_path / f"s-{seed}.json", noise, seed)
    with pytest.raises(DataError, match=r"same noise for all seeds, but has sym-40 in .*s-0\.json and sym-60 in .*s-1"):
        grid_of(tmp_path, [str(tmp_path / "s-{seed}.json")])
