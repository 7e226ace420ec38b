"""What an audit keeps of its command line, so that it need not be said again to go on with it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.run_settings import is_place

if TYPE_CHECKING:
    from rich.console import Console

# All but what is to be done.
REMEMBERED = (
    "data", "data_root", "image_size", "bad_files", "test_share", "split", "limit", "passes", "parts", "memory",
    "epochs", "network", "device", "seed", "assignments", "plant",
)  # fmt: skip


def recall(args: argparse.Namespace, errors: Console) -> None:
    """Options that were not given: as the audit has them that is gone on with, else as usual."""
    from puridiver.auditing.folder import AuditFolder

    goes_on = args.out and (args.resume or args.corrections) and not args.force
    asked = AuditFolder(Path(args.out)).asked() if goes_on else {}
    if not (args.data or asked.get("data")):
        raise ValueError(_no_data(args))
    missing = [name for name in REMEMBERED if getattr(args, name) is None]
    for name in missing:
        setattr(args, name, {**_usual(), **asked}.get(name))
    recalled = [word for name in missing if name in asked for word in _words(name, asked[name])]
    if recalled and not (args.quiet or args.json):
        errors.print(f"as the audit was begun: {shlex.join(recalled)}", highlight=False, soft_wrap=True)


def _no_data(args: argparse.Namespace) -> str:
    """Why the command does not know what to audit, and what to say."""
    from puridiver.auditing.folder import INDEX

    if not (args.resume or args.corrections) or args.force:
        return "name the data to audit, as in `puridiver audit my-images.npz`: what `puridiver run --data` takes"
    if (Path(args.out) / INDEX).exists():
        return f"{args.out} is of a version that did not keep where its data are: name them before --out"
    return f"there is no audit in {args.out} to go on with: look for a slip in its name, or name the data to audit"


@contextmanager
def told_if_moved(args: argparse.Namespace, said: str | None) -> Iterator[None]:
    """While the data are read: where their place was not `said` but remembered, that they may have moved."""
    from puridiver.errors import DataError

    try:
        yield
    except (DataError, ValueError) as error:
        if said or Path(args.data).exists():
            raise
        hint = f"if the data have moved, say where they are: `puridiver audit DATA --out {args.out} --resume`"
        raise DataError(f"{error}; {hint}") from error


def _words(name: str, value: Any) -> list[str]:
    """An option as one would type it."""
    if name == "data":
        return [value]
    values, flag = (value, "--set") if name == "assignments" else ([value], "--" + name.replace("_", "-"))
    return [word for each in values for word in (flag, str(each))]


def asked_of(args: argparse.Namespace) -> dict[str, Any]:
    """What of the command line differs from the usual, to be kept with the audit."""
    usual = _usual()
    found = {name: value for name in REMEMBERED if (value := getattr(args, name)) != usual.get(name)}
    for name in ("data", "data_root"):  # so that it can be gone on with from any folder
        if name in found and is_place(name, found[name]):
            found[name] = os.path.abspath(found[name])
    return found


def _usual() -> dict[str, Any]:
    """Options that nobody gave; what is not here is left to the data."""
    from puridiver.auditing.settings import AuditSettings

    of_learners = {name: value for name, value in AuditSettings().to_dict().items() if name != "network"}
    return {**of_learners, "bad_files": "refuse", "split": "train", "assignments": []}
