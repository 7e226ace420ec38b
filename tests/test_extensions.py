"""One file per extension: each example of CONTRIBUTING.md, copied into the package, is found everywhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"```python\n# (puridiver/\S+)\n(.*?)```", re.S)
GRID = """
[grid]
data = ["stripes"]
noises = ["first-20"]
seeds = [0]
network = "linear"
epochs = 1
methods = ["newest+smooth", "rsv+plain"]
options = { strong = "inverted" }
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run a Python module on a copy of the package that has the examples of CONTRIBUTING.md."""
    copy = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "puridiver", copy / "puridiver", ignore=shutil.ignore_patterns("__pycache__"))
    examples = EXAMPLE.findall((ROOT / "CONTRIBUTING.md").read_text())
    assert len(examples) == 8
    for name, code in examples:
        assert not (copy / name).exists()
        (copy / name).write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_methods_and_help_name_them(command: Callable[..., str]) -> None:
    found = json.loads(command("-m", "puridiver", "methods", "--json"))
    for family, name in {"samplers": "newest", "trainers": "smooth", "networks": "linear"}.items():
        assert name in found[family]
    assert "smooth_share" in found["options"]
    assert "inverted" in found["options"]["strong"]["choices"]
    text = command("-m", "puridiver", "run", "--help")
    assert "stripes" in text
    assert "first-RATE" in re.sub(r"-\s+", "-", text)


def test_a_grid_runs_them_and_its_table_shows_the_new_metric(command: Callable[..., str], tmp_path: Path) -> None:
    grid, out = tmp_path / "mine.toml", tmp_path / "grid"
    grid.write_text(GRID)
    command("-m", "puridiver", "grid", str(grid), "--out", str(out), "--engine", "lanes", "--workers", "1", "--quiet")
    text = command(
        "-m", "puridiver", "table", str(grid), str(out), "--metric", "first_task_accuracy", "--format", "csv"
    )
    assert "newest + smooth" in text
    command("-m", "puridiver", "figure", "forgetting", str(out), "--out", str(tmp_path / "forgetting.png"))
    assert (tmp_path / "forgetting.png").stat().st_size > 1000


def test_they_pass_the_contract_of_their_family(command: Callable[..., str]) -> None:
    code = "from puridiver.learner.method_check import find_fault; "
    code += "print(find_fault('sampler', 'newest') + find_fault('trainer', 'smooth') + find_fault('network', 'linear'))"
    assert command("-c", code).strip() == ""
