"""The GPU's kernels compute what torch's operations do, on a CPU in Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# One process for all: importing torch takes longer than most comparisons.
SCRIPT = """
from tests.nets import test_layers
from tests.runtime import test_fused_eviction, test_fused_mixture
print([module.compare_all("cpu") for module in (test_layers, test_fused_eviction, test_fused_mixture)])
"""


def test_the_kernels_compute_what_torchs_operations_do() -> None:
    pytest.importorskip("triton")
    words, env = [sys.executable, "-c", SCRIPT], {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [112, 30, 36]  # comparisons
