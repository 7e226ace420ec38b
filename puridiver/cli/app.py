"""Finds the commands, runs one, and turns errors into exit codes.

Each file of this folder that is not in `HELPERS` is a command: it has a function of its own name, or several in
`ACTIONS`. Their signatures are the options, their docstrings the help. To add a command, add a file.

Exit codes: 0 success; 1 a check found a difference (`verify`) or a cell failed (`grid`); 2 wrong usage, bad input or
missing data; 3 out of memory; 130 interrupted with Ctrl-C.
"""

import ast
import importlib
import inspect
import io
import itertools
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from puridiver._version import __version__
from puridiver.cli.output import tell
from puridiver.discovery import listing
from puridiver.errors import PuridiverError
from puridiver.runs.config import SETTINGS

HELPERS = ("app", "flags", "output")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer does not export its name
NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")  # of CUDA and of the CPU

SUMMARY = """Learn online from an image stream whose labels are partly wrong and whose classes drift.

Examples:
  puridiver run                                  the default on digits, 40 % wrong labels
  puridiver run --sampler rsv --trainer plain    the plainest baseline on the same stream
  puridiver audit my-images.npz --out audit      which labels of your own data look wrong
  puridiver grid table1 --data digits            the paper's Table 1, on digits
"""


class PanelCommand(TyperCommand):
    """A command whose help groups the options under headings, and lists the members of families."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            panel, (name, text) = getattr(param, "rich_help_panel", None), param.get_help_record(ctx) or ("", "")
            if param.param_type_name == "argument":
                panel, name = "Arguments", param.metavar or name
            if param.name in SETTINGS and (family := SETTINGS[param.name].family):
                text += f". Known: {listing(family)}"
            sections.setdefault(panel or "Options", []).append((name, text))
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def command_names() -> list[str]:
    """The commands, by the files of this folder."""
    return [file.name for file in pkgutil.iter_modules([str(Path(__file__).parent)]) if file.name not in HELPERS]


def build(names: Sequence[str]) -> TyperGroup:
    """Build the program with these commands; with none named, with the help of all commands, importing none of them."""
    app = _group(SUMMARY, _program)
    for name in [] if names else command_names():
        app.command(name, **_help(_docstring(name)))(lambda: None)
    for name in names:
        module = importlib.import_module(f"puridiver.cli.{name}")
        actions = getattr(module, "ACTIONS", None)
        group = _group(module.__doc__ or "", _actions) if actions else app
        for action in actions or [getattr(module, name)]:
            group.command(action.__name__.rstrip("_"), cls=PanelCommand, **_help(action.__doc__ or ""))(action)
        if actions:
            app.add_typer(group, name=name)
    return typer.main.get_command(app)  # type: ignore[return-value]


def _docstring(name: str) -> str:
    """The docstring of a command whose file is not imported."""
    module = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    functions = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == name]
    return ast.get_docstring(functions[0] if functions else module) or ""


def _group(text: str, callback: Callable[..., None]) -> typer.Typer:
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    group.callback(invoke_without_command=True, context_settings=CONTEXT, **_help(text))(callback)
    return group


def _help(text: str) -> dict[str, Any]:
    """A docstring as help: the examples come last and keep their lines."""
    text, _, examples = inspect.cleandoc(text).partition("Examples:\n")
    return {"help": text.strip(), "epilog": f"\b\nExamples:\n{examples}"}


def _actions(ctx: typer.Context) -> None:
    """Show the help and exit with code 2 where no command is named."""
    if ctx.invoked_subcommand is None:
        tell(ctx.get_help())
        raise typer.Exit(2)


def _program(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="show the version and exit")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="show the whole traceback of an error")] = False,
) -> None:
    if version:
        print(f"puridiver {__version__}")
        raise typer.Exit
    _actions(ctx)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process, and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a character that the terminal lacks must not end the work
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if any(not word.strip() or (word.startswith("--") and word.endswith("=")) for word in words):
            raise ValueError("an argument is empty: is a variable of the shell not set?")
        program = build([word for word in words if word in command_names()][:1])
        try:
            with program.make_context("puridiver", list(words), obj=words) as context:
                code = int(program.invoke(context) or 0)
        except typer.Exit as stop:  # --help and --version
            code = stop.exit_code
        sys.stdout.flush()  # here, where a closed pipe is caught
        return code
    except KeyboardInterrupt:
        tell("puridiver: interrupted")
        return 130
    except BrokenPipeError:  # `puridiver ... | head`: the reader left, which is no error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that later output cannot fail either
        return 0
    except Exception as error:
        return _report(error, words)


def _report(error: Exception, words: Sequence[str]) -> int:
    """Print a user's error in one line and return the exit code; re-raise what is a bug of the package."""
    code, message = 2, str(error)
    if isinstance(error, USAGE_ERROR):
        flags, where = getattr(getattr(error, "param", None), "opts", ()), " ".join(["puridiver", *words[:1]])
        message = error.format_message().rstrip(".")
        given = [repr(value) for flag, value in itertools.pairwise(words) if flag in flags]
        message += "".join(f", but got {value}" for value in given if value not in message)
        message += f" (`{error.ctx.command_path if error.ctx else where} --help` lists what there is)"
    elif isinstance(error, MemoryError) or any(sign in message.lower() for sign in NO_MEMORY):
        code, message = 3, "out of memory: try a smaller --memory, --image-size or --network"
    elif isinstance(error, RecursionError):
        message = "a file is nested too deeply to be read (--debug shows which)"
    elif isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.filename}: {error.strerror.lower()}"
    elif not isinstance(error, PuridiverError | ValueError | OSError):
        raise error
    if "--debug" in words:
        traceback.print_exception(error)
    tell(f"puridiver: error: {' '.join(message.split())}")
    return code
