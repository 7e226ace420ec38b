"""Attack the package with hostile inputs, kills, interrupts, threads, and full and read-only disks.

    python tools/attack.py                             # every attack; exit code 1 if a case broke
    python tools/attack.py --share 0.01                # a hundredth of the cases
    python tools/attack.py --only tables --case 117    # one case again
    python tools/attack.py --write                     # also write the table of docs/RELIABILITY.md

Seed, attack and number decide a case. A case holds if it ends as its attack expects. It breaks if it raises anything
else, hangs, takes more than 4 GiB, changes what it must not change, or ends in other bits.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attacks import crashes, inputs
from attacks.cases import ATTACKS, SECONDS, Case, shared_learner, yard

MODULES = (crashes, inputs)  # which have filled ATTACKS
PAGE = Path(__file__).resolve().parents[1] / "docs" / "RELIABILITY.md"
SHOWN = 3  # tracebacks of an attack
MEMORY_BYTES = 4 << 30  # beyond what the program itself takes


class Hung(BaseException):
    """A case took too long."""


def tried(name: str, seed: int, number: int) -> str:
    """Run one case; the traceback of what broke, or nothing."""

    def hung(*_: object) -> None:
        raise Hung(f"no end after {SECONDS} seconds")

    folder = Path(tempfile.mkdtemp(dir=yard()))
    folder.chmod(0o755)
    signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    try:
        ATTACKS[name].run(Case(np.random.default_rng([seed, list(ATTACKS).index(name), number]), folder))
    except (Exception, Hung):
        return traceback.format_exc()
    finally:
        signal.alarm(0)
        shutil.rmtree(folder, ignore_errors=True)
    return ""


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    pages, before = int(Path("/proc/self/statm").read_text().split()[0]), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def count(names: Sequence[str], seed: int, share: float, number: int | None = None) -> list[tuple[Any, ...]]:
    """A row for each attack, and one for all: name, what is expected, how many were tried, held and broke."""
    rows = []
    for name in names:
        numbers = range(max(1, round(share * ATTACKS[name].cases))) if number is None else [number]
        started, broke = time.monotonic(), 0
        for each in numbers:
            if problem := tried(name, seed, each):
                broke += 1
                told = problem[-3000:] if broke <= SHOWN else problem.splitlines()[-1]
                print(f"broke: --seed {seed} --only {name} --case {each}\n{told}", file=sys.stderr)
        rows.append((name.replace("_", " "), ATTACKS[name].expected, len(numbers), len(numbers) - broke, broke))
        print(f"{name}: {len(numbers)} tried, {broke} broke, {time.monotonic() - started:.0f} s", file=sys.stderr)
    return [*rows, ("all", "", *(sum(row[column] for row in rows) for column in (2, 3, 4)))]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the cases of each attack")
    parser.add_argument("--only", nargs="+", choices=tuple(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--case", type=int, help="only the case with this number")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    args = parser.parse_args(words)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        yard()
        with limited_memory():
            rows = count(args.only, args.seed, args.share, args.case)
    finally:
        shutil.rmtree(yard(), ignore_errors=True)
        for made in (yard, crashes.whole, shared_learner):
            made.cache_clear()
    lines = [f"| {a} | {b} | {c:,} | {d:,} | {e:,} |" for a, b, c, d, e in rows]
    table = "\n".join(["| attack | expected | tried | held | broke |", "|---|---|---|---|---|", *lines])
    print(table)
    if args.write:
        head, rest = PAGE.read_text().split("<!-- table -->\n")
        PAGE.write_text(f"{head}<!-- table -->\n{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}")
    return int(rows[-1][4] > 0)


if __name__ == "__main__":
    sys.exit(main())
