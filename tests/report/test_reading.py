from __future__ import annotations

import dataclasses
import json
import re
import shutil
import statistics
from pathlib import Path

import pytest

from puridiver.errors import DataError
from puridiver.report import curves
from puridiver.report.page import page_title
from puridiver.report.reading import OPTION, Run, faceted, find_runs, grouped, read_run, uncrowded
from puridiver.report.titles import Title, write_titles
from puridiver.runs.folder import CELL_SHOWN, append_to_ledger
from tests.report.test_figures import painted


@pytest.fixture
def copy(grid: Path, tmp_path: Path) -> Path:
    """A run folder that a test may damage."""
    shutil.copytree(grid / "cells" / "plain-0", tmp_path / "run")
    return tmp_path / "run"


def test_a_grid_stands_for_its_finished_runs(grid: Path) -> None:
    runs, notes = find_runs([grid])
    assert sorted(run.folder.name for run in runs) == ["alpha", "plain-0", "puridiver-0", "puridiver-1"]
    assert notes == []


def test_a_run_that_is_named_twice_counts_once(grid: Path) -> None:
    assert len(find_runs([grid, grid / "cells" / "plain-0"])[0]) == 4


def test_an_unfinished_run_alone_is_an_error_and_among_others_a_note(copy: Path, grid: Path) -> None:
    (copy / "summary.json").unlink()
    with pytest.raises(DataError, match=r"no finished run: summary.json is missing; it has not come to its end"):
        find_runs([copy])
    runs, notes = find_runs([copy, grid / "cells" / "plain-0"])
    assert [run.folder.name for run in runs] == ["plain-0"]
    assert len(notes) == 1
    assert str(copy) in notes[0]


@pytest.mark.parametrize("name", ["summary.json", "config.json", "manifest.json", "metrics.jsonl"])
@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b"{}"])
def test_a_damaged_file_is_named(copy: Path, name: str, content: bytes) -> None:
    (copy / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name} is damaged"):
        read_run(copy)


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("summary.json", {"stream": {}}, "summary.json is damaged: stream should be str"),
        ("summary.json", {"noise_rate": 1e308}, "summary.json is damaged: noise_rate should be from 0 to 1"),
        ("manifest.json", {"class_names": [3]}, "manifest.json is damaged: class_names should be names"),
    ],
)
def test_a_file_with_values_of_another_kind_is_damaged(copy: Path, name: str, changes: dict, told: str) -> None:
    (copy / name).write_text(json.dumps({**json.loads((copy / name).read_text()), **changes}))
    with pytest.raises(DataError, match=told):
        read_run(copy)


@pytest.mark.parametrize(
    ("name", "value"), [("seen", "x"), ("accuracy", ["x"]), ("memory_per_class", 3), ("alpha", True)]
)
def test_an_event_with_a_figure_of_another_kind_is_damaged(copy: Path, name: str, value: object) -> None:
    first, *rest = (copy / "metrics.jsonl").read_text().splitlines()
    (copy / "metrics.jsonl").write_text("\n".join([json.dumps({**json.loads(first), name: value}), *rest]))
    with pytest.raises(DataError, match=rf"metrics.jsonl is damaged: {name} of the event 'anytime' should be"):
        read_run(copy)


def test_metrics_that_miss_a_task_are_damaged(copy: Path) -> None:
    lines = (copy / "metrics.jsonl").read_text().splitlines()
    cut = next(i for i, line in enumerate(lines) if json.loads(line)["event"] == "task")
    (copy / "metrics.jsonl").write_text("\n".join(lines[:cut]))
    with pytest.raises(DataError, match="the ends of 2 tasks, not 0"):
        read_run(copy)


def test_what_is_no_run_folder_is_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "grid" / "cells").mkdir(parents=True)
    for path, words in ((tmp_path / "none", "there is no such folder"), (tmp_path / "file", "is a file"),
                        (tmp_path / "grid", "a grid without a run"), (tmp_path, "holds no finished run")):  # fmt: skip
        with pytest.raises(DataError, match=words):
            find_runs([path])


def test_runs_that_differ_by_seed_alone_are_one_group(grid: Path) -> None:
    groups = {group.label: group for group in grouped(find_runs([grid])[0])}
    assert {label: [run.seed for run in group.runs] for label, group in groups.items()} == {
        "puridiver + puridiver": [0, 1],
        "puridiver + puridiver, alpha=0.3": [0],
        "rsv + plain": [0],
    }
    both = groups["puridiver + puridiver"]
    values = [run.summary["last_accuracy"] for run in both.runs]
    assert both.spread(lambda run: run.summary["last_accuracy"]) == pytest.approx(
        (statistics.mean(values), statistics.stdev(values))
    )


def titled(run: Run, title: str, *options: str, **changed_options: object) -> Run:
    summary = {**run.summary, "options_changed": changed_options, "settings_hash": str(changed_options)}
    return dataclasses.replace(run, summary=summary, title=Title(title, options))


