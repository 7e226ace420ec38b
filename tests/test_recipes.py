"""Recipes differ as the rows of docs/fidelity.md say, and give way to what suits a run."""

from __future__ import annotations

import copy
import pickle
from typing import Any

from puridiver.options import Options, declared
from puridiver.recipes import DESCRIPTIONS, RECIPES, recipe, resolve

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
        assert f"[row {row}]" in declared()[name].help
    assert {name for name in paper if paper[name] != official[name]} == {name for _, name, _, _ in DIFFERENCES}


def test_every_recipe_is_described_and_can_be_rebuilt() -> None:
    for name in RECIPES:
        options = recipe(name)
        assert DESCRIPTIONS[name]
        assert Options(**dict(options)) == options == Options(**options.changed())
        assert pickle.loads(pickle.dumps(options)) == copy.deepcopy(options) == options


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
