"""One file per extension: each example of CONTRIBUTING.md, copied into the package, is found everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"```python\n# (puridiver/\S+)\n(.*?)```", re.S)
GRID = """
[grid]
data = ["stripes"]
noises = ["first-20"]
network = "linear"
epochs = 1
methods = ["newest+smooth", "rsv+plain"]
options = { strong = "inverted" }
"""
# One process for all: importing torch takes longer than the work.
SCRIPT = """
import contextlib, io, json
from puridiver.cli import main
from puridiver.learner.method_check import find_fault

def told(line):
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(line.split()) == 0, line
    return shown.getvalue()

commands = {
    "methods": "methods --json", "help": "run --help", "grid": "grid mine.toml --out grid --engine lanes --quiet",
    "table": "table mine.toml grid --metric first_task_accuracy --format csv",
    "figure": "figure forgetting grid --out forgetting.png",
}
found = {name: told(line) for name, line in commands.items()}
members = {"sampler": "newest", "trainer": "smooth", "network": "linear"}
print(json.dumps({**found, "faults": [find_fault(family, name) for family, name in members.items()]}))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a grid file, and a copy of the package that has the examples of CONTRIBUTING.md."""
    copy = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "puridiver", copy / "puridiver", ignore=shutil.ignore_patterns("__pycache__"))
    examples = EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert len(examples) == 8
    for name, code in examples:
        assert not (copy / name).exists()
        (copy / name).write_text(code)
    (copy / "mine.toml").write_text(GRID)
    return copy


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, Any]:
    """What the commands of SCRIPT print."""
    environment = {**os.environ, "PYTHONPATH": str(place), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_methods_and_help_name_them(told: dict[str, Any]) -> None:
    found = json.loads(told["methods"])
    for family, name in {"samplers": "newest", "trainers": "smooth", "networks": "linear"}.items():
        assert name in found[family]
    assert "smooth_share" in found["options"]
    assert "inverted" in found["options"]["strong"]["choices"]
    assert "stripes" in told["help"]
    assert "first-RATE" in re.sub(r"-\s+", "-", told["help"])


def test_a_grid_runs_them_and_its_table_shows_the_new_metric(told: dict[str, Any], place: Path) -> None:
    assert "newest + smooth" in told["table"]
    assert (place / "forgetting.png").stat().st_size > 1000


def test_they_pass_the_contract_of_their_family(told: dict[str, Any]) -> None:
    assert told["faults"] == ["", "", ""]
