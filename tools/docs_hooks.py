"""Hooks of mkdocs: the reference pages are made from the package's own help and public names at build time."""

from __future__ import annotations

from typing import Any

import typer

import puridiver
from puridiver.cli.app import build, command_names

WIDTH = 100


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill the reference pages; leave every other page alone."""
    fill = {"reference/cli.md": _commands, "reference/api.md": _public_names}.get(page.file.src_uri)
    return markdown if fill is None else markdown + "\n" + fill()


def _commands() -> str:
    program = build(command_names())
    context = typer.Context(program, info_name="puridiver", max_content_width=WIDTH, terminal_width=WIDTH)
    return "\n".join(_help_of(program, context, level=2))


def _help_of(command: Any, context: Any, level: int) -> list[str]:
    """The help of a command and, below it, of its sub-commands."""
    parts = [f"{'#' * level} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"]
    for name, inner in getattr(command, "commands", {}).items():
        below = typer.Context(inner, info_name=name, parent=context, max_content_width=WIDTH, terminal_width=WIDTH)
        parts += _help_of(inner, below, level + 1)
    return parts


def _public_names() -> str:
    named = [name for name in puridiver.__all__ if not name.startswith("_")]
    places = [f"{getattr(puridiver, name).__module__}.{name}" for name in named]
    return "\n\n".join(f"::: {place}" for place in places)
