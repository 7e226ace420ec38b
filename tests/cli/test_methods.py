"""`puridiver methods`, for people and for programs."""

from __future__ import annotations

import json
import textwrap

import pytest

from puridiver.cli import main
from puridiver.options import RECIPES, declared, recipe


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


def test_the_rows_of_the_reference_are_all_named_by_an_option(capsys):
    """Rows 1 to 15 of the differences between paper and released program can each be switched."""
    text = " ".join(option["help"] for option in json.loads(printed(capsys, "--json"))["options"].values())
    assert [row for row in range(1, 16) if f"[row {row}]" not in text] == []


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
def test_a_plugin_is_listed_and_checked(tmp_path, capsys):
    assert main(["methods", "--check"]) == 2
    assert "--check needs a plugin" in capsys.readouterr().err
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        textwrap.dedent("""
            import torch
            import puridiver

            @puridiver.register
            class Newest(puridiver.Sampler):
                "Keeps the newest samples."
                name = "newest"

                def choose(self, pool, n_old, capacity, moment):
                    return torch.arange(len(pool))[-capacity:]
            """)
    )
    assert "Keeps the newest" in printed(capsys, "--plugin", str(plugin))
    assert "sampler newest: no fault found" in printed(capsys, "--plugin", str(plugin), "--check")
