"""The command, the example and the load test, each from start to end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from puridiver.cli import main
from puridiver.service.engine import Engine
from tests.learner_samples import tiny_learner
from tests.service.conftest import POLICY, Served, tiny
from tests.test_tools import ROOT
from tests.wild import write_classes


def python(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        [sys.executable, *map(str, words)], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_example_streams_a_folder_and_may_be_run_again(served: Served, tmp_path: Path) -> None:
    write_classes(tmp_path / "pictures", 8)
    for _ in range(2):
        done = python("examples/stream_folder.py", tmp_path / "pictures", "--url", served.url, "--wait", 30)
        assert done.returncode == 0, done.stderr
        assert "104 images are safe with the service" in done.stdout  # 80, and 24 once
    assert served.engine.tail.seen == 104
    assert "no images in subfolders" in python("examples/stream_folder.py", tmp_path, "--url", served.url).stderr


def test_the_tutorial_works_as_it_is_written(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "service.md").read_text().replace("localhost:8000", served.url)
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate("abc"):
        Image.fromarray(np.full((20, 30, 3), 80 * number, np.uint8)).save(f"{name}.jpg")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(code.replace("http://127.0.0.1:8000", served.url), {})
    assert {"apple", "pear"} <= served.engine.tail.classes.keys()
    for command in re.findall(r"^\$ (curl -F .*)$", page, re.M):
        words = ["bash", "-c", command.replace("curl", "curl -sS")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "labels" in done.stdout or '"verdicts"' in done.stdout, done.stdout + done.stderr


def test_a_service_that_is_killed_under_load_loses_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- load test: begin -->\n<!-- load test: end -->\nafter\n")
    places = ("--record", tmp_path / "load.json", "--page", page)
    done = python("tools/load_test.py", "kills", "--kills", 2, "--alive", 1.5, *places)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "load.json").read_text())["kills"]
    assert (record["lost"], record["differing"]) == (0, [])
    assert record["acknowledged"] > 0
    assert "| same bits as a service never killed | yes |" in page.read_text()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--memory", "20"], "--memory are for a new learner"),
        (["--from", "LEARNER"], "has a learner already"),
        (["--token-file", "EMPTY"], "it should hold the token"),
        (["--every", "-1"], "--every"),
    ],
)
def test_flags_that_do_not_fit_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    Engine(tmp_path / "service", tiny, POLICY, "cpu").close()
    tiny_learner().save(tmp_path / "learner")
    (tmp_path / "empty").touch()
    places = {"LEARNER": str(tmp_path / "learner"), "EMPTY": str(tmp_path / "empty")}
    assert main(["serve", str(tmp_path / "service"), *(places.get(word, word) for word in words)]) == 2
    assert why in capsys.readouterr().err
