"""`puridiver data`: which data sets there are, fetching them, verifying them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from puridiver.cli.common import add_actions, add_command

EXAMPLES = """\
examples:
  puridiver data list
  puridiver data fetch cifar10
  puridiver data verify cifar10 --root ~/datasets
"""
LIST_EXAMPLES = """\
examples:
  puridiver data list
  puridiver data list --root ~/datasets --json
"""
FETCH_EXAMPLES = """\
examples:
  puridiver data fetch cifar10
  puridiver data fetch cifar100 --root ~/datasets
  puridiver data fetch cifar10 --url https://mirror.example/cifar-10-binary.tar.gz
"""
VERIFY_EXAMPLES = """\
examples:
  puridiver data verify cifar10
  puridiver data verify my_images.npz --json
"""

PLAIN_STEP_PERCENT = 10
PLAIN_STEP_BYTES = 16_000_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    data = add_command(subparsers, "data", "list, fetch and verify data sets", EXAMPLES)
    actions = add_actions(data)
    listing = add_command(actions, "list", "show the data sets and whether they are here", LIST_EXAMPLES)
    _add_root(listing)
    _add_json(listing)
    listing.set_defaults(handler=list_sources)

    fetching = add_command(actions, "fetch", "download, check and unpack a data set", FETCH_EXAMPLES)
    fetching.add_argument("name", metavar="NAME", help="a name from `puridiver data list`")
    _add_root(fetching)
    fetching.add_argument("--url", help="fetch the same archive from another place (the checksum must match)")
    fetching.set_defaults(handler=fetch)

    verifying = add_command(actions, "verify", "check a data set; exit 0 good, 1 problems found", VERIFY_EXAMPLES)
    verifying.add_argument("name", metavar="NAME", help="a name from `puridiver data list`, or an .npz file")
    _add_root(verifying)
    _add_json(verifying)
    verifying.set_defaults(handler=verify)


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the folder of the data sets (default: $PURIDIVER_DATA or the cache)",
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def list_sources(args: argparse.Namespace) -> int:
    from puridiver.data import SOURCES, Source, default_root

    root = (args.root or default_root()).expanduser()

    def row(name: str, source: Source) -> dict[str, Any]:
        return {
            "name": name,
            "here": source.is_here(root),
            "size": source.size,
            "description": source.description,
            "home_page": source.home_page,
            "download_bytes": source.archive.size_bytes if source.archive else 0,
        }

    rows = [row(name, source) for name, source in SOURCES.items()]
    if args.json:
        print(json.dumps({"root": str(root), "sources": rows}, indent=2))
    else:
        _print_rows(rows, root)
    return 0


def _print_rows(rows: list[dict[str, Any]], root: Path) -> None:
    widest = max(len(row["name"]) for row in rows)
    print(f"data sets in {root}")
    for row in rows:
        size = f"to fetch ({row['download_bytes'] / 1e6:.0f} MB)" if row["download_bytes"] else "from its home"
        state = "here" if row["here"] else size
        print(f"  {row['name']:<{widest}}  {state:<17}  {row['description']}: {row['size']}")


def fetch(args: argparse.Namespace) -> int:
    from puridiver.data import default_root, fetch_source, find

    source = find(args.name)
    if source.archive is None:
        if source.is_here((args.root or default_root()).expanduser()):
            print(f"{args.name} needs no fetching: {source.description}")
            return 0
        raise ValueError(f"{args.name} is given out by its home, {source.home_page}; docs/DATA.md tells the layout")
    with _progress(args.name) as progress:
        folder = fetch_source(args.name, args.root, url=args.url, progress=progress)
    print(f"{args.name} is in {folder}")
    return 0


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on a terminal, a line for each tenth elsewhere; both on stderr."""
    if not sys.stderr.isatty():
        yield _plain_progress(name)
        return
    from rich import progress as bars
    from rich.console import Console

    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain_progress(name: str) -> Callable[[int, int | None], None]:
    last_step = -1

    def report(done: int, total: int | None) -> None:
        nonlocal last_step
        step = done * 100 // total // PLAIN_STEP_PERCENT if total else done // PLAIN_STEP_BYTES
        if step == last_step:
            return
        last_step = step
        share = f" of {total / 1e6:.1f} MB ({done * 100 // total} %)" if total else " MB"
        print(f"{name}: {done / 1e6:.1f}{share}", file=sys.stderr, flush=True)

    return report


def verify(args: argparse.Namespace) -> int:
    from puridiver.data import default_root
    from puridiver.data import verify as find_problems

    root = (args.root or default_root()).expanduser()
    problems = find_problems(args.name, root)
    if args.json:
        result = {"name": args.name, "root": str(root), "good": not problems, "problems": problems}
        print(json.dumps(result, indent=2))
    elif problems:
        print(f"{args.name}: {len(problems)} problem{'s' if len(problems) > 1 else ''}")
        print("\n".join(f"  {problem}" for problem in problems))
    else:
        print(f"{args.name}: good")
    return 1 if problems else 0
