"""The named recipes: a value for every option of the method each.

`paper` reads the equations as printed. `official` does what the paper's released program does. `puridiver`, the
default, is `official` with what was better on validation images. The number in each option's help, "[row n]", is the
row of docs/FIDELITY.md that tells the difference; each can be switched alone: `recipe("official",
relabel_set="low_uncertainty")`, or `--set relabel_set=low_uncertainty`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from puridiver.options import Options, options_of, parse_option, unknown_option, with_own, without_later
from puridiver.own_options import is_own_option

__all__ = [
    "DEFAULT",
    "DESCRIPTIONS",
    "OFFICIAL",
    "PAPER",
    "PUBLISHED",
    "PURIDIVER",
    "RECIPES",
    "SPR_SUITS_TINY",
    "SUITS_TINY_IMAGES",
    "TINY_IMAGE",
    "Options",
    "default_changes",
    "made_for",
    "options_of",
    "parse_option",
    "recipe",
    "replaced",
    "suited",
    "suited_to_size",
    "with_own",
    "without_later",
]

PAPER = Options()

OFFICIAL = Options(
    evict_from="largest_class",
    standardise_scores=True,
    alpha_loss="mixed",
    relabel_set="high_uncertainty",
    relabel_weight="unsorted_loss",
    consistency_distance="logit_mse",
    loss_weights="batch_share",
    smallest_set=2,
    set_batches="clean_full",
    mixture_scale=True,
    mixture_iterations=10,
    mixture_tolerance=1e-2,
    mixture_floor=5e-4,
    warmup_epochs=10,
    online_lr=0.001,
    replay="after_first_consolidation",
    online_cutmix=0.5,
    online_batchnorm="frozen_when_full",
    epochs=255,
    schedule="warm_restarts",
    head="linear_batchnorm",
    block_relu="before_add",
    batchnorm_epsilon=1e-6,
)

# The default: the released procedure, but one that learns from the stream itself. There the rate is so low and
# BatchNorm so early frozen that nearly everything is learnt from the memory. A network that learns online forgets
# online, too, so that as memory training left it predicts until the next one. And what it was trained on looks better
# to it than what arrives, so that the loss that a sample came with counts, too. All chosen on validation images
# (docs/LOG.md); the rest is as published, since no other change was better.
PURIDIVER = dataclasses.replace(
    OFFICIAL,
    online_lr=0.01,
    online_batchnorm="train",
    online_steps=4,
    online_prediction="consolidated",
    arrival_weight=0.5,
    ntd_views=2,
)

RECIPES: dict[str, Options] = {"official": OFFICIAL, "paper": PAPER, "puridiver": PURIDIVER}

DEFAULT, PUBLISHED = "puridiver", "official"


def default_changes() -> dict[str, Any]:
    """The options in which the default recipe differs from the released procedure: what the default may become."""
    base = vars(RECIPES[PUBLISHED])
    return {name: value for name, value in vars(RECIPES[DEFAULT]).items() if value != base[name]}


DESCRIPTIONS = {
    "official": "what the paper's released program does, oddities included",
    "paper": "the equations as printed, with the plainest reading where the paper is silent",
    "puridiver": "the default: official, but learning more from the stream, judging labels by their loss on arrival, "
    "too, and predicting as memory training left it",
}


def replaced(options: Options, overrides: dict[str, Any], others: Sequence[str] = ()) -> Options:
    """The options with some of them replaced; an unknown name is a ValueError that offers `others`, too."""
    plain = {name: value for name, value in overrides.items() if not is_own_option(name)}
    unknown = sorted(set(plain) - {option.name for option in dataclasses.fields(Options)})
    if unknown:
        raise unknown_option(unknown[0], others)
    own = {name: value for name, value in overrides.items() if name not in plain}
    return with_own(dataclasses.replace(options, **plain), {**options.own, **own})


def recipe(name: str, **overrides: Any) -> Options:
    """A named recipe, with any options replaced."""
    if name not in RECIPES:
        raise ValueError(f"recipe should be one of {', '.join(sorted(RECIPES))}, but got {name!r}")
    return replaced(RECIPES[name], overrides)


# What suits images so small that AutoAugment leaves too little of them, chosen on validation digits (docs/LOG.md):
# such data also comes in shorter streams, which need larger steps and fewer epochs.
TINY_IMAGE = 24
SPR_SUITS_TINY = {"spr_budget": 0.005, "spr_lr": 3e-3, "spr_crop": 0.5}
SUITS_TINY_IMAGES = {"strong": "none", "crop_padding": 1, "online_lr": 0.01, "epochs": 31, **SPR_SUITS_TINY}


def suited(options: Options, wishes: dict[str, Any]) -> Options:
    """The options with what suits some data; never switches on what a recipe switches off (0 epochs stay 0)."""
    kept = {
        option.name: wishes[option.name]
        for option in dataclasses.fields(Options)
        if option.name in wishes and getattr(options, option.name) != option.metadata["off"]
    }
    return dataclasses.replace(options, **kept)


def suited_to_size(options: Options, image_shape: tuple[int, int, int]) -> Options:
    """The options with what suits images of this size: the recipes themselves are made for 32 px and more."""
    return suited(options, SUITS_TINY_IMAGES) if max(image_shape[:2]) < TINY_IMAGE else options


def made_for(
    base: str | Options, image_shape: tuple[int, int, int], overrides: dict[str, Any], others: Sequence[str] = ()
) -> Options:
    """Options given whole are taken as they are; a named recipe is suited to the size of the images first."""
    options = base if isinstance(base, Options) else suited_to_size(recipe(base), image_shape)
    return replaced(options, overrides, others)
