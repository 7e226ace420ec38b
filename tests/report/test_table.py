from __future__ import annotations

import csv
import io
import statistics
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.recipes import default_changes
from puridiver.report import FORMATS, insert_between_markers, summarise
from puridiver.report.table import (
    HEADINGS,
    as_markdown,
    as_sentence,
    latex_escaped,
    latex_label,
    latex_table,
    latex_tabular,
    spread,
)


def row(seed: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "data": "digits", "stream": "blurry-10", "noise": "sym", "noise_rate": 0.4, "sampler": "rsv",
        "trainer": "plain", "recipe": "official", "options_changed": {}, "memory": 100, "network": "small",
        "epochs": 31, "told_noise": False, "evaluated_on": "test", "shortened": False, "precision": "float32",
        "seed": seed, "last_accuracy": accuracy, "average_accuracy": 0.5, "memory_purity": 0.6, "seconds": 4.0,
    }  # fmt: skip
    return {**base, **changes}


def test_runs_that_differ_by_seed_share_a_line_with_mean_and_sample_deviation() -> None:
    (line,) = summarise([row(0, 0.5), row(1, 0.6), row(2, 0.7)])
    cells = dict(zip(HEADINGS, line, strict=True))
    assert cells["last accuracy %"] == f"60.0 ± {100 * statistics.stdev([0.5, 0.6, 0.7]):.1f}"
    assert cells["seeds"] == "3"
    assert cells["noise"] == "sym-40"


def test_runs_that_diverged_are_counted_beside_their_figure() -> None:
    lines = summarise([row(0, 0.1, diverged=True), row(1, 0.1, diverged=True), row(2, 0.1, recipe="paper")])
    assert [line[5] for line in lines] == ["10.0 ± 0.0 (2 diverged)", "10.0"]
    assert all("(2 diverged)" in FORMATS[form](lines) for form in FORMATS)


def test_one_run_has_no_deviation() -> None:
    assert summarise([row(0, 0.5)])[0][5] == "50.0"


@pytest.mark.parametrize(
    "change",
    [
        {"sampler": "gbs"}, {"trainer": "selfie"}, {"recipe": "paper"}, {"noise_rate": 0.2}, {"memory": 50},
        {"options_changed": {"eta": 0.5}}, {"told_noise": True}, {"evaluated_on": "validation"}, {"shortened": True},
        {"precision": "bfloat16"}, {"epochs": 3}, {"data": "cifar10"}, {"code_hash": "later"}, {"settings_hash": "a"},
        {"graphs": True}, {"device": "a GPU"}, {"commit": "later"}, {"task_accuracy": [0.5] * 5},
    ],
)  # fmt: skip
def test_runs_of_different_kinds_never_share_a_line(change: dict[str, Any]) -> None:
    assert len(summarise([row(0, 0.5), row(0, 0.9, **change)])) == 2


def test_the_order_in_which_options_were_asked_for_tells_no_kinds_apart() -> None:
    one, other = {"eta": 0.5, "online_lr": 0.01}, {"online_lr": 0.01, "eta": 0.5}
    (line,) = summarise([row(0, 0.5, options_changed=one), row(1, 0.7, options_changed=other)])
    assert line[9] == "2"
    assert [summarise([row(0, 0.5, options_changed=asked)])[0][3] for asked in (one, other)] == [line[3]] * 2


def test_lines_that_would_read_the_same_name_code_or_settings() -> None:
    first = {"code_hash": "a" * 64, "settings_hash": "c" * 64}
    rows = [row(0, 0.5, **first), row(0, 0.7, **first | {"code_hash": "b" * 64})]
    assert [line[3] for line in summarise(rows)] == ["official, code aaaaaaa", "official, code bbbbbbb"]
    rows = [row(0, 0.5, **first), row(0, 0.7, **first | {"settings_hash": "d" * 64}), row(0, 0.5, recipe="paper")]
    assert [line[3] for line in summarise(rows)] == [
        "official, settings ccccccc",
        "official, settings ddddddd",
        "paper",
    ]


def test_lines_of_other_streams_name_them() -> None:
    streams = ("official:sym40:0:shuffled", "official:sym40:0", "disjoint")
    found = [line[3] for line in summarise([row(0, 0.5, stream=stream) for stream in streams])]
    names = ("shuffled, stream official", "listed, stream official", "stream disjoint")
    assert found == [f"official, {name}" for name in names]


