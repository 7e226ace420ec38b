"""Options of commands: how a value is read, which options commands share, and flags made from `RunConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from puridiver.cli.output import meant
from puridiver.errors import DataError
from puridiver.runs.config import SETTINGS, Role

PANELS = {
    Role.SOURCE: "Data and stream", Role.PLACE: "Data and stream", Role.STREAM: "A generated stream",
    Role.OPTIONS: "Method", Role.IDENTITY: "Method", Role.MEASUREMENT: "Evaluation", Role.MACHINE: "Machine",
}  # fmt: skip
KINDS: dict[Any, tuple[str, str]] = {int: ("N", "a whole number"), float: ("X", "a number"), Path: ("PATH", "a path")}


@dataclass(frozen=True)
class Arg:
    """An argument of a command, in the annotation of its parameter."""

    metavar: str
    help: str

    def for_typer(self, name: str, kind: Any, default: Any) -> Any:
        return typer.Argument(metavar=self.metavar, help=self.help, show_default=False)


@dataclass(frozen=True)
class Opt:
    """An option of a command, in the annotation of its parameter: `Annotated[int, Opt("images a batch", least=1)]`.

    Name and type of the parameter decide the flag. The help says the default where that is worth saying.
    """

    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    name: str = ""  # of the flag, where it is not that of the parameter
    panel: str | None = None
    callback: Callable[..., Any] | None = None

    def for_typer(self, name: str, kind: Any, default: Any) -> Any:
        flag = self.name or "--" + name.replace("_", "-")
        if kind is bool:
            names = (flag,) if default is False else ()  # others have --no-..., too
            return typer.Option(*names, help=self.help, show_default=False, rich_help_panel=self.panel)
        return typer.Option(
            flag, help=self.help, show_default=False, rich_help_panel=self.panel, callback=self.callback,
            metavar=self.metavar or "|".join(self.choices) or KINDS.get(kind, ("TEXT",))[0],
            parser=functools.partial(self.read, kind),
        )  # fmt: skip

    def read(self, kind: Any, text: Any) -> Any:
        """Turn the text of the option into its value, or say what the value should be."""
        if not isinstance(text, str):  # a default
            return text
        if self.choices and text not in self.choices:
            near = meant(text, self.choices)
            raise typer.BadParameter(f"should be one of {', '.join(self.choices)}, but got {text!r}{near}")
        try:
            found = kind(text)
        except ValueError:
            raise typer.BadParameter(f"should be {KINDS[kind][1]}, but got {text!r}") from None
        if self.least is not None and not found >= self.least:
            raise typer.BadParameter(f"should be at least {self.least}, but got {text}")
        return found


def typed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the `Opt` and `Arg` of a command's signature into those of typer."""
    parameters = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        hint, *marks = get_args(parameter.annotation) or (parameter.annotation,)
        if marks and isinstance(marks[0], Opt | Arg):
            kind = next((one for one in get_args(hint) if one is not type(None)), hint)  # of `kind | None`
            element = (get_args(kind) or (kind,))[0]  # of list[element]
            made = marks[0].for_typer(parameter.name, element, parameter.default)
            parameter = parameter.replace(annotation=Annotated[hint, made])  # noqa: PLW2901
        parameters.append(parameter)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def load_plugins(places: list[str] | None) -> list[str]:
    """Import the plugins while the command line is read, so that every later step knows their methods."""
    if places:
        from puridiver import plugins

        for place in places:
            plugins.add(place)
    return places or []


Force = Annotated[bool, Opt("replace what --out already holds")]
Json = Annotated[bool, Opt("print JSON instead of text")]
Quiet = Annotated[bool, Opt("show no progress and no notes")]
Resume = Annotated[bool, Opt("continue what was interrupted in --out")]
PLUGIN_HELP = "a Python file or module with methods or networks of your own; may be repeated"
Plugins = Annotated[list[str] | None, Opt(PLUGIN_HELP, "FILE", name="--plugin", callback=load_plugins)]
SET_HELP = "set an option of the recipe or of a method; may be repeated. `puridiver methods --options` lists all"
Assignments = Annotated[list[str] | None, Opt(SET_HELP, "OPTION=VALUE", name="--set")]


def settings_flags(names: Iterable[str], default: str = "") -> Callable[[Callable[..., int]], Any]:
    """Give a command an option for each of these fields of `RunConfig`.

    The command gets those that the user said, as the dict `settings`; what is unsaid is not in it. `default` is said
    in the help instead of the field's own.
    """
    fields = [SETTINGS[name] for name in names]

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_settings(**given: Any) -> int:
            said = {}
            for field in fields:
                if (value := given.pop(field.name)) is not None:
                    said[field.name] = value
            return command(settings=said, **given)

        parameters = dict(inspect.signature(command, eval_str=True).parameters)
        del parameters["settings"]
        for field in fields:
            own = "" if field.optional or field.kind is bool else f" (default: {field.default})"
            metavar = field.name.upper() if field.kind is str and not field.choices else ""
            flag = Opt(field.help + (default or own), metavar, field.choices, field.least, panel=PANELS[field.role])
            parameters[field.name] = inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[field.kind | None, flag]
            )
        with_settings.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        return with_settings

    return decorate


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
