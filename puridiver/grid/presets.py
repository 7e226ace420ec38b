"""The paper's tables and figures, as presets.toml lists them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puridiver.errors import meant
from puridiver.grid.spec import Column, Grid, Method, Settings
from puridiver.options import PUBLISHED

HAVE_STREAMS = ("cifar10", "cifar100", "webvision", "food101n")  # data of which streams are published


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


def _method(title: str, parts: str, options: Mapping[str, Any] | None = None) -> Method:
    """A method of the file; `epochs` is a setting and no option."""
    sampler, trainer = parts.split("+")
    settings = {"epochs": options["epochs"]} if options and "epochs" in options else {}
    own = {name: value for name, value in (options or {}).items() if name not in settings}
    return Method(title, sampler, trainer, {**settings, "options": own})


def _preset(lists: Mapping[str, Any], found: dict[str, Any]) -> Preset:
    entries: list[Any] = [
        [f"alpha {value}", "puridiver+puridiver", {"alpha": value}] for value in found.pop("alphas", [])
    ]
    for name in found["methods"]:
        entries += lists["methods"][name.removeprefix("@")]
    noises = lists["noises"][found["noises"]] if isinstance(found["noises"], str) else found["noises"]
    return Preset(**{**found, "methods": tuple(_method(*entry) for entry in entries), "noises": tuple(noises)})


_FILE = tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))
SIZES: Mapping[str, Settings] = _FILE["size"]
PRESETS = {name: _preset(_FILE, found) for name, found in _FILE["preset"].items()}


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