def test_lines_that_read_the_same_say_in_what_they_differ() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"memory": 50}, {"network": "resnet18"}, {"evaluated_on": "validation"}, {"task_accuracy": [0.5]},
    ]  # fmt: skip
    found = [line[3] for line in summarise([row(0, 0.5, **change) for change in changes])]
    assert ["memory 50" in found[1], "network resnet18" in found[2], "judged on validation" in found[3]] == [True] * 3
    assert "tasks 1" in found[4]
    assert len(set(found)) == len(found)
    assert not any("settings" in text for text in found)


def test_what_differs_is_named_on_every_line_of_the_data_also_where_lines_differ_anyway() -> None:
    """Else one would take the accuracy for the epochs' doing alone, or the stream's."""
    changes: list[dict[str, Any]] = [
        {"options_changed": {"epochs": 15}, "memory": 100}, {"options_changed": {"epochs": 31}, "memory": 50},
        {"data": "cifar10", "memory": 500},
    ]  # fmt: skip
    found = [line[3] for line in summarise([row(0, 0.5, **change) for change in changes])]
    assert found == ["official, epochs=15, memory 100", "official, epochs=31, memory 50", "official"]
    sizes: list[dict[str, Any]] = [{"image_size": 16, "settings_hash": "a"}, {"settings_hash": "b"}]
    found = [line[3] for line in summarise([row(0, 0.5, **size) for size in sizes])]
    assert found == ["official, image size 16", "official, image size by default"]
    sizes[0]["options_changed"] = {"eta": 2.0}
    found = [line[3] for line in summarise([row(0, 0.5, **size) for size in sizes])]
    assert found == ["official, eta=2.0, image size 16", "official, image size by default"]


def test_signs_of_formats_are_escaped() -> None:
    assert latex_escaped("p < 0.05 | x > y --any-code") == r"p $<$ 0.05 \textbar{} x $>$ y -{}-any-code"
    assert FORMATS["markdown"]([("a|b", "c")], ("x", "y")).splitlines()[2] == r"| a\|b | c |"


def test_rows_of_both_orders_of_published_streams_tell_theirs() -> None:
    listed = row(0, 0.5, stream="official:sym40:0", options_changed={"eta": 2.0})
    assert [line[3] for line in summarise([listed, row(0, 0.5, stream="official:sym40:0:shuffled")])] == [
        "official, eta=2.0, listed",
        "official, shuffled",
    ]
    assert [line[3] for line in summarise([listed])] == ["official, eta=2.0"]
    both = [row(0, 0.5, stream=f"official:sym40:0:{order}", settings_hash=order) for order in ("listed", "shuffled")]
    assert [line[3] for line in summarise(both)] == ["official, listed", "official, shuffled"]


def test_a_run_that_was_repeated_counts_once_the_later_one() -> None:
    (line,) = summarise([row(0, 0.1), row(0, 0.5)])
    cells = dict(zip(HEADINGS, line, strict=True))
    assert (cells["last accuracy %"], cells["seeds"]) == ("50.0", "1")


def test_anytime_accuracy_has_a_column_and_is_left_open_where_it_is_not_known() -> None:
    for area, expected in ((0.4, "40.0"), (None, "-")):
        (line,) = summarise([row(0, 0.5, anytime_area=area)])
        assert dict(zip(HEADINGS, line, strict=True))["anytime %"] == expected


def test_published_streams_of_several_seeds_are_of_one_kind() -> None:
    rows = [row(seed, 0.5, stream=f"official:sym40:{seed}") for seed in (1, 2, 3)]
    assert len(summarise(rows)) == 1
    assert len(summarise([*rows, row(1, 0.5, stream="official:sym20:1")])) == 2


def test_every_format_holds_every_cell() -> None:
    lines = summarise([row(0, 0.5), row(0, 0.9, recipe="paper", options_changed={"eta": 0.5})])
    for name, form in FORMATS.items():
        text = form(lines)
        for cell in (*HEADINGS, "paper, eta=0.5", "90.0"):
            assert (latex_escaped(cell) if name == "latex" else cell) in text
    parsed = list(csv.reader(io.StringIO(FORMATS["csv"](lines))))
    assert [tuple(cells) for cells in parsed] == [HEADINGS, *lines]


def test_markdown_shows_signs_that_a_page_would_take_for_its_own() -> None:
    assert as_markdown([("a<d>|b", "*_<0.001")], ("m", "p")).splitlines()[-1] == "| a&lt;d>\\|b | *_&lt;0.001 |"


def test_only_what_stands_between_the_markers_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x:begin -->\nold\n<!-- x:end -->\nafter\n")
    for _ in range(2):
        insert_between_markers(page, "x", "new")
    assert page.read_text() == "before\n<!-- x:begin -->\nnew\n<!-- x:end -->\nafter\n"


