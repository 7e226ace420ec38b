"""`puridiver methods`, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.options import declared
from puridiver.recipes import RECIPES, recipe

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_methods.py"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["methods", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_json_lists_every_family_and_every_option_of_every_recipe(capsys):
    found = json.loads(printed(capsys, "--json"))
    assert {"rsv", "puridiver", "spr"} <= set(found["samplers"])
    assert {"plain", "puridiver", "dividemix", "spr"} <= set(found["trainers"])
    assert {"small", "resnet18"} <= set(found["networks"])
    assert {name: told["options"] for name, told in found["recipes"].items()} == {
        name: dict(recipe(name)) for name in RECIPES
    }
    assert set(found["options"]) == set(declared())
    assert all(option["help"] for option in found["options"].values())


@pytest.mark.parametrize("width", ["80", "150"])
def test_no_name_is_cut(capsys, monkeypatch, width):
    """Names are there to be typed."""
    monkeypatch.setenv("COLUMNS", width)
    text = printed(capsys)
    assert [name for name in ("rsv", "coteaching", "resnet18", "official") if f" {name} " not in text] == []
    lines = printed(capsys, "--options").splitlines()
    assert [name for name in declared() if not any(line.split(" (")[0] == name for line in lines)] == []
    assert "…" not in text


@pytest.mark.usefixtures("forgotten_plugins")
def test_plugins_are_listed_and_the_examples_have_no_faults(capsys):
    assert "Drops what the network finds hardest" in printed(capsys, "--plugin", str(EXAMPLE))
    shown = printed(capsys, "--plugin", str(EXAMPLE), "--check").splitlines()
    names = ["sampler low-loss", "trainer smooth", "trainer taylor", "network patches"]
    assert shown == [f"{name}: no fault found" for name in names]
