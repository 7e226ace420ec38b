"""Options of commands: how a value is read, which options commands share, and flags made from `RunConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from puridiver.cli.output import meant
from puridiver.runs.config import SETTINGS, Role, Setting

PANELS = {
    Role.SOURCE: "Data and stream",
    Role.PLACE: "Data and stream",
    Role.STREAM: "A generated stream",
    Role.OPTIONS: "Method",
    Role.IDENTITY: "Method",
    Role.MEASUREMENT: "Evaluation",
    Role.MACHINE: "Machine",
}
WORDS: dict[type, str] = {int: "a whole number", float: "a number"}


def value_of(kind: type, choices: Sequence[str] = (), least: float | None = None) -> Callable[[Any], Any]:
    """A function that turns the text of an option into its value, or says what the value should be."""

    def read(text: Any) -> Any:
        if not isinstance(text, str):  # a default
            return text
        if choices and text not in choices:
            raise typer.BadParameter(f"should be one of {', '.join(choices)}, but got {text!r}{meant(text, choices)}")
        try:
            found = kind(text)
        except ValueError:
            raise typer.BadParameter(f"should be {WORDS[kind]}, but got {text!r}") from None
        if least is not None and not found >= least:
            raise typer.BadParameter(f"should be at least {least}, but got {text}")
        return found

    return read


def option(
    help: str, *names: str, kind: type = str, choices: Sequence[str] = (), least: float | None = None,
    metavar: str = "", panel: str | None = None, **more: Any,
) -> Any:  # fmt: skip
    """An option of a command. Its help says the default, where there is one worth saying."""
    if kind is not bool:
        more["metavar"] = metavar or "|".join(choices) or {int: "N", float: "X"}.get(kind) or "TEXT"
        more["parser"] = value_of(kind, choices, least)
    return typer.Option(*names, help=help, show_default=False, rich_help_panel=panel, **more)


def argument(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def load_plugins(places: list[str] | None) -> list[str]:
    """Import the plugins while the command line is read, so that every later step knows their methods."""
    if places:
        from puridiver import plugins

        for place in places:
            plugins.add(place)
    return places or []


Force = Annotated[bool, option("replace what --out already holds", "--force", kind=bool)]
Json = Annotated[bool, option("print JSON instead of text", "--json", kind=bool)]
Quiet = Annotated[bool, option("show no progress and no notes", "--quiet", kind=bool)]
Resume = Annotated[bool, option("continue what was interrupted in --out", "--resume", kind=bool)]
Plugins = Annotated[
    list[str] | None,
    option(
        "a Python file or module with methods or networks of your own; may be repeated",
        "--plugin", metavar="FILE", callback=load_plugins,
    ),
]  # fmt: skip
Assignments = Annotated[
    list[str] | None,
    option(
        "set an option of the recipe or of a method; may be repeated. `puridiver methods --options` lists all",
        "--set", metavar="OPTION=VALUE",
    ),
]  # fmt: skip


def settings_flags(chosen: Callable[[Setting], bool], unset: str = "") -> Callable[[Callable[..., int]], Any]:
    """Give a command an option for each chosen field of `RunConfig`.

    The command gets those that the user said, as the dict `settings`; what is unsaid is not in it. `unset` replaces
    the default in the help, where a command has another one.
    """
    fields = [declared for declared in SETTINGS.values() if chosen(declared)]

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_settings(**given: Any) -> int:
            values = {declared.name: given.pop(declared.name) for declared in fields}
            return command(settings={name: value for name, value in values.items() if value is not None}, **given)

        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "settings"]
        made = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_flag(field, unset))
            for field in fields
        ]
        with_settings.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
        with_settings.__annotations__ = {p.name: p.annotation for p in (*own, *made)}
        return with_settings

    return decorate


def _flag(field: Setting, unset: str) -> Any:
    default = "" if field.optional or field.kind is bool else f" (default: {field.default})"
    text = field.help + (unset or default)
    return Annotated[
        field.kind | None,
        option(
            text, kind=field.kind, choices=field.choices, least=field.least, panel=PANELS[field.role],
            metavar="" if field.choices or field.kind is not str else field.name.upper(),
        ),
    ]  # fmt: skip


def absolute_places(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with full paths where a value is a file or folder, so that a run can be resumed from any folder."""
    found = dict(settings)
    for name, value in settings.items():
        if SETTINGS[name].path and is_place(name, value):
            kind, colon, file = value.rpartition("matrix:") if name == "noise" else ("", "", value)
            found[name] = kind + colon + str(Path(file).expanduser().absolute())
    return found


def is_place(name: str, value: str) -> bool:
    """Whether the value of a setting is a file or folder, and no name that the package knows."""
    from puridiver.data import SOURCES
    from puridiver.data.sources import is_own_or_arrays
    from puridiver.streams.names import MATRIX_FILE, is_manifest

    if name == "data":
        return value not in SOURCES and is_own_or_arrays(value)
    if name == "stream":
        return is_manifest(value)
    return name != "noise" or value.startswith(MATRIX_FILE)


def check_outside(data: str, out: Path) -> None:
    """Raise an error where --out lies in a folder of data, whose folders are taken for classes."""
    from puridiver.errors import DataError

    if not is_place("data", data) or not Path(data).is_dir():
        return
    for found in (Path.absolute, Path.resolve):  # by the names as they are, and by what links lead to
        if found(out).is_relative_to(found(Path(data))):
            raise DataError(
                f"--out {out} lies in the folder of the data ({data}), where folders are taken for classes: name a "
                f"folder outside of it, such as {Path(data).resolve()}-out"
            )


def options_of(assignments: Sequence[str] | None) -> dict[str, Any]:
    """The options that `--set NAME=VALUE` gives, with values of the declared types."""
    from puridiver import plugins
    from puridiver.options import parse

    plugins.load_all()
    return parse(assignments or [])
