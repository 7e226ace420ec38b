"""The paper's tables and figures as data: rows, noises, and a size for each data set; and the fidelity ablation.

Memory (K) and tasks (T) are the paper's: CIFAR-10 K=500, CIFAR-100 K=2,000, Food-101N K=2,000, five tasks each;
WebVision K=1,000, ten tasks. Every preset also has a size for the embedded digits that takes minutes on a laptop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from puridiver.grid.spec import Column, Grid, Method
from puridiver.options import PUBLISHED, declared
from puridiver.options import recipe as recipe_options

SYMMETRIC = ("sym-20", "sym-40", "sym-60")
FIVE = (*SYMMETRIC, "asym-20", "asym-40")
REAL = ("none",)  # web data is wrong by itself
HAVE_STREAMS = ("cifar10", "cifar100", "webvision", "food101n")  # data of which streams are published


@dataclass(frozen=True)
class Size:
    """How a preset runs on one data set; `noises` replaces the preset's, `without` is that of `Column`."""

    seeds: tuple[int, ...]
    noises: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """A table or figure of the paper. `data` is what the paper ran it on; `sizes` has these and digits.

    The default recipe is that of the released program, since it made the paper's figures.
    """

    title: str
    methods: tuple[Method, ...]
    noises: tuple[str, ...]
    sizes: Mapping[str, Size]
    data: tuple[str, ...]
    stream: str = "blurry-10"
    # Data -> class map of asymmetric noise in generated streams; CIFAR-100's own is by superclass, the paper's pairs.
    noise_maps: Mapping[str, str] = field(default_factory=lambda: {"cifar100": "pairs"})
    paper: str = ""
    figure: str = ""
    recipe: str = PUBLISHED


TRAINERS = (("", "plain"), (" + SELFIE", "selfie"), (" + Co-teaching", "coteaching"), (" + DivideMix", "dividemix"))
PURIDIVER = Method("PuriDivER", "puridiver", "puridiver")
TABLE1 = (
    *(Method("RSV" + title, "rsv", trainer) for title, trainer in TRAINERS),
    # What made the paper's figures; GDumb's own sampler, which its text names, is `gbs` (row 20 of docs/fidelity.md).
    *(Method("GBS" + title, "crsv", trainer) for title, trainer in TRAINERS),
    *(Method("RM" + title, "rm", trainer) for title, trainer in TRAINERS),
    PURIDIVER,
)
ABLATION = (
    Method("neither", "puridiver", "puridiver", {"relabel": False, "consistency": False}),
    Method("re-label", "puridiver", "puridiver", {"relabel": True, "consistency": False}),
    Method("consistency", "puridiver", "puridiver", {"relabel": False, "consistency": True}),
    Method("re-label + consistency", "puridiver", "puridiver", {"relabel": True, "consistency": True}),
)


def static_alpha(*values: float) -> tuple[Method, ...]:
    return tuple(Method(f"alpha {value}", "puridiver", "puridiver", {"alpha": value}) for value in values)


ADAPTIVE = Method("adaptive", "puridiver", "puridiver", {"alpha": -1.0})

# SPR's own network and fine-tuning, whatever the recipe.
SPR_SETTINGS: dict[str, Any] = {
    "epochs": 50, "head": "linear", "block_relu": "after_add", "batchnorm_epsilon": 1e-5,
}  # fmt: skip
SPR = (
    Method("Self-Centered filter", "spr", "spr", {**SPR_SETTINGS, "spr_base_epochs": 0}),
    Method("Self-Replay", "spr", "spr", {**SPR_SETTINGS, "spr_filter": False}),
    Method("SPR", "spr", "spr", SPR_SETTINGS),
)

# The rows of docs/fidelity.md that are options of a recipe. The help of these options names the row.
FIDELITY = {
    1: "eviction", 2: "z-scores", 3: "alpha's loss", 4: "what is re-labelled", 5: "weight of the prediction",
    6: "consistency distance", 7: "weights of the losses", 8: "small sets", 9: "batches", 10: "mixture fit",
    11: "warm-up", 12: "online step", 13: "BatchNorm online", 14: "schedule", 15: "network",
}  # fmt: skip


def fidelity_methods(recipe: str, other: str) -> tuple[Method, ...]:
    """The recipe as it is, and with the options of each row alone as the other recipe has them."""
    here, there = recipe_options(recipe), recipe_options(other)
    found = [Method(f"{recipe} as it is", "puridiver", "puridiver")]
    for row, point in FIDELITY.items():
        names = [name for name, option in declared().items() if f"[row {row}]" in option.help]
        switched = {name: there[name] for name in names if there[name] != here[name]}
        found.append(Method(f"row {row}: {point}", "puridiver", "puridiver", switched))
    return tuple(found)


THREE, TWO, ONE = (1, 2, 3), (1, 2), (1,)
CIFAR10 = Size(THREE, settings={"memory": 500})
CIFAR100 = Size(THREE, settings={"memory": 2000})
CIFARS = {"cifar10": CIFAR10, "cifar100": CIFAR100}
DIVERSE_CIFARS = {data: replace(size, settings={**size.settings, "diversity": True}) for data, size in CIFARS.items()}
DIGITS = {"memory": 100}


