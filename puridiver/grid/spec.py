"""What a grid is: methods x columns x seeds, from a preset of the paper or from a TOML file.

Each cell is one run. A row of a ledger names its grid, its method and its column, and a table groups by these names.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from puridiver import plugins
from puridiver.errors import DataError, meant
from puridiver.files import read_regular
from puridiver.options import check_reached, declared, owners
from puridiver.runs.config import SETTINGS, Role, RunConfig
from puridiver.streams.published import PUBLISHED_KINDS, WORD

LISTS = ("title", "data", "streams", "noises", "methods", "seeds")  # keys of a grid file that are no setting of a run
RECORDED_BESIDE = (Role.PLACE, Role.MACHINE, Role.MEASUREMENT)  # changing these leaves a grid what it is
SHARED = [name for name, setting in SETTINGS.items() if not setting.axis]  # what may be set for many cells at once

Settings = Mapping[str, Any]  # fields of `RunConfig` and options of the methods, by name


@dataclass(frozen=True)
class Method:
    """A row of a table: sampler, trainer, and the settings in which it differs from other rows."""

    title: str
    sampler: str
    trainer: str
    settings: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of a table: the data, the stream made of it, the seeds and further settings of the run.

    The stream "official" is the published one of the column's noise and the cell's seed, "official:listed" the same in
    the order of its files.
    """

    data: str
    stream: str
    noise: str | None
    seeds: tuple[int, ...]
    settings: Settings = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name of the column in tables and ledgers, without folders: "cifar10 sym-40"."""
        parts = (self.data, "" if self.stream in ("blurry-10", WORD) else self.stream, self.noise or "")
        return " ".join(re.split(r"[\\/]", part.rstrip("/\\"))[-1] for part in parts if part)


@dataclass(frozen=True)
class Grid:
    """Every method on every column."""

    name: str
    title: str
    methods: tuple[Method, ...]
    columns: tuple[Column, ...]


class Cell(NamedTuple):
    """One run of a grid, with the names that its row has in the ledger."""

    grid: str
    method: str
    column: str
    seed: int
    config: RunConfig

    @property
    def names(self) -> dict[str, Any]:
        return dict(zip(self._fields, self[:4], strict=False))

    @property
    def slug(self) -> str:
        """The cell's name as part of a folder's name."""
        return re.sub(r"[^a-z0-9.]+", "-", f"{self.column} {self.method} s{self.seed}".lower()).strip("-")


def cells(grid: Grid) -> list[Cell]:
    """All cells of a grid, one whole table for each seed after the other."""
    found = [
        (place, Cell(grid.name, method.title, column.title, seed, _config(method, column, seed)))
        for method in grid.methods
        for column in grid.columns
        for place, seed in enumerate(column.seeds)
    ]
    return [cell for _, cell in sorted(found, key=lambda pair: pair[0])]


def _config(method: Method, column: Column, seed: int) -> RunConfig:
    """The config of a cell. The method's settings replace the column's; options reach only methods that have them."""
    settings = {**column.settings, **method.settings}
    parts = {f"sampler {method.sampler}", f"trainer {method.trainer}", f"network {settings.get('network')}"}
    named = {name: settings.pop(name) for name in list(settings) if name not in SETTINGS}
    options = {name: value for name, value in named.items() if not owners(name) or parts & set(owners(name))}
    stream = {"stream": column.stream, "noise": column.noise}
    if column.stream in PUBLISHED_KINDS:
        order = column.stream.removeprefix(WORD)  # "" or ":listed"
        stream = {"stream": f"{WORD}:{(column.noise or '').replace('-', '')}:{seed}{order}"}
    fixed = {"data": column.data, "sampler": method.sampler, "trainer": method.trainer, "seed": seed}
    return RunConfig.of_dict({**settings, **stream, **fixed, "options": options})


def only(grids: Sequence[Grid], methods: Sequence[str] = (), noises: Sequence[str] = ()) -> list[Grid]:
    """The grids with these methods and noises alone; none named: all."""
    titles, names = ([m.title for g in grids for m in g.methods], [str(c.noise) for g in grids for c in g.columns])
    for kind, wanted, known in (("method", methods, titles), ("noise", noises, names)):
        for name in (name for name in wanted if name not in known):
            allowed = ", ".join(map(repr, dict.fromkeys(known)))
            raise ValueError(f"a {kind} of the grid should be one of {allowed}, but got {name!r}{meant(name, known)}")
    found = []
    for grid in grids:
        chosen = tuple(method for method in grid.methods if not methods or method.title in methods)
        columns = tuple(column for column in grid.columns if not noises or column.noise in noises)
        if chosen and columns:
            found.append(replace(grid, methods=chosen, columns=columns))
    return found


def with_changes(grid: Grid, changes: Settings) -> Grid:
    """The grid with settings replaced in every cell whose method does not set them itself.

    Changes that decide the figures become part of the grid's name ("table1 recipe=paper"), so that a table never mixes
    them with the grid as it is. Changed epochs also replace those of a method: they are for a quick look at everything.
    """
    changed = _settings(changes, SHARED)
    quick = {"epochs": changed["epochs"]} if "epochs" in changed else {}
    told = [name for name in changed if name not in SETTINGS or SETTINGS[name].role not in RECORDED_BESIDE]
    return _reached(changed, Grid(
        grid.name + "".join(f" {name}={changed[name]}" for name in told), grid.title,
        tuple(replace(method, settings={**method.settings, **quick}) for method in grid.methods),
        tuple(replace(column, settings={**column.settings, **changed}) for column in grid.columns),
    ))  # fmt: skip


def _reached(settings: Settings, grid: Grid) -> Grid:
    """The grid, if its configs are valid and some method has each of these options; else a ValueError."""
    reached = {name for cell in cells(grid) for name in cell.config.options}
    if missed := [name for name in settings if name not in SETTINGS and name not in reached]:
        raise ValueError(f"no method of the grid has the option {missed[0]}")
    return grid


def _settings(given: Mapping[str, Any], allowed: Sequence[str]) -> dict[str, Any]:
    """The settings of runs among given keys, with known options in their own types; a ValueError for an unknown key."""
    if unknown := [name for name in given if name not in (*allowed, "options")]:
        near = meant(unknown[0], allowed)
        raise ValueError(f"a key should be one of {', '.join((*allowed, 'options'))}, but got {unknown[0]!r}{near}")
    named = given.get("options", {})
    if not isinstance(named, Mapping):
        raise ValueError(f"options should be a table of option = value, but got {named!r}")
    found = {name: value for name, value in given.items() if name in SHARED and value is not None}
    plugins.load_all()
    known = declared()
    return found | {name: known[name].check(name, value) if name in known else value for name, value in named.items()}


def find_grid(name: str | Path, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset or of a .toml file, on other data or seeds if these are named.

    `official` takes the published streams where there are some, instead of generated ones. A file holds a table [grid],
    or the name of a preset. Its grid is called like the file; a study.toml is called like its folder, and so are
    further files beside it: arrival-loss/digits.toml is "arrival-loss-digits". Its methods and options may be those of
    plugins that are not loaded: a table needs only the names.
    """
    from puridiver.grid.presets import PRESETS, grid_of_preset

    if name in PRESETS:
        return grid_of_preset(str(name), data, seeds, official)
    path = Path(name)
    if path.suffix != ".toml":
        known = f"{', '.join(PRESETS)}, but got {str(name)!r}{meant(name, PRESETS)}"
        raise ValueError(f"a grid should be a .toml file or one of {known}")
    folder, title = path.absolute().parent, path.stem
    if (folder / "study.toml").exists():
        title = folder.name if title == "study" else f"{folder.name}-{title}"
    try:
        content = tomllib.loads(read_regular(path).decode("utf-8-sig"))
        if set(content) == {"preset"}:
            return find_grid(content["preset"], data, seeds, official)
        if set(content) != {"grid"} or not isinstance(content["grid"], dict):
            raise ValueError(f"it should hold a table [grid], or a preset's name, but holds {', '.join(content)}")
        return grid_of_table(content["grid"], title, data, seeds)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {error}") from error


