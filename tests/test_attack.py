"""A sample of the attack: hostile inputs, kills, interrupts, threads and bad disks all end as expected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).parents[1] / "tools" / "attack.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_sample_of_the_attack_breaks_nothing() -> None:
    words = [sys.executable, str(ATTACK), "--share", "0.01", "--seed", "1"]
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    total = [cell.strip() for cell in done.stdout.splitlines()[-1].split("|")]
    assert total[1] == "all"
    assert int(total[3]) == int(total[4]) >= 100
    assert total[5] == "0"
