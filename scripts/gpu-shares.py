"""How several runs share one GPU best: so many processes, each with such a share of its multiprocessors.

    nvidia-cuda-mps-control -d                           # NVIDIA's Multi-Process Service, without which they take turns
    python scripts/gpu-shares.py 10:100 10:30 10:15 15:20

Each N:PERCENT starts N processes that train ResNet-18 on a full memory of random images (epochs of 31 captured steps of
16), lets them begin together and counts what they get done. A process is limited by the variable
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, which `puridiver grid --engine processes` hands on to its workers. The last column is
what an epoch costs a run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import torch

EPOCHS_OF_WARMUP = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shares", nargs="*", metavar="N:PERCENT", help="processes, and the share of each")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each is measured")
    parser.add_argument("--trainer", default="plain", help="by which trainer")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("needs a CUDA device")
    if args.worker:
        work(args.seconds, args.trainer)
        return
    print(f"{'processes':>9} {'share %':>9} {'SMs of each':>12} {'ms an epoch':>12} {'ms an epoch and run':>20}")
    for text in args.shares:
        n, percent = (int(word) for word in text.split(":"))
        multiprocessors, epochs = together(n, percent, args.seconds, args.trainer)
        per_run = 1000 * args.seconds / epochs
        print(f"{n:9} {percent:9} {multiprocessors:12} {n * per_run:12.1f} {per_run:20.2f}", flush=True)


def together(n: int, percent: int, seconds: float, trainer: str) -> tuple[int, int]:
    """The multiprocessors that each of n processes sees, and the epochs that all of them get done."""
    command = [sys.executable, __file__, "--worker", "--seconds", str(seconds), "--trainer", trainer]
    environment = {**os.environ, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent), "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    workers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) for _ in range(n)]
    multiprocessors = [int(worker.stdout.readline()) for worker in workers]  # type: ignore[union-attr]
    for worker in workers:
        worker.stdin.write("go\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
    return multiprocessors[0], sum(int(worker.communicate()[0]) for worker in workers)


def work(seconds: float, trainer: str) -> None:
    from puridiver.bench import SIZES, filled_learner

    learner = filled_learner(SIZES["cifar10"], trainer=trainer, recipe="official", warmup_epochs=0)
    epochs = learner.consolidation(10_000, warn_if_left=False)
    for _ in range(EPOCHS_OF_WARMUP):
        next(epochs)
    torch.cuda.synchronize()
    print(torch.cuda.get_device_properties(0).multi_processor_count, flush=True)
    sys.stdin.readline()
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        next(epochs)
        torch.cuda.synchronize()
        done += 1
    print(done, flush=True)


if __name__ == "__main__":
    main()
