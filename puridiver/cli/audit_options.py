"""What an audit keeps of its command line, so that it need not be said again to go on with it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# All but where things lie and what is to be done.
REMEMBERED = (
    "image_size", "bad_files", "test_share", "split", "limit", "passes", "parts", "memory", "epochs", "network",
    "device", "seed", "assignments", "plant",
)  # fmt: skip


def recall(args: argparse.Namespace, errors: Console) -> None:
    """Options that were not given: as the audit has them that is gone on with, else as usual."""
    from puridiver.auditing.folder import AuditFolder

    goes_on = args.out and (args.resume or args.corrections) and not args.force
    asked = AuditFolder(Path(args.out)).asked() if goes_on else {}
    missing = [name for name in REMEMBERED if getattr(args, name) is None]
    for name in missing:
        setattr(args, name, {**_usual(), **asked}.get(name))
    recalled = [word for name in missing if name in asked for word in _words(name, asked[name])]
    if recalled and not (args.quiet or args.json):
        errors.print(f"as the audit was begun: {shlex.join(recalled)}", highlight=False, soft_wrap=True)


def _words(name: str, value: Any) -> list[str]:
    """An option as one would type it."""
    values, flag = (value, "--set") if name == "assignments" else ([value], "--" + name.replace("_", "-"))
    return [word for each in values for word in (flag, str(each))]


def asked_of(args: argparse.Namespace) -> dict[str, Any]:
    """What of the command line differs from the usual, to be kept with the audit."""
    usual = _usual()
    return {name: value for name in REMEMBERED if (value := getattr(args, name)) != usual.get(name)}


def _usual() -> dict[str, Any]:
    """Options that nobody gave; what is not here is left to the data."""
    from puridiver.auditing.settings import AuditSettings

    of_learners = {name: value for name, value in AuditSettings().to_dict().items() if name != "network"}
    return {**of_learners, "bad_files": "refuse", "split": "train", "assignments": []}
