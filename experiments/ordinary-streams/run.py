"""Run grids one cell at a time in this process, and count CPU seconds: a busy machine does not change these.

python run.py OUT study.toml [--seeds 11] [--methods TITLE ...]
"""

import argparse
import time
from types import SimpleNamespace

from puridiver.grid.run import run_grid
from puridiver.runs import loop

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out")
parser.add_argument("grid")
parser.add_argument("--seeds", type=int, nargs="*", default=[])
parser.add_argument("--methods", nargs="*", default=[])
asked = parser.parse_args()
loop.time = SimpleNamespace(perf_counter=time.process_time)
run_grid(asked.grid, asked.out, seeds=asked.seeds, methods=asked.methods, engine="lanes", workers=1, device="cpu")
