"""The named recipes, and how a run's options are resolved from one: what suits its memory, input, data and methods."""

from collections.abc import Mapping, Sequence
from typing import Any

from puridiver.options import Options, check_known

OFFICIAL: dict[str, Any] = {
    "evict_from": "largest_class",
    "standardise_scores": True,
    "alpha_loss": "mixed",
    "relabel_set": "high_uncertainty",
    "relabel_weight": "unsorted_loss",
    "consistency_distance": "logit_mse",
    "loss_weights": "batch_share",
    "smallest_set": 2,
    "set_batches": "clean_full",
    "mixture_scale": True,
    "mixture_iterations": 10,
    "mixture_tolerance": 1e-2,
    "mixture_floor": 5e-4,
    "warmup_epochs": 10,
    "online_lr": 0.001,
    "replay": "after_first_consolidation",
    "online_cutmix": 0.5,
    "online_batchnorm": "frozen_when_full",
    "epochs": 255,
    "schedule": "warm_restarts",
    "head": "linear_batchnorm",
    "block_relu": "before_add",
    "batchnorm_epsilon": 1e-6,
}

# Rows 21, 22 and 24 to 29 of docs/fidelity.md, which `official` leaves out.
RELEASED: dict[str, Any] = {
    **OFFICIAL,
    "cutmix_sets": "clean",
    "relabel_view": "in_step",
    "last_batch": "trained",
    "weak": "crop_flip",
    "strong": "autoaugment_grey",
    "shortcut_relu": True,
    "relabel_weight": "unsorted_loss_by_share",
    "set_batches": "clean_full_by_share",
}

# Chosen on validation images (experiments/). The released program learns almost nothing from the stream: its online
# rate is low and BatchNorm freezes early. The default learns online, and because a network that learns online also
# forgets, it predicts with snapshots as well. It judges labels by their margin and by their loss on arrival, because
# the largest losses are also those of the best examples, and because trained-on samples always look clean.
PURIDIVER: dict[str, Any] = {
    **OFFICIAL,
    "online_lr": 0.01,
    "online_batchnorm": "train",
    "online_steps": 4,
    "online_prediction": "weighed",
    "arrival_weight": 0.5,
    "ntd_views": 2,
    "purity_by": "margin",
    "batch_size": 32,
    "fewest_clean": 0.5,
    "snapshots": 3,
    "weight_decay": 5e-4,
}

# A large memory fills larger batches, which are as accurate there and take less time. The stream's stay as they are.
LARGE_MEMORY = 1000
SUITS_LARGE_MEMORIES: dict[str, Any] = {"batch_size": 64, "stream_batch": 32, "replay_size": 32}

RECIPES: dict[str, dict[str, Any]] = {"official": OFFICIAL, "released": RELEASED, "paper": {}, "puridiver": PURIDIVER}
PUBLISHED = "official"
DESCRIPTIONS = {
    "official": "what the paper's released program does, oddities included",
    "released": "official, with the rows of the released program that it leaves out",
    "paper": "the equations as printed, with the plainest reading where the paper is silent",
    "puridiver": "the default: official, but it learns more from the stream, scores labels by margin and by loss on "
    "arrival, and predicts with snapshots of memory training and the live network, weighed by evidence; light networks "
    "get the sampler sieve and the trainer verdict, unless you name others",
}

# AutoAugment leaves too little of tiny images. Their streams are short and need larger steps and fewer epochs.
TINY_IMAGE = 24
SUITS_TINY_IMAGES: dict[str, Any] = {
    "strong": "none", "crop_padding": 1, "online_lr": 0.01, "epochs": 31, "spr_budget": 0.005, "spr_lr": 3e-3,
    "spr_crop": 0.5,
}  # fmt: skip
# CutMix is for colour photographs, AutoAugment for long training, and the mirror image of a letter is another one.
SUITS_GREY_IMAGES: dict[str, Any] = {"strong": "none", "crop_padding": 2, "cutmix": 0.0, "flip": False}
# The network is small, so that few epochs suffice, as for tiny images.
SUITS_VECTORS: dict[str, Any] = {"epochs": 31, "spr_budget": 0.005, "spr_lr": 3e-3}
FOR_IMAGES = (
    "crop_padding", "flip", "strong", "weak", "online_crop_flip", "spr_crop", "memory_flip", "memory_policy",
)  # fmt: skip
FOR_VECTORS = ("vector_noise",)
# What a method sets for memory training gives way to what a user sets for all training.
GIVES_WAY_TO = {"memory_flip": "flip", "memory_policy": "strong"}


def recipe(name: str, **overrides: Any) -> Options:
    """A named recipe with any options replaced: `recipe("official", relabel_set="low_uncertainty")`."""
    if not isinstance(name, str) or name not in RECIPES:
        raise ValueError(f"recipe should be one of {', '.join(sorted(RECIPES))}, but got {name!r}")
    return Options(**{**RECIPES[name], **overrides})


def choose_methods(sampler: str, trainer: str, recipe: str | Options, light: bool) -> tuple[str, str]:
    """The sampler and the trainer; "auto" stands for those of the recipe that suit the network.

    The default recipe learns online with a `light` network, and trains a larger one on the memory, as the paper does.
    """
    suited = ("sieve", "verdict") if light and recipe == "puridiver" else ("puridiver", "puridiver")
    return suited[0] if sampler == "auto" else sampler, suited[1] if trainer == "auto" else trainer


def suited_to(input_shape: tuple[int, ...]) -> dict[str, Any]:
    """Values instead of a recipe's, for vectors (d,) or images (height, width, channels)."""
    if len(input_shape) == 1:
        return SUITS_VECTORS
    is_grey = input_shape[2] == 1
    if max(input_shape[:2]) < TINY_IMAGE:
        return {**SUITS_TINY_IMAGES, **({"flip": False} if is_grey else {})}
    return SUITS_GREY_IMAGES if is_grey else {}


def resolve(
    base: str | Options,
    input_shape: tuple[int, ...],
    data_defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    others: Sequence[str] = (),
    method_defaults: Mapping[str, Any] | None = None,
    memory: int = 0,
) -> Options:
    """The recipe, then what suits memory, input, data and method, then the user's overrides.

    What a recipe switches off (0) stays off. Options given whole are not suited to anything. `others` are names that
    an unknown override may have meant.
    """
    overrides = overrides or {}
    check_known(overrides, others)
    of_vectors = len(input_shape) == 1
    for name in FOR_IMAGES if of_vectors else FOR_VECTORS:
        if name in overrides:
            kinds = ("images", "vectors") if of_vectors else ("vectors", "images")
            raise ValueError(f"{name} is an option for {kinds[0]}, but the input is {kinds[1]}: leave it out")
    if isinstance(base, Options):
        return base.replace(**overrides)
    options = recipe(base, **(SUITS_LARGE_MEMORIES if base == "puridiver" and memory >= LARGE_MEMORY else {}))
    suits = {
        name: value for name, value in {**suited_to(input_shape), **(data_defaults or {})}.items() if options.get(name)
    }
    method = {name: v for name, v in (method_defaults or {}).items() if GIVES_WAY_TO.get(name) not in overrides}
    return options.replace(**suits).replace(**method).replace(**overrides)
