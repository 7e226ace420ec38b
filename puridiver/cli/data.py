"""List, fetch and verify data sets.

Examples:
  puridiver data list
  puridiver data fetch cifar10
  puridiver data verify cifar10 --root ~/datasets
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from puridiver.cli.flags import Arg, Json, Opt, Plugins
from puridiver.cli.output import Progress, counted, say, say_json, say_table

Root = Annotated[
    Path | None,
    Opt("folder of the data sets (default: $PURIDIVER_DATA or the user's cache)", "FOLDER"),
]


def list_(root: Root = None, json: Json = False, plugins: Plugins = None) -> int:
    """Show the data sets and whether they are here.

    Examples:
      puridiver data list
      puridiver data list --root ~/datasets --json
    """
    from puridiver.data import SOURCES, default_root

    root = (root or default_root()).expanduser()
    rows = [
        {
            "name": name,
            "here": source.is_here(root),
            "size": source.size,
            "description": source.title,
            "home_page": source.home_page,
            "download_bytes": source.archive.size_bytes if source.archive else 0,
        }
        for name, source in SOURCES.items()
    ]
    if json:
        say_json({"root": str(root), "sources": rows})
        return 0
    say_table([(row["name"], _state(row), row["size"], row["description"]) for row in rows],
              ("name", "state", "size", "what it is"), f"data sets in {root}")  # fmt: skip
    return 0


def _state(row: dict[str, object]) -> str:
    if row["here"]:
        return "here"
    return f"to fetch ({row['download_bytes'] / 1e6:.0f} MB)" if row["download_bytes"] else "from its home page"  # type: ignore[operator]


def fetch(
    name: Annotated[str, Arg("NAME", "a name from `puridiver data list`")],
    root: Root = None,
    url: Annotated[str | None, Opt("another place of the same archive; its checksum must match", "URL")] = None,
) -> int:
    """Download, check and unpack a data set.

    Examples:
      puridiver data fetch cifar10
      puridiver data fetch cifar100 --root ~/datasets
      puridiver data fetch cifar10 --url https://mirror.example/cifar-10-binary.tar.gz
    """
    from puridiver.data import default_root, fetch_source, find

    source = find(name)
    if source.archive is None:
        if source.is_here((root or default_root()).expanduser()):
            say(f"{name} needs no fetching: {source.title}")
            return 0
        raise ValueError(f"{name} is given out by its home page, {source.home_page}; docs/DATA.md tells the layout")
    with Progress() as progress:
        folder = fetch_source(name, root, url=url, progress=progress.downloading)
    say(f"{name} is in {folder}")
    return 0


def verify(
    name: Annotated[str, Arg("NAME", "a name from `puridiver data list`, or an .npz file")],
    root: Root = None,
    json: Json = False,
) -> int:
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
        say(f"{name}: {counted(len(problems), 'problem') if problems else 'good'}")
        for problem in problems:
            say(f"  {problem}")
    return int(bool(problems))


ACTIONS = (list_, fetch, verify)