def test_a_label_has_the_grids_title_in_the_place_of_a_method_and_its_own_options(grid: Path) -> None:
    one, other = (read_run(grid / "cells" / name) for name in ("puridiver-0", "plain-0"))
    strong, base = titled(one, "PuriDivER, strong", "eta", eta=2.0), titled(other, "base", eta=0.5)
    assert [group.label for group in grouped([strong, base])] == ["PuriDivER, strong", "base"]
    assert [group.label for group in grouped([strong])] == ["PuriDivER, strong"]
    # What was changed from outside is told all the same.
    padded = titled(one, "PuriDivER, strong", "eta", eta=2.0, crop_padding=2)
    assert [group.label for group in grouped([strong, base, padded])] == [
        "PuriDivER, strong", "base", "PuriDivER, strong, crop_padding=2",
    ]  # fmt: skip
    # Two titles of one kind of run are still one group.
    assert len(grouped([strong, dataclasses.replace(strong, title=Title("by another name"))])) == 1
    # A title may stand for the property that is ignored.
    alphas = [titled(one, f"alpha {alpha}", "alpha", alpha=alpha) for alpha in (0.1, 0.3)]
    assert [group.label for group in grouped(alphas)] == ["alpha 0.1", "alpha 0.3"]
    assert [group.label for group in grouped(alphas, ignore=(OPTION + "alpha",))] == ["puridiver + puridiver"]


def test_titles_are_read_from_the_grids_folder_and_damaged_ones_are_told(copied_grid: Path) -> None:
    cell = read_run(copied_grid / "cells" / "alpha").summary["cell"]
    write_titles(copied_grid, {cell: Title("Bälance, held", ("alpha",))})
    labels = [group.label for group in grouped(find_runs([copied_grid])[0])]
    assert labels == ["Bälance, held", "rsv + plain", "puridiver + puridiver"]
    assert page_title([read_run(copied_grid / "cells" / "alpha")]) == "Bälance, held on digits, sym-40"
    for content in ("{", "[]", '{"a": 3}', '{"a": {"title": 3, "options": []}}'):
        (copied_grid / "titles.json").write_text(content)
        with pytest.raises(DataError, match=r"titles\.json is damaged .* remove it"):
            find_runs([copied_grid])


def test_the_runs_of_a_grid_come_in_the_order_of_its_table(copied_grid: Path) -> None:
    cells = copied_grid / "cells"
    identities = {}
    for folder in sorted(cells.iterdir()):
        cell = read_run(folder).summary["cell"]
        identities[folder.name] = cell
        folder.rename(cells / f"{folder.name}-{cell[:CELL_SHOWN]}")
    wanted = ["plain-0", "puridiver-1", "alpha", "puridiver-0"]
    write_titles(copied_grid, {identities[name]: Title(name) for name in wanted})
    assert [run.title.text for run in find_runs([copied_grid])[0]] == wanted


def test_more_groups_than_one_picture_can_show_are_parted_by_stream(grid: Path) -> None:
    one = read_run(grid / "cells" / "puridiver-0")

    def run(rate: float, sampler: str) -> Run:
        summary = {**one.summary, "noise_rate": rate, "sampler": sampler}
        return Run(one.folder, summary, one.config, one.events, one.manifest)

    few = [run(rate, sampler) for rate in (0.2, 0.4) for sampler in ("rsv", "rm", "gbs")]
    assert [len(groups) for _, groups in faceted(few)] == [6]
    many = [*few, run(0.6, "gbs"), run(0.6, "rsv")]
    facets = faceted(many)
    assert [stream for stream, _ in facets] == [", sym-20", ", sym-40", ", sym-60"]
    assert {(group.label, group.number) for _, groups in facets for group in groups} == {
        ("rsv + puridiver", 0), ("rm + puridiver", 1), ("gbs + puridiver", 2),
    }  # fmt: skip


def test_more_methods_than_one_picture_can_show_are_parted_by_sampler_before_all_others(grid: Path) -> None:
    one = read_run(grid / "cells" / "puridiver-0")

    def run(sampler: str, trainer: str) -> Run:
        summary = {**one.summary, "sampler": sampler, "trainer": trainer}
        return Run(one.folder, summary, one.config, one.events, one.manifest)

    six = [run(sampler, trainer) for sampler in ("rsv", "gbs") for trainer in ("plain", "selfie", "dividemix")]
    (whole,) = uncrowded(six)
    assert (whole.title, len(whole.groups), whole.others) == ("", 6, [])
    first, second, third = uncrowded([*six, run("puridiver", "puridiver")])
    assert [facet.title for facet in (first, second, third)] == [
        ", sampler rsv", ", sampler gbs", ", sampler puridiver",
    ]  # fmt: skip
    assert [(group.label, group.number) for group in second.groups] == [
        ("gbs + plain", 0), ("gbs + selfie", 1), ("gbs + dividemix", 2),
    ]  # fmt: skip
    assert len(second.others) == 4
    assert len(third.others) == 6
    for make in (curves.accuracy_picture, curves.tasks_picture):
        labels = painted(make([*six, run("puridiver", "puridiver")]).panels[0]).get_legend_handles_labels()[1]
        assert labels[0] == "the other methods"
        assert len(labels) == 4
    assert len(uncrowded([run("rsv", f"trainer {n}") for n in range(9)])) == 1  # nothing to part them by