@pytest.mark.parametrize("text", ["none", "<!-- x:end --><!-- x:begin -->", "<!-- x:begin -->" * 2 + "<!-- x:end -->"])
def test_a_page_without_its_markers_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(DataError, match="markers"):
        insert_between_markers(page, "x", "new")
    assert page.read_text() == text


def test_latex_has_figures_to_the_right_and_true_minus_signs() -> None:
    lines = [["blurry-10", "rsv", "-0.33 ± 0.57", "-1.91 to +1.24", "-"], ["blurry-10", "gbs", "+1.00", "-", "0.5"]]
    text = latex_table(
        ["stream", "method", "difference", "interval", "p"], lines, "5 % of rows, -1 is less.", "tab:mine", "of 3 & 4"
    )
    assert r"\begin{tabular}{llrrr}" in text
    assert r"blurry-10 & rsv & $-$0.33 $\pm$ 0.57 & $-$1.91 to +1.24 & - \\" in text
    assert r"\caption{5 \% of rows, $-$1 is less.}" in text
    assert text.index(r"\caption") < text.index(r"\label{tab:mine}") < text.index(r"\begin{tabular}")
    assert r"{\footnotesize of 3 \& 4}" in text.partition(r"\end{tabular}")[2]
    assert text.startswith("% needs")
    assert latex_tabular(["a", "b"], []).startswith(r"\begin{tabular}{ll}")


def test_a_latex_label_has_only_signs_that_mean_nothing_to_latex() -> None:
    assert latex_label("my_grid 50%", "", "Pictures/CATS.csv") == "tab:my-grid-50-pictures-cats-csv"


@pytest.mark.parametrize(("words", "sentence"), [("Entropy?", "Entropy?"), ("a table", "a table."), ("", ".")])
def test_a_sentence_ends_once(words: str, sentence: str) -> None:
    assert as_sentence(words) == sentence


def test_latex_has_the_rules_of_booktabs_and_no_bare_special_character() -> None:
    text = latex_tabular(["a_b", "50 %"], [["R&D", "[1 ± 2]"]])
    assert text.splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a\_b & 50 \% \\",
        r"\midrule",
        r"R\&D & {[}1 $\pm$ 2{]} \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_a_run_by_the_default_of_another_time_says_what_that_was() -> None:
    now = default_changes()
    then = {**now, "online_lr": 0.02, "lr": 0.1}
    del then["online_steps"]
    rows = [
        row(0, 0.5, recipe="puridiver", default_changes=changes, settings_hash=str(changes)) for changes in (now, then)
    ]
    rows.append(row(0, 0.5, recipe="official", default_changes=then))
    found = [line[3] for line in summarise(rows)]
    assert found == ["puridiver", "puridiver, online_lr=0.02, online_steps=1, lr=0.1", "official"]


def test_what_the_default_was_is_told_of_what_the_methods_read_alone() -> None:
    then = {**default_changes(), "online_lr": 0.02, "eta": 2.0, "arrival_weight": 1.0}
    methods = {"sampler": "rsv", "trainer": "plain"}
    (line,) = summarise([row(0, 0.5, recipe="puridiver", default_changes=then, **methods)])
    assert line[3] == "puridiver, online_lr=0.02"


def test_a_mean_that_rounds_to_zero_has_no_minus() -> None:
    assert spread([-0.0001, -0.0003]) == "0.0 ± 0.0"


def test_runs_that_went_on_under_other_code_are_averaged_with_none() -> None:
    mixed = [
        row(seed, 0.5 + seed / 10, code_hash=None, cell=None, began_with={"code_hash": str(seed)}) for seed in (1, 2)
    ]
    lines = summarise([*mixed, row(3, 0.9)])
    assert [line[5] for line in lines] == ["60.0", "70.0", "90.0"]
    assert ["code several" in line[3] for line in lines] == [True, True, False]


def test_streams_of_manifests_that_were_overwritten_are_not_averaged() -> None:
    """By hand one may make others under the same names: which belong together is not known."""
    made = {"stream": "mine-{seed}.json", "settings_hash": "same"}
    first = [row(seed, 0.5, **made, stream_hash=f"first{seed}") for seed in (1, 2)]
    assert [line[9] for line in summarise(first)] == ["2"]
    lines = summarise([*first, row(1, 0.7, **made, stream_hash="other1")])
    assert [line[5] for line in lines] == ["50.0", "50.0", "70.0"]
    assert "manifest other1" in lines[2][3]
    again = summarise([*first, row(1, 0.7, **made, stream_hash="first1")])
    assert [(line[5], line[9]) for line in again] == [("60.0 ± 14.1", "2")]
