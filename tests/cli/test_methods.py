"""`puridiver methods`, for people and for programs."""

from __future__ import annotations

import json

import pytest

from puridiver.cli import main
from puridiver.recipes import RECIPES, Options


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["methods", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_json_lists_every_family_by_its_short_names(capsys):
    found = json.loads(printed(capsys, "--json"))
    assert sorted(found["samplers"]) == ["crsv", "gbs", "ntd", "puridiver", "rm", "rsv", "spr"]
    assert sorted(found["trainers"]) == [
        "coteaching", "dividemix", "elr", "gce", "plain", "puridiver", "sce", "selfie", "spr",
    ]  # fmt: skip
    assert sorted(found["recipes"]) == ["official", "paper", "puridiver"]
    assert {"resnet18", "resnet32", "resnet34", "small"} <= set(found["networks"])


def test_json_has_every_option_of_every_recipe(capsys):
    found = json.loads(printed(capsys, "--json"))
    for name, recipe in found["recipes"].items():
        assert Options(**recipe["options"]) == RECIPES[name]
    assert set(found["options"]) == set(Options().to_dict())
    assert all(option["help"] for option in found["options"].values())


def test_the_rows_of_the_reference_are_all_named_by_an_option(capsys):
    """Rows 1 to 15 of the differences between paper and released program can each be switched."""
    text = " ".join(option["help"] for option in json.loads(printed(capsys, "--json"))["options"].values())
    assert [row for row in range(1, 16) if f"[row {row}]" not in text] == []


def test_the_table_names_every_method(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")
    text = printed(capsys)
    for name in ("rsv", "gbs", "rm", "ntd", "plain", "selfie", "coteaching", "dividemix", "official", "paper"):
        assert f" {name} " in text


def test_the_options_table_names_every_option_and_row(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = printed(capsys, "--options")
    for name in Options().to_dict():
        assert f"{name}\n" in text
    assert "[row 13]" in text
    assert "images under 24 px, whatever the recipe: 31" in text.split("\nepochs\n")[1].split("\nlr\n")[0]


def test_no_name_or_value_is_cut_at_the_usual_width(capsys, monkeypatch):
    """Names are there to be typed after --set; a terminal, or a file, of 80 columns must show them whole."""
    monkeypatch.setenv("COLUMNS", "80")
    assert "…" not in printed(capsys)
    text = printed(capsys, "--options")
    assert [name for name in Options().to_dict() if name not in text] == []
    assert "…" not in text
