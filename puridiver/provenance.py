"""Where a figure comes from: the command, the commit and the versions that every result row carries."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import torch

from puridiver._version import __version__


def command_line() -> str:
    """The command that is running, for the record, without the path of the interpreter."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def commit() -> str | None:
    """The commit of the checkout this package runs from, "-dirty" if changed; None outside a checkout."""
    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    if not (here.parent / ".git").exists():
        return os.environ.get("PURIDIVER_COMMIT")  # set where code travels without its history
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", str(here)], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head}-dirty" if changed else head


def versions() -> dict[str, str]:
    """Versions of everything that figures may depend on."""
    import numpy

    return {
        "puridiver": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }
