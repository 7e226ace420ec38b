"""Runs the comparisons of a test module in Triton's interpreter, which computes kernels on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def compared_in_interpreter(module: str) -> int:
    """How many comparisons a module's `compare_all("cpu")` made, in a process in which Triton interprets kernels."""
    pytest.importorskip("triton")
    program = f"from {module} import compare_all; print('compared', compare_all('cpu'))"
    env = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.rpartition("compared ")[2])
