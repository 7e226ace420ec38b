"""The paper's tables and figures as data: rows, noises, and a size for each data set; and the fidelity ablation.

Memory (K) and tasks (T) are the paper's: CIFAR-10 K=500, CIFAR-100 K=2,000, Food-101N K=2,000, five tasks each;
WebVision K=1,000, ten tasks. Every preset also has a size for the embedded digits that takes minutes on a laptop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from puridiver.grid.spec import Column, Grid, Method
from puridiver.options import PUBLISHED, declared
from puridiver.options import recipe as recipe_options

SYMMETRIC = ("sym-20", "sym-40", "sym-60")
FIVE = (*SYMMETRIC, "asym-20", "asym-40")
HAVE_STREAMS = ("cifar10", "cifar100", "webvision", "food101n")  # data of which streams are published


@dataclass(frozen=True)
class Size:
    """How a preset runs on one data set; `noises` replaces the preset's, `without` is that of `Column`."""

    settings: Mapping[str, Any]
    seeds: tuple[int, ...] = (1, 2, 3)
    noises: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """A table or figure of the paper. The paper ran it on all data of `sizes` but the digits.

    The default recipe is that of the released program, since it made the paper's figures.
    """

    title: str
    methods: tuple[Method, ...]
    noises: tuple[str, ...]
    sizes: Mapping[str, Size]
    stream: str = "blurry-10"
    # Data -> class map of asymmetric noise in generated streams; CIFAR-100's own is by superclass, the paper's pairs.
    noise_maps: Mapping[str, str] = field(default_factory=lambda: {"cifar100": "pairs"})
    paper: str = ""
    figure: str = ""
    recipe: str = PUBLISHED

    @property
    def data(self) -> tuple[str, ...]:
        return tuple(name for name in self.sizes if name != "digits")


def method(title: str, **options: Any) -> Method:
    """PuriDivER with options of its own."""
    return Method(title, "puridiver", "puridiver", options)


def static_alpha(*values: float) -> tuple[Method, ...]:
    return tuple(method(f"alpha {value}", alpha=value) for value in values)


