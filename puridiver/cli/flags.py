"""Options that commands share, and flags made from the fields of `RunConfig`."""

import functools
import inspect
import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from puridiver import data, options, plugins
from puridiver.cli.output import Progress
from puridiver.errors import DataError
from puridiver.files import check_writable
from puridiver.runs.config import SETTINGS, Role, Setting
from puridiver.streams.noise import MATRIX_FILE

PANELS = {
    Role.SOURCE: "Data and stream", Role.PLACE: "Data and stream", Role.STREAM: "A generated stream",
    Role.OPTIONS: "Method", Role.IDENTITY: "Method", Role.MEASUREMENT: "Evaluation", Role.MACHINE: "Machine",
}  # fmt: skip
METAVARS = {int: "N", float: "X"}


def Arg(metavar: str, help: str) -> Any:
    """An argument of a command, in the annotation of its parameter."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def Opt(help: str, metavar: str | None = None, name: str = "", least: float | None = None, **more: Any) -> Any:
    """An option of a command, in the annotation of its parameter.

    The parameter's name is the flag's unless `name` is another. A switch needs `name`; without it typer adds --no-...
    """
    metavar = metavar or (None if least is None else "N")
    return typer.Option(*filter(None, [name]), help=help, metavar=metavar, min=least, show_default=False, **more)


def load_plugins(places: list[str] | None) -> list[str]:
    """Import the plugins while the command line is read, so that every later step knows their methods."""
    for place in places or []:
        plugins.add(place)
    return places or []


Force = Annotated[bool, Opt("replace what --out already holds", name="--force")]
Json = Annotated[bool, Opt("print JSON instead of text", name="--json")]
Quiet = Annotated[bool, Opt("show no progress and no notes", name="--quiet")]
Resume = Annotated[bool, Opt("continue what was interrupted in --out", name="--resume")]
PLUGIN_HELP = "a Python file or module with methods or networks of your own; may be repeated"
Plugins = Annotated[list[str] | None, Opt(PLUGIN_HELP, "FILE", "--plugin", callback=load_plugins)]
SET_HELP = "set an option of the recipe or of a method; may be repeated. `puridiver methods --options` lists all"
Assignments = Annotated[list[str] | None, Opt(SET_HELP, "OPTION=VALUE", "--set")]


def settings_flags(names: Collection[str], default: str = "") -> Callable[[Callable[..., int]], Any]:
    """Give a command an option for each of these fields of `RunConfig`.

    The command gets what the user said as the dict `settings`. The help says `default` instead of the field's own.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def with_settings(**given: Any) -> int:
            settings = dict[str, Any]()
            for name in names:
                if (value := given.pop(name)) is not None:
                    settings[name] = SETTINGS[name].checked(value)
            return command(settings=settings, **given)

        parameters = dict(inspect.signature(command, eval_str=True).parameters)
        del parameters["settings"]
        for name in names:
            hint: Any = Annotated[SETTINGS[name].kind | None, _flag(SETTINGS[name], default)]
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters[name] = inspect.Parameter(name, keyword, default=None, annotation=hint)
        with_settings.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        return with_settings

    return decorate


def _flag(field: Setting, default: str) -> Any:
    own = "" if field.optional or field.kind is bool else f" (default: {field.default})"
    help = f"{field.help.partition(' (default')[0]} (default: {default})" if default else field.help + own
    metavar = "|".join(field.allowed()) or METAVARS.get(field.kind, field.name.upper())
    return Opt(help, None if field.kind is bool else metavar, rich_help_panel=PANELS[field.role])


def is_place(name: str, value: str) -> bool:
    """Whether the value of a setting is a path rather than a name that the package knows."""
    if name == "data":
        return bool(data.own_kind(value))
    return {"stream": value.endswith(".json"), "noise": value.startswith(MATRIX_FILE)}.get(name, SETTINGS[name].path)


def absolute_places(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with full paths, so that a run can be resumed from any folder."""
    found = dict(settings)
    for name, value in settings.items():
        if isinstance(value, str) and is_place(name, value):
            prefix = MATRIX_FILE if name == "noise" else ""
            found[name] = prefix + str(Path(value.removeprefix(prefix)).expanduser().absolute())
    return found


def check_new(file: Path, force: bool) -> None:
    """Raise an error, before the work, if the file cannot be written or exists already."""
    check_writable(file)
    if file.is_dir() or (file.is_file() and not force):
        raise FileExistsError(f"{file} is already there: name another file, or add --force to replace it")


def check_outside(place: str, out: Path) -> None:
    """Raise an error if --out lies inside the data folder, whose subfolders count as classes."""
    if is_place("data", place) and out.resolve().is_relative_to(Path(place).resolve()):
        raise DataError(f"--out {out} lies in the folder of the data ({place}): name a folder outside of it")


def load_data(
    place: str, settings: dict[str, Any], size: int | tuple[int, int] | None, progress: Progress
) -> data.DataSource:
    """Load data for a learner or an audit; by default no share of a user's own data is split off for testing."""
    own = data.own_kind(place)
    share = settings.get("test_share", 0.0 if own else None)
    root = Path(settings["data_root"]) if "data_root" in settings else None
    reading = data.FileOptions(size if own == "files" else None, share, settings.get("bad_files", "refuse"))
    return data.load(place, root, reading, progress.count)


def resume_command(words: Sequence[str]) -> str:
    """The command line that continues what these words began."""
    return shlex.join(["puridiver", *(word for word in words if word not in ("--resume", "--force")), "--resume"])


def options_of(assignments: Sequence[str] | None) -> dict[str, Any]:
    """The options that `--set NAME=VALUE` gives, with values of the declared types."""
    plugins.load_all()
    return options.parse(assignments or [])
