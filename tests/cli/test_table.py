from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.grid.measures import METRICS
from puridiver.report.titles import Title, write_titles
from tests.grid.ledger_samples import full_run, write_ledger

TINY = ["--epochs", "1", "--stream-limit", "16", "--test-limit", "40", "--no-diversity", "--quiet", "--tasks", "2"]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, run at a tiny size: a ledger and their folders."""
    folder = tmp_path_factory.mktemp("runs")
    for sampler in ("rsv", "gbs"):
        out = ["--out", str(folder / sampler), "--ledger", str(folder / "ledger.jsonl")]
        assert main(["run", *TINY, "--sampler", sampler, "--trainer", "plain", *out]) == 0
    return folder


def test_the_table_shows_what_the_ledger_holds(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", str(two_runs / "ledger.jsonl")]) == 0
    text = capsys.readouterr().out
    rows = [json.loads(line) for line in (two_runs / "ledger.jsonl").read_text().splitlines()]
    for row in rows:
        line = next(line for line in text.splitlines() if line.split()[1] == row["sampler"])
        assert f"{100 * row['last_accuracy']:.1f}" in line
        assert "(shortened)" in line


def test_that_shortened_runs_are_but_a_list_is_told(two_runs, tmp_path, capsys):
    assert main(["table", str(two_runs / "ledger.jsonl")]) == 0
    told = capsys.readouterr()
    assert "note: 2 of 2 runs are shortened (--stream-limit, --test-limit)" in told.err
    assert "enter no table of a grid" in told.err
    assert main(["table", str(write_ledger(tmp_path / "whole.jsonl", [full_run(1, 0.5)]))]) == 0
    assert capsys.readouterr().err == ""


def test_the_table_goes_into_a_page(two_runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- here:begin -->\n<!-- here:end -->\n")
    ledger = str(two_runs / "ledger.jsonl")
    assert main(["table", ledger, "--format", "markdown", "--into", str(page), "--marker", "here"]) == 0
    assert "| digits | rsv | plain |" in page.read_text()


def test_what_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_a_second_grid_is_told_apart_from_a_damaged_ledger(tmp_path, capsys):
    (tmp_path / "a.toml").write_text('[grid]\nmethods = ["rsv+plain"]\n')
    assert main(["table", str(tmp_path / "a.toml"), "table1", str(tmp_path)]) == 2
    assert "name one grid, then where its runs are; table1 is another" in capsys.readouterr().err


def test_run_folders_are_rows_too(two_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", str(two_runs / "ledger.jsonl")]) == 0
    by_ledger = capsys.readouterr().out
    assert main(["table", str(two_runs / "rsv"), str(two_runs / "gbs")]) == 0
    assert capsys.readouterr().out == by_ledger
    (tmp_path / "summary.json").write_text("{}")
    assert main(["table", str(tmp_path)]) == 2
    assert "is not that of a finished run of this version: it lacks data" in capsys.readouterr().err


def test_of_two_orders_of_published_streams_one_may_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [full_run(1, 0.813, stream="official:sym40:1"), full_run(2, 0.813, stream="official:sym40:2:listed")]
    ledger = str(write_ledger(tmp_path / "ledger.jsonl", [*runs, full_run(3, 0.717)]))
    for order, shown, hidden in (("listed", "81.3 ± 0.0", "71.7"), ("shuffled", "71.7", "81.3")):
        for words in ([ledger], ["table1", ledger, "--data", "cifar10"]):
            assert main(["table", *words, "--order", order]) == 0
            printed = capsys.readouterr().out
            assert shown in printed
            assert hidden not in printed


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_that_there_is_can_be_asked_for(metric, tmp_path, capsys):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("")
    main(["table", "table1", str(ledger), "--metric", metric])  # argparse would leave with an error of its own
    assert "invalid choice" not in capsys.readouterr().err


def test_a_run_of_a_version_without_a_figure_is_not_one_that_was_not_run(tmp_path, capsys):
    ledger = write_ledger(tmp_path / "l.jsonl", [full_run(1, 0.5), full_run(1, 0.5, "asym-40")])
    words = ["table", "table1", str(ledger), "--methods", "PuriDivER", "--data", "cifar10"]
    for metric in ("anytime-seen", "bwt"):
        assert main([*words, "--metric", metric]) == 0
        told = capsys.readouterr().out
        (line,) = [line for line in told.splitlines() if line.startswith("PuriDivER")]
        assert line.count("not recorded") == 2
        assert " - " in line
        assert "not recorded: was run, without measuring this" in told
    assert main(words) == 0
    assert "not recorded" not in capsys.readouterr().out


def test_a_preset_s_table_may_be_of_another_metric(tmp_path, capsys):
    runs = [full_run(seed, 0.5, memory_purity=0.9, memory_diversity=seed + 0.25) for seed in (1, 2)]
    words = ["table", "table1", str(write_ledger(tmp_path / "l.jsonl", runs)), "--methods", "PuriDivER"]
    assert main([*words, "--metric", "purity"]) == 0
    told = capsys.readouterr().out
    assert "90.0 ± 0.0 (2)" in told
    assert "memory purity %, mean ± standard deviation (seeds)" in told
    assert "[59.2" not in told  # the paper's are accuracies
    assert main([*words, "--metric", "diversity", "--format", "csv"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("method,data,stream,noise,memory diversity,standard deviation,seeds")
    assert any(",1.750,0.707,2," in line for line in lines)
    assert main([*words, "--metric", "purity", "--long"]) == 2
    assert "--long has a column for each metric" in capsys.readouterr().err
    assert main(["table", str(tmp_path / "l.jsonl"), "--metric", "purity"]) == 2
    assert "--metric needs a preset's name or a grid file" in capsys.readouterr().err


def test_the_csv_of_a_ledger_has_numbers_alone(tmp_path, capsys):
    ledger = write_ledger(tmp_path / "l.jsonl", [full_run(1, 0.5), full_run(2, 0.6)])
    assert main(["table", str(ledger), "--format", "csv"]) == 0
    (line,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (line["last accuracy %"], line["last accuracy standard deviation"]) == ("55.000", "7.071")


@pytest.mark.parametrize("words", [["--data", "digits"], ["--any-code"]])
def test_what_a_ledger_alone_does_not_heed_is_refused(words, tmp_path, capsys):
    ledger = str(write_ledger(tmp_path / "l.jsonl", [full_run(1, 0.5)]))
    assert main(["table", ledger, *words]) == 2
    assert f"{words[0]} needs a preset's name or a grid file before the ledger" in capsys.readouterr().err
    assert main(["table", "table1", ledger, *words]) == 0


def test_runs_in_the_other_order_of_published_streams_are_told_of(tmp_path, capsys):
    runs = [full_run(seed, 0.5) for seed in (1, 2)]
    write_ledger(tmp_path / "one.jsonl", runs)
    assert main(["table", "table1", str(tmp_path / "one.jsonl")]) == 0
    assert "--order" not in capsys.readouterr().out
    write_ledger(tmp_path / "both.jsonl", [*runs, full_run(1, 0.6, stream="official:sym40:1:listed")])
    assert main(["table", "table1", str(tmp_path / "both.jsonl")]) == 0
    note = "published streams are shuffled here; --order listed shows those in the order of their files"
    assert note in " ".join(capsys.readouterr().out.split())


def test_a_part_of_a_grid_is_asked_for_as_when_it_is_run(tmp_path, capsys):
    rows = [full_run(seed, 0.6, recipe="official") for seed in (1, 2, 3)] + [full_run(1, 0.1, recipe="paper")]
    ledger = str(write_ledger(tmp_path / "ledger.jsonl", rows))
    for part, figure in (
        ("methods=PuriDivER&noises=sym-40", "60.0 ± 0.0 (3)"), ("seeds=2,3", "60.0 ± 0.0 (2)"),
        ("recipe=paper&methods=PuriDivER", "10.0 (1)"),
    ):  # fmt: skip
        assert main(["table", f"table1?{part}", ledger, "--any-code"]) == 0
        told = capsys.readouterr().out
        assert figure in told
        assert ("sym-20" in told) == ("noises" not in part)
        assert ("RSV" in told) == ("methods" not in part)
    assert main(["table", "table1?methods=none of these", ledger]) == 2
    assert "there is no method 'none of these'" in capsys.readouterr().err


def test_latex_tables_have_labels_of_their_own(tmp_path, capsys):
    runs = [full_run(seed, 0.5, **method) for seed in (1, 2) for method in ({}, {"sampler": "rsv", "trainer": "plain"})]
    words = ["table", "table1", str(write_ledger(tmp_path / "l.jsonl", runs)), "--format", "latex"]
    for more, label in (
        ([], "table1-cifar10"), (["--metric", "average-seen"], "table1-cifar10-average-seen-accuracy"),
        (["--long"], "table1-long"), (["--against", "RSV"], "table1-against-rsv"),
        (["--against", "RSV", "--metric", "purity"], "table1-against-rsv-purity"),
    ):  # fmt: skip
        assert main([*words, *more]) == 0
        assert rf"\label{{tab:{label}}}" in capsys.readouterr().out.splitlines()


def test_a_grid_s_own_names_for_its_methods_stand_in_the_list(tmp_path, capsys):
    runs = [full_run(seed, 0.5, cell=f"strong-{seed}") for seed in (1, 2)]
    runs += [full_run(1, 0.3, cell="plain-1", sampler="rsv", trainer="plain")]
    write_ledger(tmp_path / "ledger.jsonl", runs)
    titles = {f"strong-{seed}": Title("PuriDivER, strong", ("eta",)) for seed in (1, 2)}
    write_titles(tmp_path, {**titles, "plain-1": Title("rsv + plain")})
    for place in (tmp_path, tmp_path / "ledger.jsonl"):
        assert main(["table", str(place), "--format", "csv"]) == 0
        found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [(line["method"], line["trainer"], line["seeds"]) for line in found] == [
            ("PuriDivER, strong", "puridiver", "2"), ("rsv + plain", "plain", "1"),
        ]  # fmt: skip
    write_titles(tmp_path, {"plain-1": Title("rsv + plain")})  # which other columns say
    assert main(["table", str(tmp_path), "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("data,sampler,")


def test_a_run_of_a_grid_has_the_grid_s_name_for_it(tmp_path, capsys):
    folder = tmp_path / "cells" / "mine"
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(full_run(1, 0.5, cell="one")))
    write_titles(tmp_path, {"one": Title("PuriDivER, strong")})
    assert main(["table", str(folder)]) == 0
    assert "PuriDivER, strong" in capsys.readouterr().out