def grid_of_table(
    table: Mapping[str, Any], name: str = "grid", data: Sequence[str] = (), seeds: Sequence[int] = ()
) -> Grid:
    """The grid of a table with the keys of a grid file."""
    settings = _settings(table, (*LISTS, *SHARED))
    entries = _list(table, "methods", (str, Mapping))
    methods = tuple(method_of(entry, settings.get("network")) for entry in entries)
    chosen_seeds = tuple(seeds or _list(table, "seeds", (int,), [0]))
    mapless = {name: value for name, value in settings.items() if name != "noise_map"}  # for noise that has no map
    columns = tuple(
        Column(source, stream, noise, chosen_seeds, settings if str(noise).startswith("asym") else mapless)
        for source in data or _list(table, "data", (str,), ["digits"])
        for stream in _list(table, "streams", (str,), ["blurry-10"])
        for noise in (_list(table, "noises", (str,)) if "noises" in table else [None])
    )
    for key, titles in (("methods", [m.title for m in methods]), ("columns", [c.title for c in columns])):
        if doubles := [title for title in titles if titles.count(title) > 1]:
            raise ValueError(f"{key} should differ, but several are called {doubles[0]!r}: give each its own title")
    return _reached(settings, Grid(name, str(table.get("title", name)), methods, columns))


def _list(table: Mapping[str, Any], key: str, kinds: tuple[type, ...], default: Any = None) -> list[Any]:
    value = table.get(key, default)
    values = list(value) if isinstance(value, list | tuple | range) else []
    if not values or any(isinstance(item, bool) or not isinstance(item, kinds) for item in values):
        raise ValueError(f"{key} should be a list of {' or '.join(kind.__name__ for kind in kinds)}, but got {value!r}")
    return values


def method_of(entry: str | Mapping[str, Any], network: str | None = None) -> Method:
    """A method written "sampler+trainer", or as a table with a title and settings of its own."""
    if isinstance(entry, str):
        entry = dict(zip(("sampler", "trainer"), map(str.strip, entry.split("+")), strict=False))
    if not {"sampler", "trainer"} <= entry.keys():
        raise ValueError(f"a method should have a sampler and a trainer, such as rsv+plain, but got {dict(entry)}")
    settings = _settings(entry, ("title", "sampler", "trainer", *SHARED))
    parts = {"network": network, **entry}
    options = [name for name in settings if name not in SETTINGS]
    check_reached(options, [f"{family} {parts[family]}" for family in plugins.FAMILIES])
    changed = "".join(f", {name}={value}" for name, value in settings.items())
    title = entry.get("title", f"{entry['sampler']} + {entry['trainer']}{changed}")
    return Method(str(title), str(entry["sampler"]), str(entry["trainer"]), settings)
