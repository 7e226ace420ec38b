"""The results page as a reader sees it, from made ledgers."""

from __future__ import annotations

from typing import Any

import pytest

from puridiver.grid.page.links import anchors_of
from puridiver.grid.page.page import fidelity_block, headline_block
from puridiver.recipes import OFFICIAL, RECIPES, replaced
from tests.grid.page.samples import full_run, line, page_of, part, runs_of


def test_an_empty_ledger_makes_a_page_of_what_is_not_run() -> None:
    page = page_of([])
    assert page.startswith(
        "<!-- Made by `puridiver results results/cifar10.jsonl --out docs/RESULTS.md` from 0 rows. Do not edit"
    )
    summary = part(page, "CIFAR-10: does it reproduce?")
    assert "rerun's last epoch: 0 of 5 noises (0 not, 5 not run)" in summary
    assert line(summary, "asym-40")[1] == "not run"
    assert "*Rerun*: an independent rerun of the released program" in summary
    assert line(part(page, "CIFAR-10, Table 1"), "RSV")[1] == "not run / 54.5 ± 2.1"
    assert "No cell was run: sym-20, sym-40, sym-60, asym-20, asym-40." in page
    assert part(page, "Other runs").endswith("None.\n")


def test_a_ledger_of_ones_own_is_a_page_of_its_runs() -> None:
    """Not one of tables that nobody has run."""
    rows = [full_run(seed, 0.4 + seed / 10, data="digits", stream="blurry-10", memory=100) for seed in (1, 2)]
    page = page_of(rows)
    assert "not run" not in page
    assert "does it reproduce" not in page
    assert line(part(page, "Runs (2)"), "digits")[5] == "55.0 ± 7.1"


def test_a_long_page_begins_with_links_to_its_sections() -> None:
    page = page_of(runs_of("table1"))
    listed = [line for line in page.splitlines() if line.startswith("- [")]
    assert [line.removeprefix("- [").partition("](#")[0] for line in listed] == [
        line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")
    ]
    assert "- [CIFAR-10, Table 1](#cifar-10-table-1)" in listed
    assert page.index(listed[-1]) < page.index("\n## ")
    own = page_of([full_run(seed, data="digits", stream="blurry-10") for seed in (1, 2)])
    assert "](#" not in own  # two sections are found without


def test_anchors_are_those_that_github_gives() -> None:
    headings = [
        "## What each row of FIDELITY.md is worth",
        "### `official`, one at a time",
        "### `official`: one at a time",
    ]
    assert anchors_of(headings) == [
        "what-each-row-of-fidelitymd-is-worth", "official-one-at-a-time", "official-one-at-a-time-1",
    ]  # fmt: skip


def test_the_same_ledger_gives_the_same_bytes() -> None:
    rows = [*runs_of("table1"), full_run(1, precision="float32"), full_run(4, evaluated_on="validation")]
    assert page_of(rows) == page_of([dict(row) for row in rows])


