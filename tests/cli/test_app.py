"""The command line as a whole: help, wrong usage, exit codes, what reaches the terminal."""

from __future__ import annotations

import dataclasses
import io
import re
import shlex
import subprocess
import sys

import pytest

import puridiver.cli
from puridiver.cli import app, flags, main
from puridiver.cli.output import plain, say_table
from puridiver.errors import DataError
from puridiver.runs.config import SETTINGS
from tests.cli.conftest import parse_command, program


def test_help_does_not_wait_for_heavy_libraries():
    code = "import sys; from puridiver.cli import main; main(['--help']); "
    code += "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_every_command_has_help_with_examples_that_parse(capsys):
    groups = {name: getattr(each, "commands", {}) for name, each in program().commands.items()}
    assert {"run", "grid", "table", "report", "figure", "audit", "learn", "predict", "methods"} <= groups.keys()
    for command in ["", *groups, *(f"{name} {action}" for name, actions in groups.items() for action in actions)]:
        assert main([*command.split(), "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: puridiver {command}".strip())
        lines = [line.strip() for line in text.partition("Examples:")[2].splitlines()]
        examples = [re.split(r"\s{2,}| \| ", line)[0] for line in lines if line.startswith("puridiver ")]
        assert 2 <= len(examples) <= 4, command
        for example in examples:
            assert example.startswith(f"puridiver {command}".strip())
            parse_command(example)


def test_a_file_in_the_folder_is_a_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "hello.py").write_text('def hello(name: str) -> int:\n    "Greet."\n    print(name)\n    return 1\n')
    monkeypatch.setattr(app, "__file__", str(tmp_path / "app.py"))
    monkeypatch.setattr(puridiver.cli, "__path__", [*puridiver.cli.__path__, str(tmp_path)])
    assert main(["hello", "you"]) == 1
    assert capsys.readouterr().out == "you\n"


def test_a_field_of_the_config_is_a_flag(monkeypatch, capsys):
    new = dataclasses.replace(SETTINGS["memory"], name="colour_bits", help="bits of a colour")
    monkeypatch.setitem(SETTINGS, "colour_bits", new)
    said = []

    @flags.settings_flags(("colour_bits", "graphs", "bad_files"))
    def paint(settings: dict) -> int:
        said.append(settings)
        return 0

    monkeypatch.setattr(app, "command_names", lambda: ["paint"])
    monkeypatch.setitem(sys.modules, "puridiver.cli.paint", type("module", (), {"paint": staticmethod(paint)}))
    assert main(["paint", "--colour-bits", "3", "--no-graphs"]) == 0
    assert said == [{"colour_bits": 3, "graphs": False}]
    assert main(["paint", "--help"]) == 0
    assert "bits of a colour" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["data"], ["stream"]])
def test_a_command_without_an_action_shows_its_help(words, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"Usage: puridiver {' '.join(words)}".strip() in captured.err


ERRORS = [
    (ValueError("a bad value"), 2, "a bad value"),
    (DataError("no\ndata"), 2, "no data"),
    (FileNotFoundError(2, "No such file", "x.csv"), 2, "x.csv: no such file"),
    (RecursionError("too deep"), 2, "nested too deeply"),
    (MemoryError(), 3, "out of memory"),
    (RuntimeError("CUDA out of memory. Tried to allocate"), 3, "out of memory"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 3, "try a smaller --memory"),
    (KeyboardInterrupt(), 130, "interrupted"),
]


@pytest.mark.parametrize(("error", "code", "message"), ERRORS)
def test_errors_become_one_line_and_an_exit_code(error, code, message, monkeypatch, capsys):
    def fail() -> dict:
        raise error

    monkeypatch.setattr("puridiver.cli.methods.listing", fail)
    assert main(["methods"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    if code != 130:
        assert main(["--debug", "methods"]) == code
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["methods --json", "--version"])
def test_a_reader_that_leaves_early_is_no_error(words, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # what is left in the buffer must not fail, either
    command = f"{shlex.quote(sys.executable)} -m puridiver {words} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_what_a_terminal_cannot_show_is_spelt_out(monkeypatch):
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["methods"]) == 0
    shown.flush()
    assert shown.buffer.getvalue()


def test_control_codes_are_spelt_out_and_markup_is_text(capsys):
    assert plain("red\x1b[31m\x07 \u202e\x9b2J tab\tline\n") == r"red\x1b[31m\x07 \u202e\x9b2J tab" "\tline\n"
    say_table([["a[/b]", "\x1b[2Jcat", "[bold]dog"]], ["x", "y", "z>"], title="[red]\x1b]0;t\x07")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert all(text in shown for text in ("a[/b]", r"\x1b[2Jcat", "[bold]dog", r"[red]\x1b]0;t\x07"))
