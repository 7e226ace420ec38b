"""The GPU's kernels compute what torch's operations do, on a CPU in Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.nets import test_layers
from tests.runtime import test_fused_mixture

# One process for all: importing torch takes longer than most comparisons.
SCRIPT = """
import json
from tests.nets import test_layers
from tests.runtime import test_fused_eviction, test_fused_mixture
modules = (test_layers, test_fused_eviction, test_fused_mixture)
print("compared", json.dumps([module.compare_all("cpu") for module in modules]))
"""


def test_the_kernels_compute_what_torchs_operations_do() -> None:
    pytest.importorskip("triton")
    words, env = [sys.executable, "-c", SCRIPT], {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    layers = len(test_layers.SHAPES) * len(test_layers.FOLLOWERS) * 2 * len(test_layers.NAMES)
    expected = [layers, 30, len(test_fused_mixture.cases("cpu"))]
    assert json.loads(done.stdout.rpartition("compared ")[2]) == expected
