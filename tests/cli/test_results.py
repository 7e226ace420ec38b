"""`puridiver results`: writes the pages, checks them, and says what is wrong with a ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from puridiver.cli import main
from puridiver.recipes import default_changes
from tests.grid.page.samples import full_run, runs_of, write_ledger

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return write_ledger(tmp_path / "ledger.jsonl", [full_run(1, 0.56), full_run(2, 0.58)])


def test_the_committed_pages_are_what_the_committed_ledger_gives(capsys: pytest.CaptureFixture[str]) -> None:
    pages = ["--out", str(ROOT / "docs" / "RESULTS.md"), "--fidelity", str(ROOT / "docs" / "FIDELITY.md")]
    pages += ["--headline", str(ROOT / "README.md"), "--picture", str(ROOT / "docs" / "cifar10.png")]
    pages += ["--fidelity-picture", str(ROOT / "docs" / "fidelity.png")]
    pages += ["--alpha-picture", str(ROOT / "docs" / "alpha.png")]
    code = main(["results", str(ROOT / "results" / "cifar10.jsonl"), *pages, "--check"])
    assert (code, capsys.readouterr().err) == (0, "")


def test_the_headline_goes_between_its_markers(ledger: Path, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("one\n<!-- headline:begin -->\nold\n<!-- headline:end -->\ntwo\n")
    assert main(["results", str(ledger), "--headline", str(page)]) == 0
    head, *lines, last = page.read_text().splitlines()
    assert (head, last) == ("one", "two")
    rows = [line for line in lines if line.startswith("|")]
    cells = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in rows}
    assert (
        "Recipe `official`: **Within 2 points of the independent rerun's last epoch: 1 of 5 noises" in page.read_text()
    )
    at_least = (
        "Recipe `puridiver`: **At least at the paper's figure by true last accuracy: 0 of 5 noises (0 not, 5 not run)"
    )
    assert at_least in page.read_text()
    assert cells["PuriDivER, recipe official"][:2] == ["not run / 61.3 ± 2.1", "57.0 ± 1.4 (2) / 59.2 ± 0.3"]
    assert cells["PuriDivER, an independent rerun of the released program, last epoch"][1] == "57.1 ± 1.9 (3)"
    assert "iles' order" not in page.read_text()
    purity = 100 * full_run()["memory_purity"]
    assert cells["memory purity %: PuriDivER, recipe official"] == ["-", f"{purity:.1f} (2)", "-", "-", "-"]


def test_figures_in_the_order_of_the_files_are_told_as_such(tmp_path: Path) -> None:
    rows = [full_run(1, stream="official:sym40:1:listed"), full_run(1, sampler="rm", stream="official:sym40:1:listed")]
    rows.append(full_run(1, stream="official:sym40:1:listed", options_changed={"relabel_set": "low_uncertainty"}))
    page, ledger = tmp_path / "page.md", write_ledger(tmp_path / "ledger.jsonl", rows)
    for name in ("headline", "fidelity"):
        page.write_text(f"<!-- {name}:begin -->\n<!-- {name}:end -->\n")
        assert main(["results", str(ledger), f"--{name}", str(page)]) == 0
        assert "in the order of their files" in page.read_text()
        assert "files' order" in page.read_text()
    assert main(["results", str(ledger), "--out", str(page)]) == 0
    assert "## CIFAR-10 in the order of the files: does it reproduce?" in page.read_text()
    assert "## CIFAR-10, the supplement's table" in page.read_text()


def test_the_headline_has_both_orders_of_a_line_that_was_run_more_often_in_that_of_the_files(tmp_path: Path) -> None:
    noises = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")
    recipes: tuple[dict[str, Any], ...] = ({}, {"recipe": "puridiver", "default_changes": default_changes()})
    names = {noise: f"official:{noise.replace('-', '')}:1:listed" for noise in noises}
    listed = [full_run(1, 0.5, noise, stream=names[noise], **recipe) for noise in noises for recipe in recipes]
    listed += [{**run, "sampler": "rm", "trainer": "plain"} for run in listed if run["recipe"] == "official"]
    official, default = ([full_run(1, 0.6, noise, **recipe) for noise in noises] for recipe in recipes)
    for shuffled, more in (
        (official, {"PuriDivER, recipe puridiver", "RM"}),
        ([*official, *default[:4]], {"PuriDivER, recipe puridiver", "RM"}),
        ([*official, *default], {"RM"}),
    ):
        page = tmp_path / "page.md"
        page.write_text("<!-- headline:begin -->\n<!-- headline:end -->\n")
        ledger = write_ledger(tmp_path / "ledger.jsonl", [*listed, *shuffled])
        assert main(["results", str(ledger), "--headline", str(page)]) == 0
        titles = [line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("|")]
        listed_titles = {title.removesuffix(", files' order") for title in titles if title.endswith(", files' order")}
        purities = {f"memory purity %: {title}" for title in more if title != "RM"}
        assert listed_titles == more | purities
        assert {"PuriDivER, recipe official", "PuriDivER, recipe puridiver"} < set(titles)
        assert "[row 23]" in page.read_text()


def test_the_headline_has_the_plain_baselines_that_were_run_under_every_noise(tmp_path: Path) -> None:
    rows = [row for row in runs_of("table1") if row["sampler"] in ("rsv", "rm")]
    rows = [row for row in rows if row["sampler"] == "rsv" or row["noise_rate"] != 0.6]  # RM lacks sym-60
    page = tmp_path / "README.md"
    page.write_text("<!-- headline:begin -->\n<!-- headline:end -->\n")
    assert main(["results", str(write_ledger(tmp_path / "ledger.jsonl", rows)), "--headline", str(page)]) == 0
    titles = [line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("|")]
    assert "RSV" in titles
    assert not [title for title in titles if "RM" in title or "SELFIE" in title]


def test_without_a_page_it_is_printed(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", str(ledger)]) == 0
    assert "57.0 ± 1.4 (2)" in capsys.readouterr().out


def test_a_page_is_written_and_found_up_to_date_from_any_folder(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    assert main(["results", str(ledger), "--out", str(page)]) == 0
    assert page.read_text().startswith("<!-- Made by `puridiver results ledger.jsonl --out docs/page.md` from 2 rows.")
    assert "[ledger.jsonl](../ledger.jsonl)" in page.read_text()
    monkeypatch.chdir(page.parent)
    assert main(["results", "../ledger.jsonl", "--out", "page.md", "--check"]) == 0


def test_a_page_that_is_not_up_to_date_is_named_and_left_alone(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, fidelity = tmp_path / "page.md", tmp_path / "fidelity.md"
    fidelity.write_text("one\n<!-- fidelity:begin -->\nold\n<!-- fidelity:end -->\ntwo\n")
    arguments = ["results", str(ledger), "--out", str(page), "--fidelity", str(fidelity)]
    assert main([*arguments, "--check"]) == 1
    told = capsys.readouterr().err
    assert f"{page} is not what {ledger} gives: it is not there" in told
    assert f"{fidelity} is not what {ledger} gives: line 3 is the first that differs" in told
    assert "without --check" in told
    assert "old" in fidelity.read_text()
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    assert fidelity.read_text().startswith("one\n<!-- fidelity:begin -->\nA difference is")
    write_ledger(ledger, [full_run(1, 0.56)])
    assert main([*arguments, "--check"]) == 1


def test_a_page_without_markers_is_an_error_that_names_them(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("nothing here")
    assert main(["results", str(ledger), "--fidelity", str(tmp_path / "page.md")]) == 2
    assert "<!-- fidelity:begin -->" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("broken", "told"), [("{", "line 3, is not JSON"), ('{"seed": 1}', "line 3, is not the row of a finished run")]
)
def test_a_broken_line_is_an_error_that_names_it(
    ledger: Path, broken: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.write_text(ledger.read_text() + broken + "\n")
    assert main(["results", str(ledger)]) == 2
    assert told in capsys.readouterr().err


def test_an_empty_ledger_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", str(write_ledger(tmp_path / "ledger.jsonl", []))]) == 0
    assert "from 0 rows" in capsys.readouterr().out


def test_commands_of_every_row(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["results", str(ledger), "--commands"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"# 1: 56.00%, commit {'a' * 40}, puridiver 0.1.0, torch 2.11.0, NVIDIA H200")
    assert lines[1::2] == ["puridiver run --seed 1"] * 2


def test_the_command_of_a_row_from_before_published_streams_were_shuffled_says_what_it_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [full_run(1, stream="official:sym40:1"), full_run(1, stream="official:sym40:1:listed"), full_run(1)]
    assert main(["results", str(write_ledger(tmp_path / "ledger.jsonl", rows)), "--commands"]) == 0
    assert capsys.readouterr().out.count("official:sym40:1 was what official:sym40:1:listed is now") == 1


def test_commands_of_one_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [full_run(1, 0.9), full_run(2, options_changed={"eta": 2.0}), full_run(1, 0.5)]
    ledger = str(write_ledger(tmp_path / "ledger.jsonl", rows))
    asked = ["--commands", "--line", "PuriDivER, recipe official", "--noise", "sym-40"]
    assert main(["results", ledger, *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("PuriDivER, recipe official, sym-40: 50.00%, seeds 1")
    assert lines[1].startswith("# 3: 50.00%, commit")
    assert lines[2:4] == ["puridiver run --seed 1", "# 1: 90.00%, seed 1, set aside for a later run"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--check"], "say --out"),
        (["--commands", "--check"], "--commands"),
        (["--line", "RSV"], "--line goes with --commands"),
        (["--commands", "--noise", "sym-40"], "--noise with --line"),
    ],
)
def test_flags_that_do_not_go_together(
    ledger: Path, flags: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", str(ledger), *flags]) == 2
    assert told in capsys.readouterr().err


def test_a_picture_of_the_headline_is_checked_by_its_numbers(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture, page = tmp_path / "figures" / "cifar10.png", tmp_path / "docs" / "RESULTS.md"
    page.parent.mkdir()
    command = ["results", str(ledger), "--picture", str(picture), "--out", str(page)]
    assert main(command) == 0
    assert "](../figures/cifar10.png)" in page.read_text()
    assert f"--out {page.parent.name}/{page.name} --picture figures/cifar10.png" in page.read_text()
    assert main([*command, "--check"]) == 0
    with ledger.open("a") as file:
        file.write(json.dumps(full_run(3, 0.6)) + "\n")
    capsys.readouterr()
    assert main(["results", str(ledger), "--picture", str(picture), "--check"]) == 1
    assert "does not show what" in capsys.readouterr().err
    assert main(["results", str(ledger), "--picture", str(tmp_path / "no.png"), "--check"]) == 1


def test_a_picture_of_the_fidelity_ablation_is_checked_by_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [full_run(1, 0.5), full_run(1, 0.4, options_changed={"evict_from": "memory"})]
    ledger, picture = write_ledger(tmp_path / "ledger.jsonl", rows), tmp_path / "fidelity.png"
    command = ["results", str(ledger), "--fidelity-picture", str(picture)]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{picture}\n"  # and no page
    assert main([*command, "--check"]) == 0
    write_ledger(ledger, [*rows, full_run(2, 0.5), full_run(2, 0.3, options_changed={"evict_from": "memory"})])
    assert main([*command, "--check"]) == 1
    assert "does not show what" in capsys.readouterr().err
    write_ledger(ledger, rows[:1])
    assert main(command) == 2
    assert "no runs of the fidelity ablation" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "options"), [("cifar10.jpg", []), ("cifar10.svg", ["--check"])])
def test_pictures_that_cannot_be_drawn_or_checked_are_refused(
    ledger: Path, tmp_path: Path, name: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["results", str(ledger), "--picture", str(tmp_path / name), *options]) == 2
    assert ".png" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("one", "other"), [("--picture", "--fidelity-picture"), ("--out", "--picture"), ("--out", "--headline")]
)
def test_two_results_do_not_go_into_one_file(
    ledger: Path, tmp_path: Path, one: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.png"
    assert main(["results", str(ledger), one, str(file), other, str(tmp_path / "." / "one.png")]) == 2
    assert f"{one} and {other} name the same file" in capsys.readouterr().err
    assert not file.exists()


def test_a_page_that_is_no_text_is_named(ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "picture.png"
    page.write_bytes(b"\x89PNG")
    assert main(["results", str(ledger), "--headline", str(page)]) == 2
    assert "picture.png is no page of text" in capsys.readouterr().err


def test_a_ledger_without_runs_to_draw_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = write_ledger(tmp_path / "ledger.jsonl", [full_run(1, shortened=True)])
    assert main(["results", str(ledger), "--picture", str(tmp_path / "cifar10.png")]) != 0
    assert "no whole runs" in capsys.readouterr().err


def test_a_page_does_not_lose_its_picture_because_nobody_named_it(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "RESULTS.md"
    assert main(["results", str(ledger), "--out", str(page), "--picture", str(tmp_path / "cifar10.png")]) == 0
    before = page.read_text()
    assert main(["results", str(ledger), "--out", str(page)]) == 2
    assert "say --picture cifar10.png, too" in capsys.readouterr().err
    assert page.read_text() == before


def test_nothing_is_written_where_the_picture_cannot_be_drawn(tmp_path: Path) -> None:
    ledger = write_ledger(tmp_path / "ledger.jsonl", [full_run(1, shortened=True)])
    page = tmp_path / "RESULTS.md"
    assert main(["results", str(ledger), "--out", str(page), "--picture", str(tmp_path / "cifar10.png")]) == 2
    assert not page.exists()


def test_a_page_names_files_with_spaces_so_that_links_and_the_command_work(ledger: Path, tmp_path: Path) -> None:
    page, picture = tmp_path / "RESULTS.md", tmp_path / "my picture.png"
    command = ["results", str(ledger), "--out", str(page), "--picture", str(picture)]
    assert main(command) == 0
    assert "](<my picture.png>)" in page.read_text()
    assert "--picture 'my picture.png'" in page.read_text()
    assert main([*command, "--check"]) == 0


def test_a_picture_that_was_cut_off_does_not_pass(ledger: Path, tmp_path: Path) -> None:
    picture = tmp_path / "cifar10.png"
    command = ["results", str(ledger), "--picture", str(picture)]
    assert main(command) == 0
    content = picture.read_bytes()
    picture.write_bytes(content[: len(content) // 2])
    assert main([*command, "--check"]) == 1
