"""Where a figure comes from: the command, the commit and the versions that every result row carries."""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import subprocess
from pathlib import Path

import torch

from puridiver._version import __version__
from puridiver.config import RunConfig
from puridiver.runs import without_folder

PLACES = {"data_root": "DATA", "splits": "SPLITS"}  # where things lie on one machine does not belong in a record


def command_for(config: RunConfig) -> str:
    """The `puridiver run` command of a config, without the paths of this machine."""
    words = ["puridiver", "run"]
    for option in dataclasses.fields(config):
        value = getattr(config, option.name)
        if option.name == "options" or value == option.default:
            continue
        flag = "--" + option.name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            words += [flag, PLACES.get(option.name) or without_folder(str(value))]
    for name, value in config.options.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def commit() -> str | None:
    """The commit of the checkout this package runs from, "-dirty" if changed; else $PURIDIVER_COMMIT, else None."""
    here = Path(__file__).parent
    told = os.environ.get("PURIDIVER_COMMIT")  # set where code travels without its history
    if not (here.parent / ".git").exists():
        return told
    try:
        head, changed = (
            subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--", str(here)))
        )
    except (OSError, subprocess.CalledProcessError):
        return told
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
