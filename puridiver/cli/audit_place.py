"""Where an audit may write: what would fail at the end, or cost a user's files, must fail before the work."""

from __future__ import annotations

import argparse
from pathlib import Path

from puridiver.cli.common import check_outside
from puridiver.cli.run_settings import is_place


def check_options(args: argparse.Namespace) -> None:
    """An error where options do not go together, or the folder is not one for an audit."""
    from puridiver.auditing.folder import INDEX, AuditFolder
    from puridiver.errors import DataError
    from puridiver.report.style import check_installed
    from puridiver.runs.folder import check_no_run

    if (args.resume or args.corrections or args.force) and not args.out:
        raise ValueError("--resume, --corrections and --force need --out FOLDER: the folder of the audit")
    if args.limit is not None and args.limit < 2:
        raise ValueError(f"--limit should be at least 2 samples, but got {args.limit}")
    if not args.out:
        return
    folder = Path(args.out)
    check_no_run(folder)
    AuditFolder(folder).check_own()
    if (folder / INDEX).exists() and not (args.resume or args.corrections or args.force):
        raise DataError(
            f"{folder} holds an audit; say --resume to continue it, --corrections CSV to go on with corrected labels, "
            "or --force to replace it"
        )
    check_installed("report", "jinja2", "PIL")


def check_data_apart(args: argparse.Namespace) -> None:
    """An error where the audit would write over its data, or among them; once it is known where they are."""
    from puridiver.auditing.folder import AuditFolder

    if args.out and is_place("data", args.data):
        check_outside(Path(args.data), Path(args.out))
        AuditFolder(Path(args.out)).check_spares(Path(args.data))
