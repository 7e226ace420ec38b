"""Tiny runs that the tests of several commands share."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import Any

import pytest

from puridiver import Learner
from puridiver.cli import app, main
from tests.wild import write_classes

TINY = (
    "--memory", "12", "--device", "cpu", "--epochs", "1", "--stream-limit", "8", "--test-limit", "20", "--tasks", "2",
    "--no-diversity", "--anytime-points", "1", "--sampler", "puridiver", "--trainer", "puridiver",
)  # fmt: skip
PICTURES = (
    "--memory", "12", "--network", "small", "--device", "cpu", "--epochs", "1", "--image-size", "8", "--quiet",
    "--sampler", "puridiver", "--trainer", "puridiver",
)  # fmt: skip


def small_learner(classes: Any = 3, **options: Any) -> Learner:
    """A learner of grey images of 8 x 8 pixels."""
    method = {"sampler": "puridiver", "trainer": "puridiver"}
    options = {**method, "epochs": 1, "batch_size": 8, "warmup_epochs": 0, **options}
    return Learner(classes, (8, 8, 1), 12, network="small", device="cpu", **options)


@functools.cache
def program() -> Any:
    """All commands, built once."""
    return app.build(app.command_names())


def parse_command(line: str) -> None:
    """Let the real parser read a line of a page, without its comment; it raises an error at what does not exist."""
    words: list[str] = shlex.split(line.replace("\\\n", " "), comments=True)[1:]
    while "--plugin" in words:  # would be loaded
        at = words.index("--plugin")
        del words[at : at + 2]
    found = program()
    while words and hasattr(found, "commands") and not words[0].startswith("-"):
        found = found.commands[words.pop(0)]
    if "--help" not in words and not hasattr(found, "commands"):
        found.make_context("puridiver", words).close()


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on digits. Tests must not change it."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    assert main(["run", *TINY, "--quiet", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def picture_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on pictures in red, green and blue, which lie beside it. Tests must not change it."""
    place = tmp_path_factory.mktemp("pictures")
    write_classes(place / "pictures", 12)
    words = ["run", "--data", str(place / "pictures"), "--test-share", "0.2", *PICTURES, "--data-root", str(place)]
    assert main([*words, "--set", "warmup_epochs=0", "--set", "batch_size=16", "--out", str(place / "run")]) == 0
    return place / "run"
