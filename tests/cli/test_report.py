"""`puridiver report` and `puridiver figure`: finished runs as a page and as pictures."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from puridiver.cli import main


def test_a_figure_of_runs(finished_run, picture_run, tmp_path):
    out = tmp_path / "picture.svg"
    assert main(["figure", "accuracy", str(finished_run), str(picture_run), "--out", str(out)]) == 0
    assert "Accuracy" in out.read_text()
    sizes = []
    for dpi in ("60", "30"):  # its own picture may be replaced
        assert main(["figure", "confusion", str(finished_run), "--out", str(tmp_path / "x.png"), "--dpi", dpi]) == 0
        with Image.open(tmp_path / "x.png") as picture:
            sizes.append(picture.size[0])
    assert sizes[0] == pytest.approx(2 * sizes[1], abs=2)


def test_a_figure_of_the_paper_is_drawn_from_its_grid(finished_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished_run, tmp_path / "runs" / "figure-mixtures" / "cells" / "one")
    assert main(["figure", "figure-mixtures", "--dpi", "30"]) == 0
    assert capsys.readouterr().out == "figure-mixtures.png\n"


def test_a_page_is_written_and_shown(finished_run, tmp_path, monkeypatch, capsys):
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    monkeypatch.setattr("puridiver.report.page.render", lambda runs, notes, against: f"a page of {len(runs)} run")
    shutil.copytree(finished_run, tmp_path / "half")
    (tmp_path / "half" / "summary.json").unlink()
    page = tmp_path / "new" / "page[/b].html"
    words = ["report", str(finished_run), str(tmp_path / "half"), "--out", str(page), "--open"]
    assert main(words) == 0
    assert page.read_text() == "a page of 1 run"
    assert seen == [page.as_uri()]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [str(page)]
    assert "note: left out: " in shown.err
    seen.clear()
    monkeypatch.setattr("puridiver.report.page.render", lambda runs, notes, against: f"beside {len(against)}")
    words = ["report", str(finished_run), "--against", str(finished_run), "--out", str(page), "--force"]
    assert main(words) == 0
    assert page.read_text() == "beside 1"


@pytest.mark.parametrize("command", [["report"], ["figure", "accuracy"]])
def test_other_files_are_not_overwritten(command, finished_run, tmp_path):
    kept = [tmp_path / "mine.svg", tmp_path / "mine.html", tmp_path / "target"]
    for path in kept:
        path.write_text("mine")
    (tmp_path / "link.svg").symlink_to(tmp_path / "target")
    before = (finished_run / "summary.json").read_text()
    for place in (*kept[:2], tmp_path / "link.svg", finished_run / "summary.json"):
        assert main([*command, str(finished_run), "--out", str(place)]) == 2
    assert [path.read_text() for path in kept] == ["mine"] * 3
    assert (finished_run / "summary.json").read_text() == before
    if command[0] == "figure":
        assert main([*command, str(finished_run), "--out", str(kept[0]), "--force"]) == 0
        assert kept[0].read_text() != "mine"


@pytest.mark.parametrize(("command", "library"), [("figure", "matplotlib"), ("report", "jinja2")])
def test_without_a_library_it_says_how_to_get_it(finished_run, tmp_path, monkeypatch, capsys, command, library):
    monkeypatch.setitem(sys.modules, library, None)
    name = ["accuracy"] if command == "figure" else []
    assert main([command, *name, str(finished_run), "--out", str(Path(tmp_path) / "x.svg")]) == 2
    assert "pip install 'puridiver[" in capsys.readouterr().err
