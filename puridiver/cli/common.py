"""What the sub-commands share."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(subparsers: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    """A sub-command whose --help ends with examples."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
