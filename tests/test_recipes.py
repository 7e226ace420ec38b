"""Recipes: `paper` and `official` differ as the table of differences says, and wrong options are refused by name."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from puridiver.recipes import DESCRIPTIONS, RECIPES, Options, parse_option, recipe

# Row of the table of differences, option, paper, released program.
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


@pytest.mark.parametrize(("row", "option", "paper", "official"), DIFFERENCES)
def test_paper_and_official_differ_row_by_row(row: int, option: str, paper: Any, official: Any) -> None:
    assert getattr(recipe("paper"), option) == paper
    assert getattr(recipe("official"), option) == official
    (help_text,) = (f.metadata["help"] for f in dataclasses.fields(Options) if f.name == option)
    assert f"[row {row}]" in help_text


def test_paper_and_official_differ_in_nothing_else() -> None:
    paper, official = recipe("paper").to_dict(), recipe("official").to_dict()
    assert {name for name in paper if paper[name] != official[name]} == {option for _, option, _, _ in DIFFERENCES}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("alpha", -1.0), ("eta", 1.0), ("lr", 0.05), ("batch_size", 16), ("momentum", 0.9), ("weight_decay", 1e-4),
        ("cutmix", 0.5), ("crop_padding", 4), ("flip", True), ("strong", "autoaugment"), ("relabel", True),
        ("consistency", True),
    ],
)  # fmt: skip
def test_what_both_share(option: str, value: Any) -> None:
    assert getattr(recipe("paper"), option) == value
    assert getattr(recipe("official"), option) == value


def test_baselines_run_as_described() -> None:
    o = recipe("official")
    assert (o.selfie_history, o.forget_epochs) == (5, 10)
    assert (o.sharpen, o.mixup_alpha, o.unlabelled_weight, o.ramp_epochs) == (0.5, 4.0, 25.0, 16)


@pytest.mark.parametrize(("row", "option", "paper", "official"), DIFFERENCES)
def test_each_difference_can_be_switched_alone(row: int, option: str, paper: Any, official: Any) -> None:
    switched = recipe("official", **{option: paper}).to_dict()
    assert switched == {**recipe("official").to_dict(), option: paper}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_described_and_survive_a_round_trip(name: str) -> None:
    assert DESCRIPTIONS[name]
    assert Options(**recipe(name).to_dict()) == recipe(name)


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"official, paper, puridiver, but got 'ours'"):
        recipe("ours")


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no option 'epoch'; did you mean epochs.*methods --options"):
        recipe("paper", epoch=3)
    with pytest.raises(ValueError, match=r"no option 'nix'; the options are alpha.*epochs.*warmup_epochs"):
        recipe("paper", nix=3)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("relabel_set", "both", r"relabel_set should be one of low_uncertainty, high_uncertainty, but got 'both'"),
        ("head", "mlp", r"linear, linear_batchnorm, but got 'mlp'"),
        ("epochs", 2.5, r"epochs should be int, but got 2\.5"),
        ("epochs", "3", r"epochs should be int, but got '3'"),
        ("epochs", True, r"epochs should be int, but got True"),
        ("epochs", 0, r"epochs should be at least 1, but got 0"),
        ("batch_size", 1, r"batch_size should be at least 2, but got 1"),
        ("flip", 1, r"flip should be bool, but got 1"),
        ("flip", None, r"flip should be bool, but got None"),
        ("replay", 3, r"replay should be str, but got 3"),
        ("eta", -0.1, r"eta should be at least 0, but got -0\.1"),
        ("eta", math.nan, r"eta should be .* got nan"),
        ("lr", math.inf, r"lr should be .* got inf"),
        ("alpha", 1.5, r"alpha should be in \[0, 1\], or -1 \(adaptive\), but got 1\.5"),
        ("alpha", -0.5, r"alpha should be in \[0, 1\], or -1 \(adaptive\), but got -0\.5"),
    ],
)
def test_wrong_values_are_refused_with_what_is_allowed(option: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe("paper", **{option: value})


@pytest.mark.parametrize("option", ["cutmix", "online_cutmix"])
def test_a_probability_above_one_is_refused(option: str) -> None:
    with pytest.raises(ValueError, match=option):
        recipe("paper", **{option: 1.5})


def test_whole_numbers_do_for_real_options() -> None:
    assert isinstance(recipe("paper", eta=2).eta, float)


@pytest.mark.parametrize("alpha", [-1, 0, 0.5, 1])
def test_alpha_may_be_adaptive_or_any_share(alpha: float) -> None:
    assert recipe("paper", alpha=alpha).alpha == alpha


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epochs", "12", 12),
        ("lr", "0.1", 0.1),
        ("lr", "1e-3", 1e-3),
        ("eta", "2", 2.0),
        ("flip", "no", False),
        ("flip", "TRUE", True),
        ("standardise_scores", "1", True),
        ("relabel", "off", False),
        ("schedule", "cosine", "cosine"),
        ("alpha", "adaptive", -1.0),
        ("alpha", "0.25", 0.25),
    ],
)
def test_options_are_read_from_text_in_their_own_type(name: str, text: str, value: Any) -> None:
    parsed = parse_option(name, text)
    assert parsed == value
    assert type(parsed) is type(value)
    recipe("paper", **{name: parsed})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("epoch", "12", r"no option 'epoch'.*epochs"),
        ("epochs", "many", r"epochs should be int, but got 'many'"),
        ("epochs", "2.5", r"epochs should be int, but got '2\.5'"),
        ("lr", "", r"lr should be float, but got ''"),
        ("flip", "maybe", r"flip should be true or false, but got 'maybe'"),
    ],
)
def test_text_that_is_no_value_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_option(name, text)


@pytest.mark.parametrize("option", [f.name for f in dataclasses.fields(Options)])
def test_every_option_can_be_read_back_from_its_text(option: str) -> None:
    value = getattr(recipe("official"), option)
    assert parse_option(option, str(value)) == value
