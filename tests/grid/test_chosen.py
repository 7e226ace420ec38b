"""Parts of grids that are chosen one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.grid.cells import cells
from puridiver.grid.chosen import chosen_grid
from puridiver.grid.define import find_grid


def told(name: str, **settings) -> list[tuple[str, str, int, str]]:
    found = cells(chosen_grid(name, ["digits"], **settings))
    return [(cell.method.title, cell.column.noise, cell.config.seed, cell.config.recipe) for cell in found]


def test_without_a_choice_it_is_the_whole_grid() -> None:
    assert chosen_grid("table4", ["digits"], [3]) == find_grid("table4", ["digits"], [3])


def test_every_choice_narrows_it() -> None:
    name = "table4?noises=sym40,asym-40&seeds=2,1&methods=alpha 0.1|Adaptive&recipe=paper"
    expected = [
        (title, noise, seed, "paper")
        for seed in (2, 1)
        for title in ("alpha 0.1", "adaptive")
        for noise in ("sym-40", "asym-40")
    ]
    assert told(name) == expected
    assert told("table4?noises=sym-20&methods=adaptive", seeds=[7]) == [("adaptive", "sym-20", 7, "official")]


def test_a_choice_may_be_longer_than_a_file_name() -> None:
    titles = [method.title for method in find_grid("fidelity-official", ["digits"]).methods]
    name = "fidelity-official?noises=asym-40&seeds=3&methods=" + "|".join(titles)
    assert len(name) > 255
    assert told(name) == [(title, "asym-40", 3, "official") for title in titles]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("table4?", "should be chosen as GRID.noises=A,B"),
        ("table4?noise=sym-40", "but got 'noise=sym-40'"),
        ("table4?seeds=", "but got 'seeds='"),
        ("table4?seeds=one", "seeds should be whole numbers, but got 'one'"),
        ("table4?seeds=1&seeds=2", "seeds stands there twice"),
        ("table4?noises=sym-90", "there is no noise 'sym-90' in the grid"),
        ("table4?methods=nix", "there is no method 'nix' in the grid"),
        ("table9?seeds=1", r"a grid should be a \.toml file or one of"),
    ],
)
def test_a_mistake_is_told_with_what_is_allowed(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen_grid(name, ["digits"])


def test_several_parts_are_run_as_one_in_their_order(tmp_path: Path, capsys) -> None:
    names = ["table4?noises=sym-60&methods=adaptive&seeds=5", "table3?noises=sym-20&seeds=4&methods=neither"]
    assert main(["grid", *names, "--data", "digits", "--dry-run", "--out", str(tmp_path / "g"), "--quiet"]) == 0
    lines = [line.split()[2] for line in capsys.readouterr().out.splitlines() if line.startswith("to run")]
    assert [line.rpartition("-")[0] for line in lines] == [
        "digits-blurry-10-sym-60-adaptive-s5", "digits-blurry-10-sym-20-neither-s4"
    ]  # fmt: skip