def test_a_label_names_only_what_differs(grid: Path) -> None:
    runs, _ = find_runs([grid / "cells" / "puridiver-0", grid / "cells" / "puridiver-1"])
    assert [group.label for group in grouped(runs)] == ["puridiver + puridiver"]


def changed(run: Run, config: dict | None = None, **summary: object) -> Run:
    """The run as another one would have left it."""
    settings = {**run.config, "config": {**run.config["config"], **(config or {})}}
    return Run(run.folder, {**run.summary, **summary}, settings, run.events, run.manifest)


def test_runs_of_different_code_or_settings_are_never_one_group(grid: Path) -> None:
    one = read_run(grid / "cells" / "puridiver-0")
    others = {
        "code bbbbbbb": changed(one, code_hash="b" * 64, seed=1),
        "holdout 700": changed(one, {"holdout": 700}, settings_hash="c" * 64, seed=1),
        "settings ddddddd": changed(one, settings_hash="d" * 64, seed=1),
        "cuda": changed(one, device="a GPU", settings_hash="e" * 64, seed=1),
    }
    for words, other in others.items():
        groups = grouped([one, other])
        assert [len(group.runs) for group in groups] == [1, 1]
        assert words in groups[1].label
        assert groups[0].label != groups[1].label


@pytest.fixture
def copied_grid(grid: Path, tmp_path: Path) -> Path:
    """The grid with a ledger of all its runs."""
    shutil.copytree(grid, tmp_path / "copy")
    for cell in sorted((tmp_path / "copy" / "cells").iterdir()):
        append_to_ledger(tmp_path / "copy" / "ledger.jsonl", json.loads((cell / "summary.json").read_text()))
    return tmp_path / "copy"


def test_a_grids_runs_of_older_code_are_left_out_with_a_note(copied_grid: Path) -> None:
    assert find_runs([copied_grid])[1] == []
    older = {"code_hash": "older", "cell": "older", "seed": 7}
    shutil.copytree(copied_grid / "cells" / "plain-0", copied_grid / "cells" / "plain-older")
    summary = {**read_run(copied_grid / "cells" / "plain-0").summary, **older}
    (copied_grid / "cells" / "plain-older" / "summary.json").write_text(json.dumps(summary))
    append_to_ledger(copied_grid / "ledger.jsonl", summary)
    runs, notes = find_runs([copied_grid])
    assert sorted(run.folder.name for run in runs) == ["alpha", "plain-0", "puridiver-0", "puridiver-1"]
    assert notes == [f"{copied_grid}: 1 run of other code than the 4 shown"]


def test_of_as_many_runs_of_two_codes_the_later_are_shown(grid: Path, tmp_path: Path) -> None:
    summary = read_run(grid / "cells" / "plain-0").summary
    for code in ("one", "two"):  # "one" is the first by name, and the last in the ledger
        shutil.copytree(grid / "cells" / "plain-0", tmp_path / "cells" / code)
        (tmp_path / "cells" / code / "summary.json").write_text(
            json.dumps({**summary, "code_hash": code, "cell": code})
        )
    for code in ("two", "one"):
        append_to_ledger(tmp_path / "ledger.jsonl", {**summary, "code_hash": code, "cell": code})
    runs, notes = find_runs([tmp_path])
    assert [run.folder.name for run in runs] == ["one"]
    assert len(notes) == 1


def test_whoever_takes_a_grid_for_a_run_is_told_where_its_runs_are(copied_grid: Path) -> None:
    first = copied_grid / "cells" / "alpha"
    told = f"a grid's folder, with 4 finished runs in {first.parent}: name one of them, such as {first}"
    with pytest.raises(DataError, match=re.escape(told)):
        read_run(copied_grid)
    shutil.rmtree(copied_grid / "cells")
    with pytest.raises(DataError, match=r"ledger\.jsonl is enough for tables, but figures need the runs' folders"):
        read_run(copied_grid)


def test_a_run_that_the_grids_ledger_does_not_have_is_left_out_with_a_note(copied_grid: Path) -> None:
    lines = (copied_grid / "ledger.jsonl").read_text().splitlines(keepends=True)
    (copied_grid / "ledger.jsonl").write_text("".join(lines[1:]))
    runs, notes = find_runs([copied_grid])
    assert sorted(run.folder.name for run in runs) == ["plain-0", "puridiver-0", "puridiver-1"]
    assert notes == [f"{copied_grid}: 1 run not in its ledger"]
