"""The paper's tables and figures as data: rows, noises, and a size for each data set.

Every preset also has a size for the embedded digits that takes minutes on a laptop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from puridiver.errors import meant
from puridiver.grid.spec import Column, Grid, Method, Settings
from puridiver.options import PUBLISHED

SYMMETRIC = ("sym-20", "sym-40", "sym-60")
FIVE = (*SYMMETRIC, "asym-20", "asym-40")
HAVE_STREAMS = ("cifar10", "cifar100", "webvision", "food101n")  # data of which streams are published
# The paper's memory, tasks and network for each data set. Five tasks where none are named.
SIZES: Mapping[str, Settings] = {
    "cifar10": {"memory": 500},
    "cifar100": {"memory": 2000},
    "webvision": {"memory": 1000, "tasks": 10, "network": "resnet34"},
    "food101n": {"memory": 2000, "tasks": 5, "network": "resnet34"},
    "digits": {"memory": 100},
}


@dataclass(frozen=True)
class Preset:
    """A table or figure of the paper, by the recipe of the released program, which made the paper's figures."""

    title: str
    methods: tuple[Method, ...]
    noises: tuple[str, ...]
    sizes: Mapping[str, Settings]  # data -> changes of SIZES; "seeds" and "noises" may be among them
    stream: str = "blurry-10"
    # Data -> class map of asymmetric noise in generated streams; CIFAR-100's own is by superclass, the paper's pairs.
    noise_maps: Mapping[str, str] = field(default_factory=lambda: {"cifar100": "pairs"})
    paper: str = ""  # the table of paper_figures.json that has the paper's figures
    figure: str = ""  # the figure that is drawn of it

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets that the paper ran it on."""
        return tuple(name for name in self.sizes if name != "digits")


def method(title: str, **options: Any) -> Method:
    """PuriDivER with options of its own."""
    return Method(title, "puridiver", "puridiver", {"options": options})


def static_alpha(*values: float) -> tuple[Method, ...]:
    return tuple(method(f"alpha {value}", alpha=value) for value in values)


def spr(title: str, **options: Any) -> Method:
    """SPR with its own network and fine-tuning, whatever the recipe."""
    network = {"head": "linear", "block_relu": "after_add", "batchnorm_epsilon": 1e-5}
    return Method(title, "spr", "spr", {"epochs": 50, "options": {**network, **options}})


PURIDIVER, ADAPTIVE = method("PuriDivER"), method("adaptive", alpha=-1.0)
BASELINES = tuple(
    Method(sampler_title + title, sampler, trainer)
    # crsv made the paper's figures; GDumb's own sampler, which its text names, is `gbs` (row 20 of docs/fidelity.md).
    for sampler_title, sampler in (("RSV", "rsv"), ("GBS", "crsv"), ("RM", "rm"))
    for title, trainer in (("", "plain"), (" + SELFIE", "selfie"), (" + Co-teaching", "coteaching"),
                           (" + DivideMix", "dividemix"))
)  # fmt: skip
TABLE1 = (*BASELINES, PURIDIVER)
DIVERSE, TWO_SEEDS = {"diversity": True}, {"seeds": (1, 2)}

PRESETS: dict[str, Preset] = {
    "table1": Preset(
        "Table 1: last accuracy, twelve baselines and PuriDivER under five noises",
        TABLE1, FIVE, {"cifar10": DIVERSE, "cifar100": DIVERSE, "digits": TWO_SEEDS}, paper="table1",
    ),
    "table2": Preset(
        "Table 2: last accuracy on data that is wrong by itself (digits: 20 % symmetric noise stands in)",
        TABLE1, ("none",), {"webvision": {}, "food101n": {}, "digits": {"noises": ("sym-20",)}}, paper="table2",
    ),
    "table3": Preset(
        "Table 3: PuriDivER without and with re-labelling and consistency",
        (method("neither", relabel=False, consistency=False), method("re-label", relabel=True, consistency=False),
         method("consistency", relabel=False, consistency=True),
         method("re-label + consistency", relabel=True, consistency=True)),
        FIVE, {"cifar10": {}, "cifar100": {}, "digits": {}}, paper="table3",
    ),
    "table4": Preset(
        "Table 4: static alpha, and the adaptive one",
        (*static_alpha(0.1, 0.3, 0.5, 0.6, 1.0), ADAPTIVE), FIVE, {"cifar10": {}, "cifar100": {}, "digits": {}},
        paper="table4",
    ),
    "disjoint": Preset(
        "The supplement's table: disjoint tasks, a memory of twice the size (SPR: half of it is its delay buffer)",
        (spr("Self-Centered filter", spr_base_epochs=0), spr("Self-Replay", spr_filter=False), spr("SPR"), PURIDIVER),
        FIVE, {"cifar10": {"memory": 1000}, "digits": {"memory": 200}},
        stream="disjoint", noise_maps={"cifar10": "spr-cifar10"}, paper="disjoint",
    ),
    "figure-tasks": Preset(
        "Figure 2: accuracy and memory purity after each task",
        (*(each for each in BASELINES if each.trainer == "dividemix"), PURIDIVER), SYMMETRIC,
        {"cifar10": {}, "cifar100": {}, "digits": TWO_SEEDS}, paper="table1", figure="tasks",
    ),
    "figure-mixtures": Preset(
        "Figure 3: losses and uncertainties in the memory with the fitted mixtures",
        (PURIDIVER,), ("sym-20",), {"cifar10": {"seeds": (1,)}, "digits": {"seeds": (1,), "noises": ("sym-40",)}},
        paper="table1", figure="mixtures",
    ),
    "figure-alpha": Preset(
        "Figure 4: accuracy with static and adaptive alpha, and alpha over the tasks",
        (*static_alpha(0.1, 0.3, 0.5), ADAPTIVE), SYMMETRIC, {"cifar10": {}, "digits": {}},
        paper="table4", figure="alpha",
    ),
    "figure-diversity": Preset(
        "The supplement's figures of diversity and purity of the memory against alpha",
        static_alpha(*(tenth / 10 for tenth in range(1, 11))), SYMMETRIC,
        {"cifar10": DIVERSE, "cifar100": DIVERSE, "digits": {**DIVERSE, **TWO_SEEDS}},
        paper="table4", figure="diversity",
    ),
    "figure-time": Preset(
        "Figure 5: accuracy against training time",
        TABLE1, ("sym-40",), {"cifar10": {}, "digits": TWO_SEEDS}, paper="table1", figure="time",
    ),
}  # fmt: skip


def grid_of_preset(name: str, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset, on other data or seeds if these are named; `official`: on the published streams."""
    preset, columns = PRESETS[name], []
    for source in data or preset.data:
        if source not in preset.sizes:
            known = ", ".join(preset.sizes) + f", but got {source}{meant(source, preset.sizes)}"
            raise ValueError(f"the data of {name} should be one of {known}; a grid file may name other data")
        size = {"recipe": PUBLISHED, **SIZES[source], **preset.sizes[source]}
        size_seeds, noises = size.pop("seeds", (1, 2, 3)), size.pop("noises", preset.noises)
        published = official and preset.stream == "blurry-10" and source in HAVE_STREAMS
        for noise in noises:
            mapped = noise.startswith("asym") and source in preset.noise_maps and not published
            settings = {**size, "noise_map": preset.noise_maps[source]} if mapped else size
            stream = "official" if published else preset.stream
            columns.append(Column(source, stream, noise, tuple(seeds or size_seeds), settings))
    return Grid(name, preset.title, preset.methods, tuple(columns))
