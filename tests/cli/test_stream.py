"""`puridiver stream`: streams made, shown and verified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from puridiver.cli import main
from puridiver.streams import StreamManifest
from tests.wild import write_bad_kinds, write_classes


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "s.json"
    assert main(["stream", "make", "--tasks", "5", "--noise", "asym-20", "--seed", "3", "--out", str(path)]) == 0
    return path


def test_a_stream_is_made_as_a_run_would_make_it(made, tmp_path):
    words = ["--tasks", "5", "--noise", "asym-20", "--seed", "3", "--quiet", "--epochs", "1", "--stream-limit", "8"]
    assert main(["run", *words, "--test-limit", "9", "--no-diversity", "--out", str(tmp_path / "run")]) == 0
    manifest = StreamManifest.load(made)
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["stream_hash"] == manifest.content_hash
    assert main(["stream", "verify", str(tmp_path / "run" / "manifest.json")]) == 0


def test_a_stream_is_shown(made, capsys):
    assert main(["stream", "show", str(made)]) == 0
    shown = capsys.readouterr().out
    for words in ("blurry-10", "asym-20", "1,397 samples, 5 tasks"):
        assert words in shown
    rows = {line.split("│")[1].strip(): line.split("│")[2:-1] for line in shown.splitlines() if line.startswith("│")}
    assert sum(int(cell) for name in map(str, range(10)) for cell in rows[name]) == 1397


def test_own_pictures_are_told_of_and_learnt_from(tmp_path, capsys):
    folder, out = write_classes(tmp_path / "my pictures", 8), tmp_path / "mine.json"
    write_bad_kinds(folder / "red")
    Image.open(folder / "red" / "000.png").save(folder / "blue" / "same.png")
    read = ["--data", str(folder), "--test-share", "0.25", "--image-size", "12", "--data-root", str(tmp_path)]
    assert main(["stream", "make", *read, "--out", str(out)]) == 2
    refused = capsys.readouterr()
    assert "red/cut.jpg" in refused.out  # told, though refused
    assert "--bad-files skip" in refused.err
    assert not out.exists()
    read += ["--bad-files", "skip"]
    assert main(["stream", "make", *read, "--out", str(out)]) == 0
    assert "1 group; blue/same.png (blue), red/000.png (red)" in capsys.readouterr().out
    assert main(["stream", "verify", str(out), *read]) == 0
    assert main(["run", "--stream", str(out), *read, "--epochs", "1", "--memory", "8", "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["stream", "verify", str(out)]) == 2
    assert "there is no such file or folder" in capsys.readouterr().err


def test_a_stream_is_verified_against_its_data(made, tmp_path, capsys):
    assert main(["stream", "verify", str(made)]) == 0
    assert capsys.readouterr().out == f"{made}: good\n"
    changed = json.loads(made.read_text())
    changed["seed"] = 4
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    assert main(["stream", "verify", str(tmp_path / "changed.json")]) == 1
    assert "hash" in capsys.readouterr().out
