"""The command line as a whole: help, exit codes, examples that work."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from puridiver import __version__
from puridiver.cli import main
from puridiver.cli.main import COMMANDS as ALL_COMMANDS
from puridiver.cli.main import build_parser
from puridiver.errors import DataError
from tests.wild import write_classes

COMMANDS = (
    "", "run", "learn", "grid", "table", "figure", "report", "plot", "methods", "data", "data list",
    "data fetch", "data verify", "stream", "stream make", "stream show", "stream verify",
)  # fmt: skip

HELP_OF_ALL = """
import contextlib, io, json, sys
from puridiver.cli import main
found = {}
for command in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            main([*command.split(), "--help"])
        except SystemExit as error:
            found[command] = [error.code, out.getvalue()]
print(json.dumps({"help": found, "torch": "torch" in sys.modules}))
"""


@pytest.fixture(scope="module")
def helps() -> dict:
    command = [sys.executable, "-c", HELP_OF_ALL, json.dumps(COMMANDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=None)
    return json.loads(done.stdout)


@pytest.mark.parametrize("command", ["data", "stream"])
def test_a_command_with_actions_alone_shows_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"usage: puridiver {command}" in captured.err
    assert "examples:" in captured.err


def test_help_does_not_wait_for_torch(helps):
    assert helps["torch"] is False


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(helps, command):
    code, text = helps["help"][command]
    assert code == 0
    assert text.startswith(f"usage: puridiver {command}".strip())
    assert "examples:" in text


def examples(text: str) -> list[list[str]]:
    """The example commands of a help text, without remarks and pipes."""
    lines = [line.strip() for line in text.partition("examples:")[2].splitlines()]
    commands = [re.split(r"\s{2,}| \| ", line)[0] for line in lines if line.startswith("puridiver ")]
    return [shlex.split(command)[1:] for command in commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_example_is_a_command_that_exists(helps, command):
    found = examples(helps["help"][command][1])
    assert found
    for arguments in found:
        assert " ".join(arguments).startswith(command)
        if "--help" not in arguments:
            build_parser().parse_args(arguments)


def test_every_option_says_what_it_does():
    pending = [build_parser()]
    while pending:
        parser = pending.pop()
        for action in parser._actions:
            if isinstance(action.choices, dict):
                pending += action.choices.values()
            else:
                assert action.help, f"{parser.prog} {action.option_strings or action.dest}"


def test_the_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"puridiver {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run", "--fast"], ["run", "--epochs", "many"], ["stream", "fly"]])
def test_wrong_usage_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_without_a_command_all_are_listed(capsys):
    with pytest.raises(SystemExit):
        main([])
    told = capsys.readouterr().err
    assert all(f"\n    {command}" in told for command in ALL_COMMANDS)


@pytest.mark.parametrize("error", [ValueError("a bad value"), DataError("no data"), FileNotFoundError("no file")])
@pytest.mark.parametrize("debug", [False, True])
def test_errors_become_one_line_and_exit_code_2(error, debug, monkeypatch, capsys):
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr("puridiver.cli.methods.handle", fail)
    assert main([*["--debug"] * debug, "methods"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(f"puridiver: error: {error}\n")
    assert ("Traceback" in captured.err) == debug


def test_an_interrupt_exits_with_130(monkeypatch, capsys):
    def interrupt(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("puridiver.cli.methods.handle", interrupt)
    assert main(["methods"]) == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_fault_of_our_own_is_not_hidden(monkeypatch):
    def fail(args: object) -> int:
        raise KeyError("oops")

    monkeypatch.setattr("puridiver.cli.methods.handle", fail)
    with pytest.raises(KeyError):
        main(["methods"])


def test_a_reader_that_leaves_early_is_no_error():
    command = f"{shlex.quote(sys.executable)} -m puridiver methods --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "{0\n"
    assert done.stderr == ""


def test_what_was_done_is_kept_where_nobody_reads_what_is_said_of_it(tmp_path):
    """Also by the tables, whose library would end the program by itself."""
    tool = f"{shlex.quote(sys.executable)} -m puridiver"
    words = "run --epochs 1 --stream-limit 5 --test-limit 20 --memory 20 --quiet --device cpu --ledger l.jsonl"
    commands = f"{tool} methods | true; echo ${{PIPESTATUS[0]}}; {tool} {words} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("0\n0\n", "")
    assert len((tmp_path / "l.jsonl").read_text().splitlines()) == 1


def test_a_manifest_is_written_and_an_error_told_where_nobody_reads_what_was_found(tmp_path):
    write_classes(tmp_path / "pictures", 3)
    make = f"{shlex.quote(sys.executable)} -m puridiver stream make --from pictures --test-share 0.4 --data-root ."
    commands = f"{make} --out s.json | true; echo ${{PIPESTATUS[0]}}; echo x > pictures/red/bad.png; "
    commands += f"{make} --out other.json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "0\n2\n"
    assert "red/bad.png: not an image" in done.stderr
    assert [path.name for path in tmp_path.glob("*.json")] == ["s.json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--memroy", "10"], "did you mean --memory? (`puridiver run --help` lists"),
        (["run", "--xyzzy"], "unrecognized arguments: --xyzzy (`puridiver run"),
        (["table", "x.jsonl", "--fromat", "csv"], "did you mean --format?"),
        (
            ["stream", "make", "--out", "a.json", "--nosie", "sym-20"],
            "did you mean --noise? (`puridiver stream make --help` lists",
        ),
    ],
)
def test_an_option_that_does_not_exist_is_met_with_the_nearest(words, told, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert told in capsys.readouterr().err


def test_what_a_terminal_cannot_show_is_spelt_out(monkeypatch):
    ledger = Path(__file__).parents[2] / "results" / "digits.jsonl"
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["table", str(ledger)]) == 0
    shown.flush()
    assert b" \\xb1 " in shown.buffer.getvalue()  # a plus-minus sign


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("table table1 --plugin mine.py runs/a --format csv runs/b", {"ledger": ["table1", "runs/a", "runs/b"]}),
        ("figure figure-alpha --any-code runs/a", {"preset": "figure-alpha", "folder": "runs/a"}),
        ("predict runs/a one.png --probabilities two.png", {"learner": "runs/a", "images": ["one.png", "two.png"]}),
        ("stream show a.json --json b.json", {"files": [Path("a.json"), Path("b.json")]}),
        ("table --format csv -- -odd.jsonl", {"ledger": ["-odd.jsonl"]}),
    ],
)
def test_options_may_stand_between_what_is_named(words, found):
    args, unknown = build_parser().parse_known_args(words.split())
    assert unknown == []
    assert {name: getattr(args, name) for name in found} == found


def test_what_is_unknown_after_an_option_is_still_refused(capsys):
    with pytest.raises(SystemExit):
        main(["figure", "figure-alpha", "--any-code", "runs/a", "runs/b"])
    assert "unrecognized arguments: runs/b" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["table", "table1", "--any-cdoe", "runs/a"])
    assert "did you mean --any-code?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["predict", "runs/a", "--probabilities"])
    assert "the following arguments are required: IMAGES" in capsys.readouterr().err
