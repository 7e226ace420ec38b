from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image

from puridiver.cli import main

TINY = ["--epochs", "1", "--stream-limit", "16", "--test-limit", "40", "--no-diversity", "--quiet", "--tasks", "2"]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, run at a tiny size."""
    folder = tmp_path_factory.mktemp("runs")
    for sampler in ("rsv", "gbs"):
        assert main(["run", *TINY, "--sampler", sampler, "--trainer", "plain", "--out", str(folder / sampler)]) == 0
    return folder


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plot_of_two_runs(two_runs: Path, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"picture.{ending}"
    assert main(["plot", str(two_runs / "rsv"), str(two_runs / "gbs"), "--out", str(picture)]) == 0
    assert picture.stat().st_size > 10_000
    if ending == "svg":
        assert "rsv + plain" in picture.read_text()
        assert "gbs + plain" in picture.read_text()


def test_a_plot_of_fewer_dots(two_runs: Path, tmp_path: Path) -> None:
    sizes = []
    for dpi in ([], ["--dpi", "100"]):
        assert main(["plot", str(two_runs / "rsv"), "--out", str(tmp_path / "x.png"), *dpi]) == 0
        with Image.open(tmp_path / "x.png") as picture:
            sizes.append(picture.size[0])
    assert sizes[0] == 3 * sizes[1]
    assert main(["plot", str(two_runs / "rsv"), "--out", str(tmp_path / "x.png"), "--dpi", "0"]) == 2


def test_a_plot_of_another_figure(two_runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "confusion.svg"
    assert main(["plot", str(two_runs / "rsv"), "--figure", "confusion", "--out", str(out)]) == 0
    assert "taken for" in out.read_text()


def test_a_plot_tells_which_panels_its_runs_do_not_allow(tmp_path: Path, capsys) -> None:
    assert main(["run", *TINY, "--out", str(tmp_path / "run")]) == 0
    assert main(["plot", str(tmp_path / "run"), "--figure", "alpha", "--out", str(tmp_path / "a.png")]) == 0
    assert "note: accuracy by alpha is not drawn" in capsys.readouterr().err


def test_a_report_with_figures(two_runs: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("puridiver.report.style.DPI", 40)
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    page = tmp_path / "new" / "page.html"
    out = ["--out", str(page), "--figures", str(tmp_path / "figures"), "--open"]
    assert main(["report", str(two_runs / "rsv"), *out]) == 0
    assert "rsv + plain" in page.read_text()
    assert seen == [page.as_uri()]
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        str(page),
        f"{len(list((tmp_path / 'figures').iterdir()))} pictures in {out[3]}",
    ]
    assert "not drawn: alpha: no run has an alpha" in captured.err


def test_a_page_lies_by_default_in_the_one_folder_it_is_of(two_runs: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(two_runs / "rsv")]) == 0
    assert main(["report", str(two_runs / "rsv"), str(two_runs / "gbs")]) == 0
    assert capsys.readouterr().out.splitlines() == [str(two_runs / "rsv" / "report.html"), "report.html"]
    assert (tmp_path / "report.html").is_file()


def test_an_unfinished_run_among_others_is_left_out_with_a_note(two_runs: Path, tmp_path: Path, capsys) -> None:
    shutil.copytree(two_runs / "gbs", tmp_path / "half")
    (tmp_path / "half" / "summary.json").unlink()
    page = tmp_path / "page.html"
    assert main(["report", str(two_runs / "rsv"), str(tmp_path / "half"), "--out", str(page)]) == 0
    assert "left out:" in capsys.readouterr().err
    assert "summary.json is missing" in page.read_text()


def test_what_is_missing_is_named_and_nothing_is_written(tmp_path: Path, capsys) -> None:
    for command in ("plot", "report"):
        assert main([command, str(tmp_path), "--out", str(tmp_path / "out.svg")]) == 2
        assert "holds no finished run: summary.json is missing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "library"), [("plot", "matplotlib"), ("report", "matplotlib"), ("report", "jinja2"), ("report", "PIL")]
)
def test_without_a_library_it_says_how_to_get_it(two_runs: Path, tmp_path, monkeypatch, capsys, command, library):
    monkeypatch.setitem(sys.modules, library, None)
    assert main([command, str(two_runs / "rsv"), "--out", str(tmp_path / "x.svg")]) == 2
    assert f"pip install 'puridiver[{command}]'" in capsys.readouterr().err


def test_a_folder_in_the_way_of_the_page_is_named(two_runs: Path, tmp_path: Path, capsys) -> None:
    assert main(["report", str(two_runs / "rsv"), "--out", str(tmp_path)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err
