"""Every preset: that it is what the paper has, and that it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from puridiver.data import load
from puridiver.grid.presets import PRESETS
from puridiver.grid.spec import cells, find_grid
from puridiver.grid.table import paper_figure
from puridiver.recipes import recipe as recipe_options
from puridiver.runs.resolve import resolve


@pytest.mark.parametrize("name", PRESETS)
def test_the_digits_size_is_valid_and_every_run_of_it_another(name: str) -> None:
    wanted = cells(find_grid(name, ["digits"]))
    assert len({cell.slug for cell in wanted}) == len(wanted) > 0
    assert len(set(map(repr, (cell.config for cell in wanted)))) == len(wanted)
    chosen = {(cell.config.stream_limit, cell.config.test_limit, cell.config.recipe) for cell in wanted}
    assert chosen == {(None, None, "official")}


@pytest.mark.parametrize(
    ("name", "methods", "noises"),
    [("table1", 13, 5), ("table2", 13, 1), ("table3", 4, 5), ("table4", 6, 5), ("disjoint", 4, 5)],
)
def test_a_table_has_the_rows_and_columns_of_the_paper(name: str, methods: int, noises: int) -> None:
    grid = find_grid(name)
    assert len(grid.methods) == methods
    for column in grid.columns:
        assert len([other for other in grid.columns if other.data == column.data]) == noises
        for method in grid.methods:
            assert paper_figure(PRESETS[name].paper, column.data, method.title, column.noise or "")[0] > 0


def test_spr_and_its_parts_have_the_published_settings() -> None:
    found = {cell.method: cell.config for cell in cells(find_grid("disjoint", ["cifar10"]))}
    assert list(found) == ["Self-Centered filter", "Self-Replay", "SPR", "PuriDivER"]
    assert {config.memory for config in found.values()} == {1000}
    for title, filters, base_epochs in (
        ("Self-Centered filter", True, 0),
        ("Self-Replay", False, 3000),
        ("SPR", True, 3000),
    ):
        config = found[title]
        options = resolve(config, load("digits")).options
        assert (config.sampler, config.trainer) == ("spr", "spr")
        assert (options.spr_filter, options.spr_base_epochs, options.spr_expert_epochs) == (filters, base_epochs, 4000)
        assert (options.epochs, options.batch_size, options.finetune_lr, options.finetune_clip) == (50, 16, 2e-3, 0.5)
    assert recipe_options("puridiver").spr_budget == 1


def test_the_published_streams_are_used_where_there_are_some() -> None:
    streams = {cell.config.stream for cell in cells(find_grid("table1", ["cifar10"], [1, 2], official=True))}
    assert {"official:sym20:1:shuffled", "official:asym40:2:shuffled"} <= streams
    assert all(stream.startswith("official:") for stream in streams)
    web = {cell.config.stream for cell in cells(find_grid("table2", ["webvision", "food101n"], [1, 2], official=True))}
    assert web == {"official:none:1:shuffled", "official:none:2:shuffled"}
    for name, data in (("disjoint", "cifar10"), ("table1", "digits")):
        generated = {cell.config.stream for cell in cells(find_grid(name, [data], official=True))}
        assert generated == {PRESETS[name].stream}


@pytest.mark.parametrize(
    ("name", "data", "official", "expected"),
    [
        ("table1", "cifar100", False, "pairs"),
        ("table1", "cifar100", True, None),
        ("table1", "cifar10", False, None),
        ("disjoint", "cifar10", False, "spr-cifar10"),
    ],
)
def test_asymmetric_noise_is_that_of_the_papers_protocol(
    name: str, data: str, official: bool, expected: str | None
) -> None:
    for cell in cells(find_grid(name, [data], [1], official)):
        assert cell.config.noise_map == (expected if "asym" in cell.column else None)


@pytest.mark.parametrize(("recipe", "other"), [("official", "paper"), ("paper", "official")])
def test_the_fidelity_study_switches_every_difference_once(recipe: str, other: str) -> None:
    """All rows together lead from one recipe to the other; none is switched twice or forgotten."""
    grid = find_grid(Path(__file__).parents[2] / "experiments" / f"fidelity-{recipe}" / "study.toml")
    rows = [method.settings for method in grid.methods[1:]]
    assert all(rows)
    assert sum(map(len, rows)) == len({name for row in rows for name in row})
    together = {name: value for row in rows for name, value in row.items()}
    assert recipe_options(recipe, **together) == recipe_options(other)
    assert {cell.config.recipe for cell in cells(grid)} == {recipe}
