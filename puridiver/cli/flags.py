"""Options of commands: how they are declared, which ones commands share, and flags made from `RunConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from puridiver.cli.output import Progress
from puridiver.errors import DataError, meant
from puridiver.runs.config import SETTINGS, Role

if TYPE_CHECKING:
    from puridiver.data.base import DataSource

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

    def parser(self, kind: Any) -> Callable[[Any], Any]:
        """A function that turns the text of the option into its value, or says what the value should be."""

        def read(text: Any) -> Any:
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

        return read


def typed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the `Opt` and `Arg` of a command's signature into those of typer."""
    parameters = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        hint, *marks = get_args(each.annotation) or (each.annotation,)
        mark: Any = marks[0] if marks else None
        kind = next((one for one in get_args(hint) if one is not type(None)), hint)  # of `kind | None`
        kind = (get_args(kind) or (kind,))[0]  # of `list[kind]`
        if isinstance(mark, Arg):
            mark = typer.Argument(metavar=mark.metavar, help=mark.help, show_default=False)
        elif isinstance(mark, Opt):
            names = [mark.name or "--" + each.name.replace("_", "-")]
            more: dict[str, Any] = {"show_default": False, "rich_help_panel": mark.panel}
            if kind is bool:
                names = names if each.default is False else []  # typer adds --no-... where there are no names
            else:
                more |= {"parser": mark.parser(kind), "callback": mark.callback}
                more["metavar"] = mark.metavar or "|".join(mark.choices) or KINDS.get(kind, ("TEXT",))[0]
            mark = typer.Option(*names, help=mark.help, **more)
        parameters.append(each.replace(annotation=Annotated[hint, mark]) if marks else each)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
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

    The command gets what the user said as the dict `settings`. `default` is said in the help instead of the field's.
    """
    fields = [SETTINGS[name] for name in names]

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_settings(**given: Any) -> int:
            said = {field.name: given.pop(field.name) for field in fields}
            return command(settings={name: value for name, value in said.items() if value is not None}, **given)

        parameters = dict(inspect.signature(command, eval_str=True).parameters)
        del parameters["settings"]
        for field in fields:
            own = "" if field.optional or field.kind is bool else f" (default: {field.default})"
            metavar = field.name.upper() if field.kind is str and not field.choices else ""
            flag = Opt(field.help + (default or own), metavar, field.choices, field.least, panel=PANELS[field.role])
            hint: Any = Annotated[field.kind | None, flag]
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters[field.name] = inspect.Parameter(field.name, keyword, default=None, annotation=hint)
        with_settings.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        return with_settings

    return decorate


def is_place(name: str, value: str) -> bool:
    """Whether the value of a setting is a file or folder, and no name that the package knows."""
    from puridiver.data import own_kind

    if name == "data":
        return bool(own_kind(value))
    return {"stream": value.endswith(".json"), "noise": value.startswith("matrix:")}.get(name, SETTINGS[name].path)


def absolute_places(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with full paths, so that a run can be resumed from any folder."""
    found = dict(settings)
    for name, value in settings.items():
        if isinstance(value, str) and is_place(name, value):
            prefix = "matrix:" if name == "noise" else ""
            found[name] = prefix + str(Path(value.removeprefix(prefix)).expanduser().absolute())
    return found


def check_outside(data: str, out: Path) -> None:
    """Raise an error where --out lies in a folder of data, whose folders are taken for classes."""
    for found in (Path.absolute, Path.resolve):  # by the names as they are, and by what links lead to
        if is_place("data", data) and Path(data).is_dir() and found(out).is_relative_to(found(Path(data))):
            raise DataError(f"--out {out} lies in the folder of the data ({data}): name a folder outside of it")


def load_data(place: str, settings: dict[str, Any], side: int | None, progress: Progress) -> DataSource:
    """The data of a learner or an audit: all of one's own files, unless they have a test part or the user says so."""
    from puridiver import data

    own = data.own_kind(place)
    share = settings.get("test_share", 0.0 if own else None)
    root = Path(settings["data_root"]) if "data_root" in settings else None
    options = data.FileOptions(side if own == "files" else None, share, settings.get("bad_files", "refuse"))
    return data.load(place, root, options, progress.count)


def options_of(assignments: Sequence[str] | None) -> dict[str, Any]:
    """The options that `--set NAME=VALUE` gives, with values of the declared types."""
    from puridiver import plugins
    from puridiver.options import parse

    plugins.load_all()
    return parse(assignments or [])
