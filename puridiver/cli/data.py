"""List, fetch and verify data sets.

Examples:
  puridiver data list
  puridiver data fetch cifar10
  puridiver data verify cifar10 --root ~/datasets
"""

from pathlib import Path
from typing import Annotated

from puridiver import data
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, say, say_problems, say_table
from puridiver.data.sources import fetch_source

Name = Annotated[str, Arg("NAME", "a name from `puridiver data list` (or, to verify, an .npz file)")]
Root = Annotated[Path | None, Opt("folder of the data sets (default: $PURIDIVER_DATA or the user's cache)", "FOLDER")]


def list_(root: Root = None) -> int:
    """Show the data sets and whether they are here.

    Examples:
      puridiver data list
      puridiver data list --root ~/datasets
    """
    root, rows = (root or data.default_root()).expanduser(), []
    for name, source in data.data_sets().items():
        size = f"to fetch ({source.archive.size_bytes / 1e6:.0f} MB)" if source.archive else "from its home page"
        rows.append((name, "here" if source.find_folder(root) else size, source.size, source.title))
    say_table(rows, ("name", "state", "size", "description"), f"data sets in {root}")
    return 0


def fetch(name: Name, root: Root = None, url: Annotated[str | None, Opt("a mirror of the same archive")] = None) -> int:
    """Download, check and unpack a data set.

    Examples:
      puridiver data fetch cifar100 --root ~/datasets
      puridiver data fetch cifar10 --url https://mirror.example/cifar-10-binary.tar.gz
    """
    with Progress() as progress:
        say(f"{name} is in {fetch_source(name, root, url=url, progress=progress.count)}")
    return 0


def verify(name: Name, root: Root = None) -> int:
    """Check the files of a data set. Exit code 0: good; 1: problems found.

    Examples:
      puridiver data verify cifar10
      puridiver data verify my_images.npz
    """
    return say_problems(name, data.verify(name, root))


ACTIONS = (list_, fetch, verify)
