"""`puridiver bench`: how fast this machine learns."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command, console
from puridiver.recipes import PUBLISHED, RECIPES

if TYPE_CHECKING:
    from puridiver.bench import Figure, Size
    from puridiver.data.base import DataSource
    from puridiver.runs.config import RunConfig

PARTS = ("steps", "growth", "run", "lanes", "all")

EXAMPLES = """\
examples:
  puridiver bench                                         the parts of a run, at the size that suits the machine
  puridiver bench --size cifar10 --parts steps growth     ... and how they grow with memory and classes
  puridiver bench --size cifar10 --parts run lanes --lanes 8 --out benchmarks/records
      whole runs of the full protocol, alone and eight at a time (on a GPU), with a record
  puridiver bench --size cifar10 --parts run --data-root DIR --splits DIR
      the same on the real images and the paper's own sym-40 streams (else: noise of that shape)
"""


def _at_least_one(text: str) -> int:
    if int(text) < 1:
        raise ValueError
    return int(text)


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "bench", "measure how fast this machine learns: medians after a warm-up", EXAMPLES)
    parser.add_argument(
        "--size", choices=("auto", "digits", "cifar10", "cifar100"), default="auto",
        help="shape of the problem (default: cifar10 on a GPU, digits on a CPU)",
    )  # fmt: skip
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["steps"], help="what to measure (default: steps)")
    parser.add_argument(
        "--lanes", type=_at_least_one, default=8, metavar="N", help="runs at a time, for lanes (default: 8)"
    )
    parser.add_argument("--data-root", metavar="DIR", help="whole runs on the real data of that size, found here")
    parser.add_argument("--splits", metavar="PATH", help="... and on the official sym-40 streams, found here")
    parser.add_argument(
        "--recipe", choices=sorted(RECIPES), default=PUBLISHED,
        help="(default: official, which the released program's figures are of)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, metavar="N", help="memory epochs of whole runs (default: the recipe's)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto", help="(default: auto)")
    parser.add_argument("--graphs", action=argparse.BooleanOptionalAction, default=True, help="capture steps")
    parser.add_argument("--out", metavar="FOLDER", help="write a record to FOLDER/<date>-<device>/")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from rich.console import Console

    from puridiver.runs.folder import to_json
    from puridiver.runs.provenance import commit, versions
    from puridiver.runtime.device import choose_runtime, describe_device

    runtime = choose_runtime(args.device, args.precision, args.graphs)
    size = ("cifar10" if runtime.device.type == "cuda" else "digits") if args.size == "auto" else args.size
    figures = []
    for part in PARTS[:-1] if "all" in args.parts else args.parts:
        with Console(stderr=True).status(f"measuring {part} at the size of {size}"):
            figures += _measure(part, size, args)
    record = {
        "size": size,
        "recipe": args.recipe,
        "device": describe_device(runtime.device),
        "precision": runtime.precision,
        "graphs": runtime.graphs,
        "command": "puridiver " + " ".join(sys.argv[1:]),
        "versions": versions(),
        "commit": commit(),
        "figures": [figure.to_dict() for figure in figures],
    }
    if args.json:
        sys.stdout.write(to_json(record, indent=1) + "\n")
    else:
        _print(record, figures)
    if args.out:
        print(f"record: {_write(record, args.out)}", file=sys.stderr)
    return 0


def _measure(part: str, size_name: str, args: argparse.Namespace) -> list[Figure]:
    from puridiver import bench
    from puridiver.runtime.device import choose_runtime

    size = bench.SIZES[size_name]
    settings = {
        "recipe": args.recipe, "device": args.device, "precision": args.precision, "graphs": args.graphs,
    }  # fmt: skip
    if part == "steps":
        return bench.steps(size, **settings)
    if part == "growth":
        return bench.growth(size, **settings)
    n = 1 if part == "run" else args.lanes
    found = [bench.whole_runs(_run_configs(size, n, args), n, _source(size, args))]
    return found + list(bench.peak_memory(choose_runtime(args.device).device)) if part == "run" else found


def _run_configs(size: Size, n: int, args: argparse.Namespace) -> list[RunConfig]:
    """Runs of the full protocol that differ by seed; there are three official streams."""
    from puridiver.runs.config import RunConfig

    return [
        RunConfig(
            data=size.name, data_root=args.data_root, splits=args.splits,
            stream=f"official:sym40:{1 + number % 3}" if args.splits else "blurry-10",
            recipe=args.recipe, seed=1 + number, memory=size.memory, network=size.network, epochs=args.epochs,
            diversity=False, device=args.device, precision=args.precision, graphs=args.graphs,
        )
        for number in range(n)
    ]  # fmt: skip


def _source(size: Size, args: argparse.Namespace) -> DataSource:
    from pathlib import Path

    from puridiver import bench, data

    if size.name == "digits" or args.data_root:
        return data.load(size.name, Path(args.data_root) if args.data_root else None)
    return bench.synthetic_source(size)


def _print(record: dict[str, Any], figures: list[Figure]) -> None:
    from rich.table import Table

    from puridiver.bench import REFERENCE

    captured = "captured" if record["graphs"] else "uncaptured"
    title = f"recipe {record['recipe']}, {record['device']}, {record['precision']}, {captured} steps"
    table = Table(title=title, title_justify="left", header_style="bold", title_style="bold")
    table.add_column(f"at the size of {record['size']}")
    compared = record["size"] == "cifar10"
    for heading in ("median", "spread", "repeats", *(("released program", "goal") if compared else ())):
        table.add_column(heading, justify="right")
    for f in figures:
        known = REFERENCE.get(f.what, ("", "")) if compared else ()
        table.add_row(f.what, f"{f.median:.2f} {f.unit}", f"{f.low:.2f} to {f.high:.2f}", str(f.repeats), *known)
    console().print(table, highlight=False)
    if compared:
        console().print("The released program and the goals are for one H200, recipe official.", highlight=False)


def _write(record: dict[str, Any], out: str) -> Any:
    import re
    from datetime import UTC, datetime
    from pathlib import Path

    from puridiver.files import write_atomically
    from puridiver.runs.folder import to_json

    device = re.sub(r"[^a-z0-9]+", "-", record["device"].lower()).strip("-")
    now = datetime.now(UTC)
    folder = Path(out) / f"{now:%Y-%m-%d}-{device}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['size']}-{now:%H%M%S}.json"
    write_atomically(path, (to_json(record, indent=1) + "\n").encode())
    return path