def two(**settings: Any) -> dict[str, Size]:
    """The digits size with two seeds."""
    return {"digits": Size(TWO, settings={**DIGITS, **settings})}


def three(noises: tuple[str, ...] = (), without: tuple[str, ...] = (), **settings: Any) -> dict[str, Size]:
    """The digits size with three seeds."""
    return {"digits": Size(THREE, noises, {**DIGITS, **settings}, without)}


PRESETS: dict[str, Preset] = {
    "table1": Preset(
        "Table 1: last accuracy, twelve baselines and PuriDivER under five noises",
        TABLE1, FIVE, {**DIVERSE_CIFARS, **two()}, ("cifar10", "cifar100"), paper="table1",
    ),
    "table2": Preset(
        "Table 2: last accuracy on data that is wrong by itself (digits: 20 % symmetric noise stands in)",
        TABLE1, REAL,
        {
            "webvision": Size(THREE, settings={"memory": 1000, "tasks": 10, "network": "resnet34"}),
            "food101n": Size(THREE, settings={"memory": 2000, "tasks": 5, "network": "resnet34"}),
            **three(noises=("sym-20",)),
        },
        ("webvision", "food101n"), paper="table2",
    ),
    "table3": Preset(
        "Table 3: PuriDivER without and with re-labelling and consistency",
        ABLATION, FIVE, {**CIFARS, **three()}, ("cifar10", "cifar100"), paper="table3",
    ),
    "table4": Preset(
        "Table 4: static alpha, and the adaptive one",
        (*static_alpha(0.1, 0.3, 0.5, 0.6, 1.0), ADAPTIVE), FIVE, {**CIFARS, **three()}, ("cifar10", "cifar100"),
        paper="table4",
    ),
    "disjoint": Preset(
        "The supplement's table: disjoint tasks, a memory of twice the size (SPR: half of it is its delay buffer)",
        (*SPR, PURIDIVER), FIVE,
        {"cifar10": Size(THREE, settings={"memory": 1000}), **three(memory=200)}, ("cifar10",),
        stream="disjoint", noise_maps={"cifar10": "spr-cifar10"}, paper="disjoint",
    ),
    "fidelity-official": Preset(
        "What each row of docs/fidelity.md is worth: the released program with one row at a time as the paper has it",
        fidelity_methods("official", "paper"), ("sym-40", "asym-40"),
        {"cifar10": CIFAR10, **three(without=("epochs",))}, ("cifar10",), recipe="official",
    ),
    "fidelity-paper": Preset(
        "What each row of docs/fidelity.md is worth: the paper with one row at a time as the released program has it",
        fidelity_methods("paper", "official"), ("sym-40", "asym-40"),
        {"cifar10": CIFAR10, **three(without=("epochs",))}, ("cifar10",), recipe="paper",
    ),
    "figure-tasks": Preset(
        "Figure 2: accuracy and memory purity after each task",
        tuple(method for method in TABLE1 if "DivideMix" in method.title or method == PURIDIVER),
        SYMMETRIC, {**CIFARS, **two()}, ("cifar10", "cifar100"), paper="table1", figure="tasks",
    ),
    "figure-mixtures": Preset(
        "Figure 3: losses and uncertainties in the memory with the fitted mixtures",
        (PURIDIVER,), ("sym-20",),
        {"cifar10": Size(ONE, settings={"memory": 500}), "digits": Size(ONE, ("sym-40",), DIGITS)}, ("cifar10",),
        paper="table1", figure="mixtures",
    ),
    "figure-alpha": Preset(
        "Figure 4: accuracy with static and adaptive alpha, and alpha over the tasks",
        (*static_alpha(0.1, 0.3, 0.5), ADAPTIVE), SYMMETRIC, {"cifar10": CIFAR10, **three()}, ("cifar10",),
        paper="table4", figure="alpha",
    ),
    "figure-diversity": Preset(
        "The supplement's figures of diversity and purity of the memory against alpha",
        static_alpha(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), SYMMETRIC,
        {**DIVERSE_CIFARS, **two(diversity=True)}, ("cifar10", "cifar100"), paper="table4", figure="diversity",
    ),
    "figure-time": Preset(
        "Figure 5: accuracy against training time",
        TABLE1, ("sym-40",), {"cifar10": CIFAR10, **two()}, ("cifar10",), paper="table1", figure="time",
    ),
}  # fmt: skip


def grid_of_preset(name: str, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset, on other data or seeds if these are named; `official`: on the published streams."""
    preset, columns = PRESETS[name], []
    for source in data or preset.data:
        if source not in preset.sizes:
            raise ValueError(
                f"the data of {name} should be {', '.join(preset.sizes)}, but got {source}; write a grid file for "
                "other data"
            )
        size = preset.sizes[source]
        published = official and preset.stream == "blurry-10" and source in HAVE_STREAMS
        for noise in size.noises or preset.noises:
            settings = {"recipe": preset.recipe, **size.settings}
            if noise.startswith("asym") and source in preset.noise_maps and not published:
                settings["noise_map"] = preset.noise_maps[source]
            stream = "official" if published else preset.stream
            columns.append(Column(source, stream, noise, tuple(seeds) or size.seeds, settings, size.without))
    return Grid(name, preset.title, preset.methods, tuple(columns), preset.paper, preset.figure)
