"""The paper's tables and figures, as presets.toml lists them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puridiver.errors import meant
from puridiver.grid.spec import Column, Grid, Settings, method_of
from puridiver.recipes import PUBLISHED

HAVE_STREAMS = ("cifar10", "cifar100", "webvision", "food101n")  # data of which streams are published
_FILE = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Preset:
    """A table or figure of the paper, by the recipe of the released program, which made the paper's figures."""

    title: str
    methods: Sequence[str]  # lists of methods
    noises: Sequence[str]
    sizes: Mapping[str, Settings]  # data -> changes of [size]; "seeds" and "noises" may be among them
    alphas: Sequence[float] = ()  # values of a static alpha, each a method before the others
    stream: str = "blurry-10"
    # Data -> class map of asymmetric noise in generated streams; CIFAR-100's own is by superclass, the paper's pairs.
    noise_maps: Mapping[str, str] = field(default_factory=lambda: {"cifar100": "pairs"})
    paper: str = ""  # the table of paper_figures.json that has the paper's figures
    figure: str = ""  # the figure that is drawn of it

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets that the paper ran it on."""
        return tuple(name for name in self.sizes if name != "digits")


PRESETS = {name: Preset(**found) for name, found in _FILE["preset"].items()}


def grid_of_preset(name: str, data: Sequence[str], seeds: Sequence[int], official: bool) -> Grid:
    """The grid of a preset, on other data or seeds if these are named; `official`: on the published streams."""
    preset, columns = PRESETS[name], []
    for source in data or preset.data:
        if source not in preset.sizes:
            known = ", ".join(preset.sizes) + f", but got {source}{meant(source, preset.sizes)}"
            raise ValueError(f"the data of {name} should be one of {known}; a grid file may name other data")
        size = {"recipe": PUBLISHED, **_FILE["size"][source], **preset.sizes[source]}
        size_seeds, noises = size.pop("seeds", (1, 2, 3)), size.pop("noises", preset.noises)
        published = official and preset.stream == "blurry-10" and source in HAVE_STREAMS
        for noise in noises:
            mapped = noise.startswith("asym") and source in preset.noise_maps and not published
            settings = {**size, "noise_map": preset.noise_maps[source]} if mapped else size
            stream = "official" if published else preset.stream
            columns.append(Column(source, stream, noise, tuple(seeds or size_seeds), settings))
    ours: dict[str, Any] = {"sampler": "puridiver", "trainer": "puridiver"}
    entries = [{"title": f"alpha {alpha}", **ours, "options": {"alpha": alpha}} for alpha in preset.alphas]
    entries += [entry for listed in preset.methods for entry in _FILE["methods"][listed]]
    return Grid(name, preset.title, tuple(map(method_of, entries)), tuple(columns))