PURIDIVER, ADAPTIVE = method("PuriDivER"), method("adaptive", alpha=-1.0)
BASELINES = tuple(
    Method(sampler_title + title, sampler, trainer)
    # crsv made the paper's figures; GDumb's own sampler, which its text names, is `gbs` (row 20 of docs/fidelity.md).
    for sampler_title, sampler in (("RSV", "rsv"), ("GBS", "crsv"), ("RM", "rm"))
    for title, trainer in (("", "plain"), (" + SELFIE", "selfie"), (" + Co-teaching", "coteaching"),
                           (" + DivideMix", "dividemix"))
)  # fmt: skip
TABLE1 = (*BASELINES, PURIDIVER)
# SPR's own network and fine-tuning, whatever the recipe.
OF_SPR = {"epochs": 50, "head": "linear", "block_relu": "after_add", "batchnorm_epsilon": 1e-5}
SPR = (
    Method("Self-Centered filter", "spr", "spr", {**OF_SPR, "spr_base_epochs": 0}),
    Method("Self-Replay", "spr", "spr", {**OF_SPR, "spr_filter": False}),
    Method("SPR", "spr", "spr", OF_SPR),
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
    found = [method(f"{recipe} as it is")]
    for row, point in FIDELITY.items():
        names = [name for name, option in declared().items() if f"[row {row}]" in option.help]
        found.append(method(f"row {row}: {point}", **{n: there[n] for n in names if there[n] != here[n]}))
    return tuple(found)


def cifar10(**settings: Any) -> dict[str, Size]:
    return {"cifar10": Size({"memory": 500, **settings})}


def cifars(**settings: Any) -> dict[str, Size]:
    return {**cifar10(**settings), "cifar100": Size({"memory": 2000, **settings})}


def digits(seeds: int = 3, noises: tuple[str, ...] = (), without: tuple[str, ...] = (), **settings: Any) -> Any:
    return {"digits": Size({"memory": 100, **settings}, tuple(range(1, seeds + 1)), noises, without)}


PRESETS: dict[str, Preset] = {
    "table1": Preset(
        "Table 1: last accuracy, twelve baselines and PuriDivER under five noises",
        TABLE1, FIVE, {**cifars(diversity=True), **digits(2)}, paper="table1",
    ),
    "table2": Preset(
        "Table 2: last accuracy on data that is wrong by itself (digits: 20 % symmetric noise stands in)",
        TABLE1, ("none",),
        {"webvision": Size({"memory": 1000, "tasks": 10, "network": "resnet34"}),
         "food101n": Size({"memory": 2000, "tasks": 5, "network": "resnet34"}), **digits(noises=("sym-20",))},
        paper="table2",
    ),
    "table3": Preset(
        "Table 3: PuriDivER without and with re-labelling and consistency",
        (method("neither", relabel=False, consistency=False), method("re-label", relabel=True, consistency=False),
         method("consistency", relabel=False, consistency=True),
         method("re-label + consistency", relabel=True, consistency=True)),
        FIVE, {**cifars(), **digits()}, paper="table3",
    ),
    "table4": Preset(
        "Table 4: static alpha, and the adaptive one",
        (*static_alpha(0.1, 0.3, 0.5, 0.6, 1.0), ADAPTIVE), FIVE, {**cifars(), **digits()}, paper="table4",
    ),
    "disjoint": Preset(
        "The supplement's table: disjoint tasks, a memory of twice the size (SPR: half of it is its delay buffer)",
        (*SPR, PURIDIVER), FIVE, {**cifar10(memory=1000), **digits(memory=200)},
        stream="disjoint", noise_maps={"cifar10": "spr-cifar10"}, paper="disjoint",
    ),
    "fidelity-official": Preset(
        "What each row of docs/fidelity.md is worth: the released program with one row at a time as the paper has it",
        fidelity_methods("official", "paper"), ("sym-40", "asym-40"), {**cifar10(), **digits(without=("epochs",))},
        recipe="official",
    ),
    "fidelity-paper": Preset(
        "What each row of docs/fidelity.md is worth: the paper with one row at a time as the released program has it",
        fidelity_methods("paper", "official"), ("sym-40", "asym-40"), {**cifar10(), **digits(without=("epochs",))},
        recipe="paper",
    ),
    "figure-tasks": Preset(
        "Figure 2: accuracy and memory purity after each task",
        (*(each for each in BASELINES if each.trainer == "dividemix"), PURIDIVER), SYMMETRIC,
        {**cifars(), **digits(2)}, paper="table1", figure="tasks",
    ),
    "figure-mixtures": Preset(
        "Figure 3: losses and uncertainties in the memory with the fitted mixtures",
        (PURIDIVER,), ("sym-20",), {"cifar10": Size({"memory": 500}, (1,)), **digits(1, ("sym-40",))},
        paper="table1", figure="mixtures",
    ),
    "figure-alpha": Preset(
        "Figure 4: accuracy with static and adaptive alpha, and alpha over the tasks",
        (*static_alpha(0.1, 0.3, 0.5), ADAPTIVE), SYMMETRIC, {**cifar10(), **digits()}, paper="table4", figure="alpha",
    ),
    "figure-diversity": Preset(
        "The supplement's figures of diversity and purity of the memory against alpha",
        static_alpha(*(tenth / 10 for tenth in range(1, 11))), SYMMETRIC,
        {**cifars(diversity=True), **digits(2, diversity=True)}, paper="table4", figure="diversity",
    ),
    "figure-time": Preset(
        "Figure 5: accuracy against training time",
        TABLE1, ("sym-40",), {**cifar10(), **digits(2)}, paper="table1", figure="time",
    ),
}  # fmt: skip


def grid_of_preset(name: str, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset, on other data or seeds if these are named; `official`: on the published streams."""
    preset, columns = PRESETS[name], []
    for source in data or preset.data:
        if source not in preset.sizes:
            known = ", ".join(preset.sizes)
            raise ValueError(f"the data of {name} should be {known}, but got {source}; a grid file may name other data")
        size = preset.sizes[source]
        published = official and preset.stream == "blurry-10" and source in HAVE_STREAMS
        for noise in size.noises or preset.noises:
            settings = {"recipe": preset.recipe, **size.settings}
            if noise.startswith("asym") and source in preset.noise_maps and not published:
                settings["noise_map"] = preset.noise_maps[source]
            stream = "official" if published else preset.stream
            columns.append(Column(source, stream, noise, tuple(seeds) or size.seeds, settings, size.without))
    return Grid(name, preset.title, preset.methods, tuple(columns), preset.paper, preset.figure)
