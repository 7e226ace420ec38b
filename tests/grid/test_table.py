"""Tables of grids, against a hand-made ledger and figures worked out by hand."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest

from puridiver.grid.cells import Method
from puridiver.grid.define import find_grid, grid_of_table
from puridiver.grid.measures import METRICS
from puridiver.grid.table import FORMATS, GridTable, make_table, paper_figures
from puridiver.grid.verdicts import deviation_of, runs_of, value_of
from tests.grid.samples import row, rows_of

# Seeds at 50, 60 and 70 %: mean 60, sample deviation sqrt((100 + 0 + 100) / 2) = 10.
LEDGER = [
    row(1, 0.50), row(2, 0.60), row(3, 0.70),
    row(1, 0.42, sampler="rsv", trainer="plain"),
    row(1, 0.99, sampler="gbs", trainer="plain", shortened=True),
]  # fmt: skip


def table1(rows: list[dict[str, Any]], any_code: bool = False) -> GridTable:
    return make_table(find_grid("table1", ["cifar10"]), rows, any_code)


def entries(table: GridTable, title: str) -> dict[str, str]:
    (block,) = table.blocks
    line = dict(block.lines)[title]
    return {column.noise: entry.text for column, entry in zip(block.columns, line, strict=True)}


def test_each_cell_is_mean_and_deviation_over_seeds_beside_the_papers_figure() -> None:
    table = table1(LEDGER)
    assert entries(table, "PuriDivER")["sym-40"] == "60.0 ± 10.0 (3) [59.2 ± 0.3]"
    assert entries(table, "RSV")["sym-40"] == "42.0 (1) [39.2 ± 0.9]"
    assert entries(table, "PuriDivER")["sym-20"] == "- [61.3 ± 2.1]"
    assert "- no run of these settings and this code" in table.notes
    (told,) = (note for note in table.notes if "shortened" in note)
    assert told.startswith("1 shortened run is not shown (--stream-limit, --test-limit): `puridiver table FOLDER`")


def test_shortened_runs_never_enter() -> None:
    assert entries(table1(LEDGER), "GBS")["sym-40"] == "- [41.8 ± 0.9]"


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_runs_that_diverged_are_counted_in_their_cell(form: str) -> None:
    rows = [row(1, 0.1, diverged=True), row(2, 0.1, diverged=True), row(3, 0.5, sampler="rsv", trainer="plain")]
    assert entries(table1(rows), "PuriDivER")["sym-40"] == "10.0 ± 0.0 (2; 2 diverged) [59.2 ± 0.3]"
    text = FORMATS[form](table1(rows))
    assert text.count("(2; 2 diverged)") == text.count("diverged: runs whose network predicts nan") == 1
    assert "diverged" not in FORMATS[form](table1(LEDGER))


def test_csv_has_a_column_of_runs_that_diverged_if_there_are_any() -> None:
    read = list(csv.DictReader(io.StringIO(FORMATS["csv"](table1([row(1, 0.1, diverged=True), row(2, 0.5)])))))
    found = {(line["method"], line["noise"]): line["diverged"] for line in read}
    assert (found["PuriDivER", "sym-40"], found["RSV", "sym-40"]) == ("1", "0")
    assert "diverged" not in FORMATS["csv"](table1(LEDGER))


def test_text_is_aligned_and_tells_what_the_runs_were() -> None:
    lines = FORMATS["text"](table1(LEDGER)).splitlines()
    assert lines[2] == ("CIFAR-10, blurry-10, 5 tasks, memory 500, resnet18, 255 epochs, recipe puridiver, float32")
    (head, mine) = (line for line in lines if line.startswith(("method", "PuriDivER")))
    assert head.index("sym-40") == mine.index("60.0 ± 10.0 (3)")


def test_the_heading_tells_of_long_tailed_streams() -> None:
    settings = {"methods": ["rsv+plain"], "seeds": [0], "tasks": 2, "device": "cpu"}
    for more, told in (
        ({}, "digits, blurry-10, 2 tasks"),
        ({"imbalance": 0.1}, "digits, blurry-10 with imbalance 0.1,"),
    ):
        grid = grid_of_table({**settings, **more}, Path("tailed"))
        assert make_table(grid, rows_of(grid)).blocks[0].heading.startswith(told)


def test_markdown_is_a_table_with_a_row_a_method() -> None:
    lines = [line for line in FORMATS["markdown"](table1(LEDGER)).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 13
    assert {line.count("|") for line in lines} == {7}
    assert lines[-1].split(" | ")[2] == "60.0 ± 10.0 (3) [59.2 ± 0.3]"


def test_markdown_has_titles_that_look_like_tags() -> None:
    table = grid_of_table({"methods": [{"sampler": "rsv", "trainer": "plain", "title": "RSV <d>"}]}, Path("mine"))
    text = FORMATS["markdown"](make_table(dataclasses.replace(table, title="<all>"), []))
    assert "| RSV &lt;d> |" in text
    assert text.startswith("**&lt;all>**")
    assert "<" in FORMATS["text"](make_table(table, []))


def test_csv_has_a_line_a_cell_with_numbers_alone() -> None:
    read = list(csv.DictReader(io.StringIO(FORMATS["csv"](table1(LEDGER)))))
    assert len(read) == 13 * 5
    (mine,) = (line for line in read if (line["method"], line["noise"]) == ("PuriDivER", "sym-40"))
    assert float(mine["last accuracy %"]) == pytest.approx(60)
    assert float(mine["standard deviation"]) == pytest.approx(10)
    assert (mine["seeds"], mine["paper %"], mine["paper standard deviation"]) == ("3", "59.2", "0.3")
    (empty,) = (line for line in read if (line["method"], line["noise"]) == ("RM", "sym-20"))
    assert (empty["last accuracy %"], empty["seeds"], empty["paper %"]) == ("", "0", "57.1")


def test_each_metric_has_a_csv_heading_of_its_own() -> None:
    grid = find_grid("table1", ["cifar10"])
    headings = [FORMATS["csv"](make_table(grid, LEDGER, metric=metric)).splitlines()[0] for metric in METRICS.values()]
    assert len(set(headings)) == len(METRICS)
    assert "average accuracy on seen classes %" in headings[list(METRICS).index("average-seen")]


def test_latex_has_booktabs_rules_and_every_special_character_escaped() -> None:
    text = FORMATS["latex"](table1(LEDGER))
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    assert r"60.0 $\pm$ 10.0 (3) {[}59.2 $\pm$ 0.3{]}" in text
    body = text.partition("\n")[2]
    assert "%" not in body.replace(r"\%", "")
    assert "±" not in body


def test_every_latex_table_has_a_label_of_its_own() -> None:
    rows = [*LEDGER, row(1, 0.5, data="digits")]
    tables = [
        make_table(find_grid("table1", ["cifar10", "digits"]), rows, metric=METRICS[name])
        for name in ("last", "purity")
    ]
    labels = [line for table in tables for line in FORMATS["latex"](table).splitlines() if line.startswith(r"\label")]
    assert labels == [
        r"\label{tab:table1-cifar10}",
        r"\label{tab:table1-digits}",
        r"\label{tab:table1-cifar10-memory-purity}",
        r"\label{tab:table1-digits-memory-purity}",
    ]


def test_runs_of_other_code_are_left_out_with_a_note_or_counted_with_one() -> None:
    rows = [*LEDGER, row(4, 0.0, code_hash="older")]
    table = table1(rows)
    assert entries(table, "PuriDivER")["sym-40"] == "60.0 ± 10.0 (3) [59.2 ± 0.3]"
    assert "1 cifar10 run is of other code or settings" in table.notes[-1]
    mixed = table1(rows, any_code=True)
    assert entries(mixed, "PuriDivER")["sym-40"].startswith("45.0 ±")
    assert "2 different states of the code" in mixed.notes[-1]


@pytest.mark.parametrize(
    "change",
    [
        {"recipe": "paper"}, {"options_changed": {"eta": 0.5}}, {"memory": 200}, {"network": "small"}, {"epochs": 3},
        {"told_noise": True}, {"precision": "bfloat16"}, {"stream": "official:sym40:4"}, {"task_accuracy": [0.5] * 2},
    ],
)  # fmt: skip
def test_runs_of_other_settings_never_share_a_cell(change: dict[str, Any]) -> None:
    for any_code in (False, True):
        table = table1([*LEDGER, row(4, 0.0, **change)], any_code)
        assert entries(table, "PuriDivER")["sym-40"] == "60.0 ± 10.0 (3) [59.2 ± 0.3]"
        assert "1 cifar10 run is of other code or settings" in table.notes[-1]


@pytest.mark.parametrize(
    "change",
    [
        {"data": "digits"}, {"stream": "disjoint"}, {"stream": "blurry-30"}, {"noise": "asym"}, {"noise_rate": 0.6},
        {"noise_map": "next"}, {"evaluated_on": "validation"}, {"trainer": "plain"}, {"recipe": "of another version"},
    ],
)  # fmt: skip
def test_runs_of_another_cell_do_not_belong_here(change: dict[str, Any]) -> None:
    table = table1([*LEDGER, row(4, 0.0, **change)])
    assert entries(table, "PuriDivER")["sym-40"] == "60.0 ± 10.0 (3) [59.2 ± 0.3]"


def test_published_streams_fill_the_same_cells() -> None:
    rows = [row(seed, 0.5, stream=f"official:sym40:{seed}") for seed in (1, 2)]
    table = table1(rows)
    assert entries(table, "PuriDivER")["sym-40"].startswith("50.0 ± 0.0 (2)")
    assert "official" in table.blocks[0].heading


def test_a_repeated_run_counts_once_the_later_one() -> None:
    assert entries(table1([*LEDGER, row(1, 0.56)]), "PuriDivER")["sym-40"].startswith("62.0 ±")


def test_rows_that_differ_by_options_are_told_apart_by_what_the_options_come_to() -> None:
    grid = find_grid("table3", ["cifar10"])
    rows = [
        row(1, 0.1, options_changed={"relabel": False, "consistency": False}),
        row(1, 0.2, options_changed={"consistency": False}),
        row(1, 0.4),  # both are on unless switched off
    ]
    table = make_table(grid, rows)
    found = {title: line[1].ours for title, line in table.blocks[0].lines}
    assert found == {
        "neither": "10.0 (1)",
        "re-label": "20.0 (1)",
        "consistency": "-",
        "re-label + consistency": "40.0 (1)",
    }


def test_methods_with_epochs_of_their_own_share_a_table() -> None:
    grid = find_grid("disjoint", ["cifar10"])
    spr = {"sampler": "spr", "trainer": "spr", "stream": "disjoint", "memory": 1000, "epochs": 50}
    own = dict(grid.methods[2].options)
    rows = [
        row(1, 0.4, **spr, options_changed=own),
        row(1, 0.3, **spr, options_changed={**own, "spr_filter": False}),
        row(1, 0.6, stream="disjoint", memory=1000),
    ]
    table = make_table(grid, rows)
    found = {title: line[1].ours for title, line in table.blocks[0].lines}
    assert found == {"Self-Centered filter": "-", "Self-Replay": "30.0 (1)", "SPR": "40.0 (1)", "PuriDivER": "60.0 (1)"}
    assert "50 or 255 epochs" in table.blocks[0].heading


def test_methods_of_the_paper_that_cannot_be_run_are_named() -> None:
    grid = find_grid("disjoint", ["cifar10"])
    table = make_table(dataclasses.replace(grid, methods=(Method("SPR"), *grid.methods[3:])), [])
    assert entries(table, "SPR")["sym-20"] == "- [43.9]"
    assert table.blocks[0].heading == "CIFAR-10: not run"
    assert "not in this package: SPR" in table.notes


def test_digits_stand_beside_no_figure_of_the_paper() -> None:
    table = make_table(find_grid("table1", ["digits"]), [row(1, 0.5, data="digits")])
    assert entries(table, "PuriDivER")["sym-40"] == "50.0 (1)"
    assert not any("paper" in note for note in table.notes)


def test_every_figure_of_the_paper_reads_as_a_number() -> None:
    for content in paper_figures().values():
        assert content["source"]
        for rows in content["data"].values():
            for figures in rows.values():
                for text in figures.values():
                    mean, deviation = value_of(text), deviation_of(text)
                    assert mean is not None
                    assert 5 < mean < 65
                    assert deviation is None or 0 < deviation < 6
                    assert runs_of(text) in (2, 3)
