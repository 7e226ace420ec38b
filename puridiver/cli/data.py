"""List, fetch and verify data sets.

Examples:
  puridiver data list
  puridiver data fetch cifar10
  puridiver data verify cifar10 --root ~/datasets
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from puridiver.cli.flags import Arg, Json, Opt
from puridiver.cli.output import Progress, counted, say, say_json, say_table

Name = Annotated[str, Arg("NAME", "a name from `puridiver data list` (or, to verify, an .npz file)")]
Root = Annotated[Path | None, Opt("folder of the data sets (default: $PURIDIVER_DATA or the user's cache)", "FOLDER")]


def list_(root: Root = None, json: Json = False) -> int:
    """Show the data sets and whether they are here.

    Examples:
      puridiver data list
      puridiver data list --root ~/datasets --json
    """
    from puridiver.data import SOURCES, default_root

    root = (root or default_root()).expanduser()
    found = []
    for name, source in SOURCES.items():
        size = source.archive.size_bytes if source.archive else 0
        state = "here" if source.is_here(root) else f"to fetch ({size / 1e6:.0f} MB)" if size else "from its home page"
        found.append({"name": name, "here": source.is_here(root), "state": state, "size": source.size,
                      "description": source.title, "home_page": source.home_page})  # fmt: skip
    if json:
        say_json({"root": str(root), "sources": found})
    else:
        shown = ("name", "state", "size", "description")
        say_table([[row[key] for key in shown] for row in found], shown, f"data sets in {root}")
    return 0


def fetch(name: Name, root: Root = None, url: Annotated[str | None, Opt("a mirror of the same archive")] = None) -> int:
    """Download, check and unpack a data set.

    Examples:
      puridiver data fetch cifar10
      puridiver data fetch cifar100 --root ~/datasets
      puridiver data fetch cifar10 --url https://mirror.example/cifar-10-binary.tar.gz
    """
    from puridiver.data import default_root, find
    from puridiver.data.download import fetch_source

    source = find(name)
    if source.archive is None:
        if source.is_here((root or default_root()).expanduser()):
            say(f"{name} needs no fetching: {source.title}")
            return 0
        raise ValueError(f"{name} is given out by its home page, {source.home_page}")
    with Progress() as progress:
        folder = fetch_source(name, root, url=url, progress=progress.count)
    say(f"{name} is in {folder}")
    return 0


def verify(name: Name, root: Root = None, json: Json = False) -> int:
    """Check the files of a data set. Exit code 0: good; 1: problems found.

    Examples:
      puridiver data verify cifar10
      puridiver data verify my_images.npz --json
    """
    from puridiver.data import default_root
    from puridiver.data import verify as find_problems

    root = (root or default_root()).expanduser()
    problems = find_problems(name, root)
    if json:
        say_json({"name": name, "root": str(root), "good": not problems, "problems": problems})
    else:
        told = [f"{name}: {counted(len(problems), 'problem')}", *(f"  {problem}" for problem in problems)]
        say("\n".join(told if problems else [f"{name}: good"]))
    return int(bool(problems))


ACTIONS = (list_, fetch, verify)
