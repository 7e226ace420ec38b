"""Options: recipes differ as FIDELITY's rows say, values are checked, and methods declare their own."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest

from puridiver import options as module
from puridiver.options import (
    DESCRIPTIONS,
    RECIPES,
    Option,
    Options,
    check_reached,
    choose_methods,
    declare,
    parse,
    recipe,
    resolve,
)

# Row of docs/fidelity.md, option, paper, released program.
DIFFERENCES: list[tuple[int, str, Any, Any]] = [
    (1, "evict_from", "memory", "largest_class"),
    (2, "standardise_scores", False, True),
    (3, "alpha_loss", "stream", "mixed"),
    (4, "relabel_set", "low_uncertainty", "high_uncertainty"),
    (5, "relabel_weight", "uncertainty", "unsorted_loss"),
    (6, "consistency_distance", "softmax_l2", "logit_mse"),
    (7, "loss_weights", "equation", "batch_share"),
    (8, "smallest_set", 0, 2),
    (9, "set_batches", "proportional", "clean_full"),
    (10, "mixture_scale", False, True),
    (10, "mixture_iterations", 100, 10),
    (10, "mixture_tolerance", 1e-3, 1e-2),
    (10, "mixture_floor", 1e-6, 5e-4),
    (11, "warmup_epochs", 0, 10),
    (12, "online_lr", 0.05, 0.001),
    (12, "replay", "never", "after_first_consolidation"),
    (12, "online_cutmix", 0.0, 0.5),
    (13, "online_batchnorm", "train", "frozen_when_full"),
    (14, "epochs", 256, 255),
    (14, "schedule", "cosine", "warm_restarts"),
    (15, "head", "linear", "linear_batchnorm"),
    (15, "block_relu", "after_add", "before_add"),
    (15, "batchnorm_epsilon", 1e-5, 1e-6),
]


def test_paper_and_official_differ_in_the_listed_rows_alone() -> None:
    paper, official = recipe("paper"), recipe("official")
    for row, name, of_paper, of_official in DIFFERENCES:
        assert (paper[name], official[name]) == (of_paper, of_official), name
        assert f"[row {row}]" in module.declared()[name].help
    assert {name for name in paper if paper[name] != official[name]} == {name for _, name, _, _ in DIFFERENCES}


def test_every_recipe_is_described_and_can_be_rebuilt() -> None:
    for name in RECIPES:
        options = recipe(name)
        assert DESCRIPTIONS[name]
        assert Options(**dict(options)) == options == Options(**options.changed())
        assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options


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
        ("epochs", 2.5, "int"),
        ("epochs", True, "int"),
        ("epochs", -1, "at least 0"),
        ("flip", 1, "bool"),
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
    with pytest.raises(ValueError, match="official, paper, puridiver, but got 'ours'"):
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
        ("epochs=2.5", "epochs should be int, but got '2.5'"),
        ("epochs=-1", "at least 0"),
        ("flip=maybe", "true or false"),
    ],
)
def test_text_that_is_no_value_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse([text])


def test_tiny_images_get_what_suits_them_but_what_is_off_stays_off() -> None:
    assert resolve("official", (8, 8, 1)).epochs == 31
    assert resolve("official", (32, 32, 3)).epochs == 255
    assert resolve("official", (8, 8, 1), {"epochs": 40}, {"epochs": 3}).epochs == 3
    assert resolve("official", (32, 32, 3), {"warmup_epochs": 30, "unrelated": 1}).warmup_epochs == 30
    assert resolve("paper", (32, 32, 3), {"warmup_epochs": 30}).warmup_epochs == 0
    assert resolve("puridiver", (8, 8, 1), {"epochs": 40}, {}, method_defaults={"epochs": 0}).epochs == 0
    grey, colour = resolve("puridiver", (28, 28, 1)), resolve("puridiver", (28, 28, 3))
    assert (grey.flip, grey.cutmix, colour.flip, colour.cutmix) == (False, 0.0, True, 0.5)
    whole = recipe("paper", lr=0.3)
    assert resolve(whole, (8, 8, 1), {"epochs": 40}) == whole


@pytest.mark.parametrize(
    ("recipe", "light", "suited"),
    [
        ("puridiver", True, ("sieve", "verdict")),
        ("puridiver", False, ("puridiver", "puridiver")),
        ("official", True, ("puridiver", "puridiver")),
        ("paper", True, ("puridiver", "puridiver")),
        (Options(), True, ("puridiver", "puridiver")),
    ],
    ids=str,
)
def test_methods_suit_the_recipe_and_the_network_unless_they_are_named(
    recipe: Any, light: bool, suited: tuple[str, str]
) -> None:
    assert choose_methods("auto", "auto", recipe, light) == suited
    assert choose_methods("rsv", "auto", recipe, light) == ("rsv", suited[1])
    assert choose_methods("auto", "gce", recipe, light) == (suited[0], "gce")
    assert choose_methods("rsv", "gce", recipe, light) == ("rsv", "gce")


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
    assert module.owners("mine_share") == ["sampler mine"]


def test_a_class_inherits_the_options_of_its_bases() -> None:
    base = method(a=Option(1), b=Option(2))
    derived = type("Derived", (base,), {"own_options": {"b": Option(3)}})
    assert {name: option.default for name, option in module.class_options(derived).items()} == {"a": 1, "b": 3}
