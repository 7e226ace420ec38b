from __future__ import annotations

import argparse
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from puridiver.cli.data import add_parser
from puridiver.data import SOURCES, Archive
from puridiver.errors import DataError

FOLDER = "cifar-10-batches-bin"


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser(prog="puridiver")
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["data", *argv])
    return int(args.handler(args))


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a small archive that the registry takes for cifar10's."""
    path = tmp_path / "mirror" / "archive.tar.gz"
    path.parent.mkdir()
    content = np.random.default_rng(0).bytes(200_000)
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo(f"{FOLDER}/all.bin")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    packed = path.read_bytes()
    archive = Archive(path.as_uri(), hashlib.md5(packed).hexdigest(), len(packed), FOLDER)
    entry = replace(
        SOURCES["cifar10"],
        archive=archive,
        checker=lambda root: [],
        is_here=lambda root: (root / FOLDER).is_dir(),
    )
    monkeypatch.setitem(SOURCES, "cifar10", entry)
    return path.as_uri()


def test_parsing_does_not_import_torch() -> None:
    code = (
        "import argparse, sys; from puridiver.cli.data import add_parser; "
        "add_parser(argparse.ArgumentParser().add_subparsers()); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("action", [[], ["list"], ["fetch"], ["verify"]])
def test_help_shows_examples(action: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(*action, "--help")
    assert stopped.value.code == 0
    assert f"examples:\n  puridiver data {action[0] if action else 'list'}" in capsys.readouterr().out


def test_list_tells_what_is_here(tmp_path: Path, mirror: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--root", str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert str(tmp_path) in lines[0]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["digits", "here"],
        ["cifar10", "to"],
        ["cifar100", "to"],
        ["webvision", "from"],
        ["food101n", "from"],
    ]


def test_list_as_json(tmp_path: Path, mirror: str, capsys: pytest.CaptureFixture[str]) -> None:
    run("fetch", "cifar10", "--root", str(tmp_path))
    capsys.readouterr()
    run("list", "--root", str(tmp_path), "--json")
    listing = json.loads(capsys.readouterr().out)
    assert listing["root"] == str(tmp_path)
    assert {row["name"]: row["here"] for row in listing["sources"]} == {
        "digits": True,
        "cifar10": True,
        "cifar100": False,
        "webvision": False,
        "food101n": False,
    }


def test_fetch_reports_in_plain_lines(tmp_path: Path, mirror: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "cifar10", "--root", str(tmp_path)) == 0
    captured = capsys.readouterr()
    assert captured.out == f"cifar10 is in {tmp_path / FOLDER}\n"
    assert captured.err.splitlines()[-1] == "cifar10: 0.2 of 0.2 MB (100 %)"
    assert "\x1b" not in captured.err
    assert (tmp_path / FOLDER / "all.bin").stat().st_size == 200_000


def test_fetch_draws_a_bar_on_a_terminal(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    run("fetch", "cifar10", "--root", str(tmp_path))
    assert "━" in terminal.getvalue()
    assert "kB" in terminal.getvalue()


def test_fetch_takes_another_url(tmp_path: Path, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SOURCES["cifar10"]
    assert entry.archive is not None
    gone = replace(entry.archive, url=(tmp_path / "gone.tar.gz").as_uri())
    monkeypatch.setitem(SOURCES, "cifar10", replace(entry, archive=gone))
    assert run("fetch", "cifar10", "--root", str(tmp_path), "--url", mirror) == 0


def test_fetch_refuses_another_archive(tmp_path: Path, mirror: str) -> None:
    other = tmp_path / "other.tar.gz"
    other.write_bytes(b"other")
    with pytest.raises(DataError, match="md5"):
        run("fetch", "cifar10", "--root", str(tmp_path), "--url", other.as_uri())


def test_fetching_what_is_embedded_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "digits") == 0
    assert "needs no fetching" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["fetch", "verify"])
def test_an_unknown_name_is_told(action: str) -> None:
    with pytest.raises(ValueError, match="digits, cifar10, cifar100"):
        run(action, "mnist")


def test_verify_says_good_with_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "digits") == 0
    assert capsys.readouterr().out == "digits: good\n"


def test_verify_lists_problems_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "cifar100", "--root", str(tmp_path)) == 1
    text = capsys.readouterr().out
    assert text.startswith("cifar100: 1 problem\n")
    assert str(tmp_path / "cifar-100-binary") in text


def test_verify_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", "cifar10", "--root", str(tmp_path), "--json") == 1
    result = json.loads(capsys.readouterr().out)
    assert result["good"] is False
    assert len(result["problems"]) == 1
    assert (result["name"], result["root"]) == ("cifar10", str(tmp_path))