@pytest.fixture
def _default_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default recipe is the released procedure itself."""
    monkeypatch.setitem(RECIPES, "puridiver", OFFICIAL)


@pytest.mark.usefixtures("_default_as_published")
def test_the_summary_compares_with_the_rerun_and_with_the_paper() -> None:
    rows = [full_run(1, 0.56), full_run(2, 0.58), full_run(1, 0.50, "sym-60"), full_run(2, 0.50, "sym-60")]
    rows += [full_run(1, 0.475, "asym-40"), full_run(2, 0.485, "asym-40"), full_run(1, 0.9, "sym-20")]
    summary = part(page_of(rows), "CIFAR-10: does it reproduce?")
    assert line(summary, "sym-40") == [
        "sym-40", "57.0 ± 1.4 (2)", "57.1 ± 1.9 (3)", "-0.10 ± 1.48", "yes", "59.2 ± 0.3", "-2.20 ± 1.01", "0.26", "no",
    ]  # fmt: skip
    assert line(summary, "sym-60") == [
        "sym-60",
        "50.0 ± 0.0 (2)",
        "52.4 ± 2.6 (2)",
        "-2.40 ± 1.84",
        "no",
        "52.4 ± 2.0",
        "-2.40 ± 1.15",
        "-",
        "no",
    ]
    assert line(summary, "sym-20")[4] == "too few seeds"
    assert "rerun's last epoch: 2 of 5 noises (1 not, 1 too few seeds, 1 not run)" in summary
    assert "by true last accuracy: 1 of 5 noises (2 not, 1 too few seeds, 1 not run)" in summary
    assert "is the same as `official` at present" in summary


def test_a_default_recipe_of_its_own_has_its_own_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 2.0}))
    default = [full_run(seed, 0.6, recipe="puridiver", default_changes={"eta": 2.0}) for seed in (1, 2)]
    summary = part(page_of([full_run(1, 0.5), *default]), "CIFAR-10: does it reproduce?")
    found = summary.split("### The default recipe")[1]
    assert "It is `official` with `eta=2.0`." in found
    assert line(found, "sym-40")[1:2] == ["60.0 ± 0.0 (2)"]
    assert line(found, "sym-40")[-1] == "+10.00 ± -"  # on the seed that `official` was run on, too
    assert "by true last accuracy: 1 of 5" in found
    assert "rerun" not in found.split("Of the ")[0].split("|", 1)[1]  # nobody expects it where the rerun is


def test_a_default_that_was_not_run_in_an_order_has_no_verdicts_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 2.0}))
    summary = part(page_of([full_run(1, 0.5)]), "CIFAR-10: does it reproduce?").split("### The default recipe")[1]
    assert "Not run on streams in this order." in summary
    assert "paper's figure" not in summary


def test_a_default_above_the_paper_beyond_chance_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 2.0}))
    told = {"recipe": "puridiver", "default_changes": {"eta": 2.0}}
    clear = [full_run(seed, 0.65 + seed / 100, **told) for seed in (1, 2, 3)]
    level = [full_run(seed, 0.50 + seed / 50, "sym-60", **told) for seed in (1, 2, 3)]
    summary = part(page_of([*clear, *level]), "CIFAR-10: does it reproduce?")
    assert "by true last accuracy: 2 of 5 noises (0 not, 3 not run), beyond chance under 1.**" in summary
    headline = headline_block([*clear, *level])
    assert "beyond chance under 1.** Differences in points: -, +7.8, +1.6, -, -." in headline


def test_what_is_surely_below_the_paper_or_perhaps_above_it_is_not_above_it_beyond_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(RECIPES, "puridiver", replaced(OFFICIAL, {"eta": 2.0}))
    told = {"recipe": "puridiver", "default_changes": {"eta": 2.0}}
    below = [full_run(seed, 0.30 + seed / 100, **told) for seed in (1, 2, 3)]  # of 59.2
    perhaps = [full_run(seed, 0.53 + seed / 100, "sym-60", **told) for seed in (1, 2, 3)]  # of 52.4 ± 2.0: p 0.14
    summary = part(page_of([*below, *perhaps]), "CIFAR-10: does it reproduce?").split("### The default recipe")[1]
    assert line(summary, "sym-60")[4] == "0.14"
    assert "1 of 5 noises (1 not, 3 not run), beyond chance under 0.**" in summary


def test_co_teaching_that_is_not_told_the_noise_needs_no_runs() -> None:
    plain = full_run(1, 0.4, sampler="rsv", trainer="plain")
    table = part(page_of([plain]), "CIFAR-10, Table 1")
    assert line(table, "RSV + Co-teaching")[2] == "as RSV / 39.8 ± 4.4"
    assert line(table, "RSV + Co-teaching, told the noise")[2] == "not run / 39.8 ± 4.4"
    counted, fewer = (page_of(rows).split("Of the ")[1].split(" cells")[0] for rows in ([plain], []))
    assert counted == fewer
    own = full_run(1, 0.41, sampler="rsv", trainer="coteaching")
    assert line(part(page_of([own]), "CIFAR-10, Table 1"), "RSV + Co-teaching")[2] == "41.0 ± - (1) / 39.8 ± 4.4"


@pytest.mark.usefixtures("_default_as_published")
def test_where_the_default_stays_below_the_paper_the_best_setting_is_named() -> None:
    better = [full_run(seed, 0.58, precision="float32") for seed in (1, 2)]
    lucky = full_run(1, 0.99, options_changed={"eta": 2.0})  # fewer seeds than the default has
    summary = part(page_of([full_run(1, 0.5), full_run(2, 0.5), *better, lucky]), "CIFAR-10: does it reproduce?")
    assert "picked by test accuracy" in summary
    best = summary.split("| noise | best setting run |")[1]
    assert line(best, "sym-40") == [
        "sym-40", "puridiver + puridiver, official, float32", "58.0 ± 0.0 (2)", "59.2 ± 0.3", "-1.20 ± 0.17",
    ]  # fmt: skip


def test_the_released_step_has_its_own_verdicts_once_it_was_run() -> None:
    step = [full_run(s, 0.58, options_changed={"cutmix_sets": "clean", "relabel_view": "in_step"}) for s in (1, 2, 3)]
    head = "With rows 21 and 22 as the released program has them, too"
    summary = part(page_of([full_run(1, 0.5), *step]), "CIFAR-10: does it reproduce?")
    assert "1 of 5 noises (0 not, 4 not run)" in summary.split(head)[1].split("###")[0]
    assert line(summary.split(head)[1], "sym-40")[1:5] == ["58.0 ± 0.0 (3)", "57.1 ± 1.9 (3)", "+0.90 ± 1.10", "yes"]
    assert head not in page_of([full_run(1, 0.5)])


@pytest.mark.usefixtures("_default_as_published")
def test_every_figure_of_a_cell_and_where_it_comes_from() -> None:
    figures = {"best_epoch_accuracy": 0.6, "memory_diversity": 3.0, "seconds": 100.0, "stream_hash": "0123456789"}
    rows = [full_run(1, 0.9), full_run(1, 0.5, **figures, commit="b" * 40)]
    table = part(page_of(rows), "CIFAR-10, Table 1")
    assert "sym-40: every figure (1 of 23 cells run)" in table
    figures_table, origins = table.split("<details>")[1].split("| method | seeds | runs at once |")
    assert line(figures_table, "PuriDivER, recipe official") == [
        "PuriDivER, recipe official", "50.0 ± -", "1", "60.0 ± -", "59.2 ± 0.3", "57.1 ± 1.9 (3)", "60.0 ± -", "3.00",
        "100.0 (of 8)",
    ]  # fmt: skip
    assert "NTD" not in figures_table
    assert "22 of 23 cells were not run: they stand in the first table of this section alone." in origins
    assert line(table, "NTD")[2] == "not run"  # the grid of methods and noises has every cell
    assert line(origins, "PuriDivER, recipe official") == [
        "PuriDivER, recipe official", "1", "8", "NVIDIA H200", "bfloat16", "bbbbbbbb", "01234567", "1",
    ]  # fmt: skip


def test_the_reruns_blurry_figures_do_not_stand_beside_disjoint_tasks() -> None:
    table = part(page_of(runs_of("disjoint")), "CIFAR-10, the supplement's table: disjoint tasks, SPR")
    figures = table.split("<details>")[1]
    assert line(figures, "PuriDivER")[4:6] == ["61.2", "-"]


def fidelity_rows() -> list[dict[str, Any]]:
    """`official` as it is at 51 to 53 %, row 6 better, row 4 perhaps worse, row 2 alike, row 3 once."""
    worth = {"consistency_distance": ("softmax_l2", 0.60, 1), "relabel_set": ("low_uncertainty", 0.48, 1.5)}
    worth |= {"standardise_scores": (False, 0.505, 2)}
    rows = [full_run(seed, 0.50 + seed / 100) for seed in (1, 2, 3)]
    for name, (value, accuracy, spread) in worth.items():
        figures = {seed: accuracy + seed / 100 + spread * (seed - 2) / 100 for seed in (1, 2, 3)}
        rows += [full_run(seed, figure, options_changed={name: value}) for seed, figure in figures.items()]
    return [*rows, full_run(1, 0.9, options_changed={"alpha_loss": "stream"})]


def test_a_fidelity_row_is_told_by_whose_reading_is_better() -> None:
    block = fidelity_block(fidelity_rows())
    found = {number: line(block, title)[1] for number, title in (
        (2, "row 2: z-scores"), (3, "row 3: alpha's loss"), (4, "row 4: what is re-labelled"),
        (6, "row 6: consistency distance"), (7, "row 7: weights of the losses"),
    )}  # fmt: skip
    assert found == {
        2: "+0.50 ± 0.70: not told apart",  # errors are of all together
        3: "+39.00 ± -: too few seeds",
        4: "-2.00 ± 0.70: the released program's reading may be better",
        6: "+10.00 ± 0.70: the paper's reading is better",
        7: "not run",
    }


def test_from_the_papers_side_the_words_are_the_other_way_round() -> None:
    paper = {"recipe": "paper", "epochs": 256}
    rows = [full_run(seed, 0.2 + seed / 100, **paper) for seed in (1, 2, 3)]
    changed = {**paper, "options_changed": {"evict_from": "largest_class"}}
    rows += [full_run(seed, 0.6 + seed / 50, **changed) for seed in (1, 2, 3)]
    assert line(fidelity_block(rows), "row 1: eviction")[3] == "+42.00 ± 0.58: the released program's reading is better"
    assert line(fidelity_block(rows[3:]), "row 1: eviction")[3] == "nothing to compare with"


def test_settings_on_validation_data_are_compared_by_noise() -> None:
    held_out = {"evaluated_on": "validation", "stream": "blurry-10", "command": "puridiver run --holdout 5000"}
    rows = [
        full_run(1, 0.9, **held_out), full_run(1, 0.5, **held_out), full_run(2, 0.5, **held_out),
        full_run(1, 0.3, "asym-40", **held_out, settings_hash="of another noise"),
        full_run(1, 0.6, **held_out, options_changed={"eta": 2.0, "epochs": 255}),
        full_run(1, 0.2, **{**held_out, "command": "puridiver run --stream-limit 99"}, shortened=True),
    ]  # fmt: skip
    text = part(page_of(rows), "Choosing the default recipe")
    whole, short = text.split("**shortened**")
    assert "judged on validation, holdout 5000" in whole
    assert "1 run set aside" in whole
    name = "puridiver + puridiver, official"
    assert line(whole, f"{name}, 255 epochs")[1:] == ["50.0 ± 0.0 (2)", "30.0 ± - (1)", "40.0"]
    assert line(whole, f"{name}, eta=2.0, 255 epochs")[1:] == ["60.0 ± - (1)", "not run", "-"]
    assert "stream-limit 99" in short
    assert "20.0 ± - (1)" in short


def test_what_predicts_on_the_way_is_compared_by_anytime_accuracy() -> None:
    held_out = {"evaluated_on": "validation", "stream": "blurry-10", "command": "puridiver run --holdout 5000"}
    rows = [full_run(1, 0.9, **held_out, anytime_area=0.2), full_run(2, 0.9, **held_out)]
    heading = "What predicts between two memory trainings"
    assert heading not in page_of(rows)  # nothing to compare
    elsewhere = {**held_out, "command": "puridiver run --holdout 5000 --anytime-points 1", "anytime_area": 0.9}
    rows.append(full_run(1, 0.9, **elsewhere))
    for mode, accuracies in {"both": (0.3, 0.4), "consolidated": (0.5, 0.6)}.items():
        options = {"online_prediction": mode}
        rows += [
            full_run(seed, 0.9, **held_out, anytime_area=accuracy, options_changed=options)
            for seed, accuracy in enumerate(accuracies)
        ]
    rows.append(full_run(1, 0.9, anytime_area=0.8, options_changed={"online_prediction": "both"}))  # on the test set
    text = page_of(rows).partition(f"### {heading}")[2].partition("\n## ")[0]
    assert text.count("\n| ") == 4
    assert line(text, "puridiver + puridiver, official, online_prediction=network, 255 epochs")[1] == "20.0 ± - (1)"
    assert line(text, "puridiver + puridiver, official, online_prediction=both, 255 epochs")[1] == "35.0 ± 7.1 (2)"
    assert (
        line(text, "puridiver + puridiver, official, online_prediction=consolidated, 255 epochs")[1] == "55.0 ± 7.1 (2)"
    )


def test_on_validation_data_a_run_of_the_default_is_one_of_what_it_was_then() -> None:
    held_out = {"evaluated_on": "validation", "stream": "blurry-10", "command": "puridiver run --holdout 5000"}
    asked = {"online_lr": 0.01, "online_steps": 4, "online_prediction": "consolidated"}
    then = dict(reversed(asked.items()))
    rows = [
        full_run(1, 0.5, **held_out, anytime_area=0.3, options_changed=asked),
        full_run(2, 0.7, **held_out, anytime_area=0.5, recipe="puridiver", default_changes=then),
        full_run(1, 0.6, **held_out, anytime_area=0.2),
    ]
    page = page_of(rows)
    name = "puridiver + puridiver, official, online_lr=0.01, online_steps=4"
    last = part(page, "Choosing the default recipe").partition("###")[0]
    assert line(last, f"{name}, 255 epochs")[1] == "60.0 ± 14.1 (2)"
    on_the_way = page.partition("### What predicts between two memory trainings")[2].partition("\n## ")[0]
    assert line(on_the_way, f"{name}, online_prediction=consolidated, 255 epochs")[1] == "40.0 ± 14.1 (2)"


def test_methods_of_plugins_are_named_where_runs_are_derived_again() -> None:
    assert "Not of the package" not in page_of([full_run(1)])
    page = page_of([full_run(1), full_run(1, sampler="own", plugins={"sampler own": "ab"})])
    assert "Not of the package: sampler own." in part(page, "To derive a figure again")


def test_what_is_in_no_table_is_shown_by_its_protocol() -> None:
    rows = [full_run(1, 0.41, sampler="own"), full_run(1, 0.42, precision="float32"), full_run(1, 0.43), full_run(1)]
    page = page_of(rows)
    other = part(page, "Other runs")
    assert "bfloat16 on a GPU" in other
    assert "float32 on a GPU" in other
    assert line(other, "cifar10 | own")[5] == "41.0"
    assert line(other, "cifar10 | puridiver")[5] == "42.0"
    assert line(part(page, "Runs set aside"), "cifar10")[5] == "43.0"


def test_a_second_data_set_gets_its_tables_when_it_has_runs() -> None:
    assert "CIFAR-100" not in page_of([full_run(1)])
    run = full_run(1, 0.35, data="cifar100", memory=2000, network="resnet32")
    summary = part(page_of([run]), "CIFAR-100: does it reproduce?")
    assert line(summary, "sym-40")[1:4] == ["35.0 ± - (1)", "33.4", "+1.60 ± -"]


def test_commits_and_versions_are_told() -> None:
    text = part(page_of([full_run(1), full_run(2), full_run(3, commit=None)]), "To derive a figure again")
    assert line(text, "aaaaaaaa")[1:4] == ["2", "0.1.0", "2.11.0"]
    assert line(text, "not told")[1] == "1"


def test_a_fidelity_row_run_in_the_order_of_the_files_alone_is_told_as_such() -> None:
    shuffled = [full_run(seed, 0.5) for seed in (1, 2, 3)]
    listed = [{**run, "stream": f"{run['stream'].removesuffix(':shuffled')}:listed"} for run in fidelity_rows()]
    block = fidelity_block([*shuffled, *listed])
    alone = line(fidelity_block(fidelity_rows()), "row 4: what is re-labelled")
    assert line(block, "row 4: what is re-labelled")[1] == f"{alone[1]} (files' order)"
    both = line(fidelity_block([*fidelity_rows(), *listed]), "row 4: what is re-labelled")
    assert both == alone  # shuffled ones count before others,
    changed = {"options_changed": {"relabel_set": "low_uncertainty"}}
    once = line(fidelity_block([*shuffled, full_run(1, 0.1, **changed), *listed]), "row 4: what is re-labelled")
    assert once[1].endswith("(files' order)")  # but not before a verdict


def test_the_parts_of_an_ablation_are_told_less_the_whole_by_the_seeds_run_both_ways() -> None:
    whole = [full_run(seed, 0.5) for seed in (1, 2, 3)]
    neither = {"options_changed": {"relabel": False, "consistency": False}}
    parts = [full_run(1, 0.52, **neither), full_run(2, 0.54, **neither)]
    other_recipe = [
        full_run(1, 0.2, recipe="paper", epochs=256, **neither),
        full_run(1, 0.1, recipe="paper", epochs=256, options_changed={}),
    ]
    heading = "CIFAR-10, Table 3: re-labelling and consistency"
    found = part(page_of([*whole, *parts, *other_recipe]), heading).split("Each line less")[1]
    assert line(found, "neither")[1:3] == ["", "+3.00 ± 1.00 (2; p = 0.20)"]
    assert line(found, "neither, recipe paper")[2] == "+10.00 ± - (1)"
    assert "| re-label + consistency" not in found.split("<details>")[0]
    assert "Each line less" not in part(page_of(whole), heading)
