"""RunConfig: every field is checked as declared, and what derives from the declarations."""

from __future__ import annotations

import pytest

from puridiver.runs.config import SETTINGS, Role, RunConfig


@pytest.mark.parametrize("name", SETTINGS)
def test_every_field_has_a_checked_default_and_refuses_other_types(name):
    declared = SETTINGS[name]
    assert declared.help
    assert declared.checked(declared.default) == declared.default
    with pytest.raises(ValueError, match=f"{name} should be"):
        RunConfig(**{name: ["a list"]})
    if not declared.optional:
        with pytest.raises(ValueError, match=f"{name} should be"):
            RunConfig(**{name: None})


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1}, {"seed": 1.5}, {"seed": True}, {"seed": 10**30}, {"memory": 0}, {"epochs": -1}, {"graphs": 1},
        {"test_share": float("nan")}, {"evaluate_on": "train"}, {"options": [1]},
        {"options": {1: 2}}, {"stream": "official:sym40:x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_value_is_named(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}|official"):
        RunConfig(**wrong)


def test_a_published_stream_is_named_in_full():
    assert RunConfig(stream="official:sym-40:1").stream == "official:sym40:1:shuffled"
    assert RunConfig(stream="official:sym40:1:listed").stream == "official:sym40:1:listed"


def test_changed_lists_what_differs_from_the_defaults():
    config = RunConfig(seed=3, noise="sym-20", device="cpu", options={"lr": 0.1})
    assert config.values(changed=True) == {"seed": 3, "noise": "sym-20", "device": "cpu", "options": {"lr": 0.1}}
    assert config.values(Role.STREAM, changed=True) == {"noise": "sym-20"}
    assert config.values(Role.PLACE) == {"data_root": None, "splits": None}
