"""Options: values are checked, and methods declare their own."""

from __future__ import annotations

import math
from typing import Any

import pytest

from puridiver.options import Option, Options, check_reached, class_options, declare, owners, parse
from puridiver.recipes import RECIPES, recipe, resolve


def test_options_are_an_immutable_mapping() -> None:
    options = Options(lr=0.1)
    assert options.lr == options["lr"] == dict(options)["lr"] == 0.1
    assert options.changed() == {"lr": 0.1}
    assert isinstance(Options(eta=2).eta, float)
    assert options.replace(lr=0.05) == Options()
    with pytest.raises(AttributeError, match="replace"):
        options.lr = 0.2


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("relabel_set", "both", "low_uncertainty, high_uncertainty, but got 'both'"),
        ("strong", "mine", "autoaugment, autoaugment_grey, none, but got 'mine'"),
        ("epochs", 2.5, "a whole number"),
        ("epochs", True, "a whole number"),
        ("epochs", -1, "at least 0"),
        ("flip", 1, "true or false"),
        ("eta", math.nan, "nan"),
        ("lr", math.inf, "inf"),
        ("cutmix", 1.5, "at least 0 and at most 1"),
        ("alpha", 1.5, "at most 1"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(option: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"{option} should be .*{message}"):
        Options(**{option: value})


def test_unknown_names_are_refused_with_what_was_meant() -> None:
    with pytest.raises(ValueError, match="official, paper, puridiver, released, but got 'ours'"):
        recipe("ours")
    with pytest.raises(ValueError, match="no option 'epoch'; did you mean epochs"):
        recipe("paper", epoch=3)
    with pytest.raises(ValueError, match="did you mean device"):
        resolve("paper", (32, 32, 3), overrides={"devise": "cpu"}, others=["device"])


def test_every_option_is_read_back_from_its_text() -> None:
    for name in RECIPES:
        options = recipe(name)
        assert parse(f"{option}={value}" for option, value in options.items()) == dict(options)
    assert parse(["flip=no", "relabel=ON", "lr=1e-3"]) == {"flip": False, "relabel": True, "lr": 1e-3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr", "name=value"),
        ("epoch=12", "did you mean epochs"),
        ("epochs=2.5", "epochs should be a whole number, but got '2.5'"),
        ("epochs=-1", "at least 0"),
        ("flip=maybe", "true or false"),
    ],
)
def test_text_that_is_no_value_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse([text])


def test_an_option_reaches_the_methods_that_declare_it() -> None:
    check_reached(["lr", "gce_q"], ["sampler rsv", "trainer gce"])
    with pytest.raises(ValueError, match="gce_q is an option of the trainer gce, but the run uses the sampler rsv"):
        check_reached(["gce_q"], ["sampler rsv", "trainer plain"])
    reached = Options(gce_q=0.5).of(["sampler rsv", "trainer gce"])
    assert reached["gce_q"] == 0.5
    assert "lr" in reached
    assert "selfie_history" not in reached


def method(**options: Any) -> type:
    return type("Mine", (), {"own_options": options})


@pytest.mark.usefixtures("forgotten_plugins")
def test_a_method_declares_options_that_nobody_else_has() -> None:
    shared = method(mine_share=Option(0.5, "a share", low=0, high=1))
    declare("trainer mine", shared)
    declare("sampler mine", shared)  # the same option may be shared
    assert Options(mine_share=1).mine_share == 1.0
    for options, message in (
        ({"mine_share": Option(0.1)}, "taken by sampler mine and trainer mine"),
        ({"lr": Option(0.1)}, "taken by every method"),
        ({"Share": Option(0.1)}, "lower_case"),
        ({"share": 0.1}, r"Option\(default"),
    ):
        with pytest.raises(ValueError, match=message):
            declare("trainer other", method(**options))
    declare("trainer mine", method())  # defined anew
    assert owners("mine_share") == ["sampler mine"]


def test_a_class_inherits_the_options_of_its_bases() -> None:
    base = method(a=Option(1), b=Option(2))
    derived = type("Derived", (base,), {"own_options": {"b": Option(3)}})
    assert {name: option.default for name, option in class_options(derived).items()} == {"a": 1, "b": 3}
