"""Run grids one cell at a time in this process, and count CPU seconds: a busy machine does not change these.

python run.py OUT study.toml [--seeds 11] [--methods TITLE ...] [--backbone FILE]

With --backbone the network of all runs is the frozen one of that file, which make_backbone.py has made.
"""

import argparse
import time
from pathlib import Path
from types import SimpleNamespace

from make_backbone import backbone

from puridiver.grid.run import run_grid
from puridiver.nets.backbone import LIBRARIES
from puridiver.runs import loop

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("out")
parser.add_argument("grid")
parser.add_argument("--seeds", type=int, nargs="*", default=[])
parser.add_argument("--methods", nargs="*", default=[])
parser.add_argument("--backbone", type=Path)
asked = parser.parse_args()
LIBRARIES["cifar100"] = ("make_backbone.py", lambda _: backbone(asked.backbone))
loop.time = SimpleNamespace(perf_counter=time.process_time)
changes = {"device": "cpu", **({"network": "cifar100:frozen"} if asked.backbone else {})}
run_grid(asked.grid, asked.out, seeds=asked.seeds, methods=asked.methods, engine="lanes", workers=1, **changes)
