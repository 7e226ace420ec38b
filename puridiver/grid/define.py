"""Grids from presets and from TOML files."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from puridiver.data import SOURCES
from puridiver.data.files import is_own_or_arrays
from puridiver.errors import DataError
from puridiver.grid.cells import OWN_SETTINGS, Column, Grid, Method, config_fields, methods_of, reaches
from puridiver.grid.presets import PRESETS, Preset, Size
from puridiver.options import RECIPES, Options, check_reached, owners
from puridiver.runs.config import RunConfig
from puridiver.streams import StreamManifest
from puridiver.streams.names import MATRIX_FILE, is_manifest, manifest_path
from puridiver.streams.noise import noise_name

HAVE_STREAMS = ("cifar10", "cifar100", "webvision", "food101n")  # data of which streams are published
GRID_KEYS = ("title", "data", "streams", "noises", "methods", "seeds")
METHOD_KEYS = ("title", "sampler", "trainer", "options", *OWN_SETTINGS)
# Fields of a run that a file's lists decide.
FROM_LISTS = frozenset(("data", "stream", "noise", "seed", "sampler", "trainer"))


def find_grid(name: str, data: Sequence[str] = (), seeds: Sequence[int] = (), official: bool = False) -> Grid:
    """The grid of a preset or of a .toml file, on other data or seeds if these are named.

    Parameters
    ----------
    official
        Use the published streams where there are some (blurry ones of CIFAR, WebVision and Food-101N), instead of
        generated ones.
    """
    if name.endswith(".toml"):
        return read_grid(Path(name), data, seeds)
    if name not in PRESETS:
        raise ValueError(f"a grid should be a .toml file or one of {', '.join(PRESETS)}, but got {name!r}")
    return grid_of_preset(name, PRESETS[name], data, seeds, official)


def grid_of_preset(name: str, preset: Preset, data: Sequence[str], seeds: Sequence[int], official: bool) -> Grid:
    columns: list[Column] = []
    for source in data or preset.data:
        if source not in preset.sizes:
            raise ValueError(
                f"the preset {name} has sizes for {', '.join(preset.sizes)}, but not for {source}; "
                "write a grid file for other data (docs/GRIDS.md)"
            )
        columns += _columns(preset, source, preset.sizes[source], tuple(seeds), official)
    return Grid(name, preset.title, preset.methods, tuple(columns), preset.paper, preset.figure)


def _columns(preset: Preset, source: str, size: Size, seeds: tuple[int, ...], official: bool) -> list[Column]:
    published = official and preset.stream == "blurry-10" and source in HAVE_STREAMS
    found = []
    for noise in size.noises or preset.noises:
        settings = {"recipe": preset.recipe, **size.settings}
        if noise.startswith("asym") and source in preset.noise_maps and not published:
            settings["noise_map"] = preset.noise_maps[source]
        stream = "official" if published else preset.stream
        found.append(Column(source, stream, noise, seeds or size.seeds, settings, size.without))
    return found


def with_methods(grids: Sequence[Grid], titles: Sequence[str]) -> list[Grid]:
    """The grids with the methods of these titles alone, without grids that have none; case and spaces do not matter."""
    known = dict.fromkeys(method.title for grid in grids for method in grid.methods)
    wanted, there = {_plain(title) for title in titles}, {_plain(title) for title in known}
    unknown = [title for title in titles if _plain(title) not in there]
    if unknown:
        raise ValueError(
            f"there is no method {unknown[0]!r} in the grid; its methods are {', '.join(map(repr, known))}"
        )
    chosen = [
        dataclasses.replace(
            grid,
            methods=tuple(method for method in grid.methods if _plain(method.title) in wanted),
            whole=grid.whole or grid,
        )
        for grid in grids
    ]
    return [grid for grid in chosen if grid.methods]


def with_noises(grids: Sequence[Grid], noises: Sequence[str]) -> list[Grid]:
    """The grids with the columns of these noises alone, without grids that have none."""
    known = dict.fromkeys(column.noise for grid in grids for column in grid.columns)
    wanted = {_same_noise(noise) for noise in noises}
    unknown = [noise for noise in noises if _same_noise(noise) not in map(_same_noise, known)]
    if unknown:
        raise ValueError(f"there is no noise {unknown[0]!r} in the grid; its noises are {', '.join(known)}")
    chosen = [
        dataclasses.replace(
            grid,
            columns=tuple(c for c in grid.columns if _same_noise(c.noise) in wanted),
            whole=grid.whole or grid,
        )
        for grid in grids
    ]
    return [grid for grid in chosen if grid.columns]


def _same_noise(noise: str) -> str:
    """ "sym-40" and "sym40" are one."""
    return noise if noise.startswith(MATRIX_FILE) else noise.replace("-", "").lower()


def same_title(one: str, other: str) -> bool:
    """Case and spaces do not matter."""
    return _plain(one) == _plain(other)


def _plain(title: str) -> str:
    return "".join(title.lower().split())


# Files ------------------------------------------------------------------------------------------------------------


def read_grid(path: Path, data: Sequence[str] = (), seeds: Sequence[int] = ()) -> Grid:
    """A grid from the table [grid] of a TOML file; docs/GRIDS.md tells its keys."""
    return grid_of_table(_read_table(path), path, data, seeds)


def grid_of_table(content: Mapping[str, Any], path: Path, data: Sequence[str] = (), seeds: Sequence[int] = ()) -> Grid:
    """A grid from what stands in such a table; `path` names it, and is what errors speak of."""
    table = {key: _as_in_a_file(value) for key, value in content.items()}
    settings = _with_floats({key: value for key, value in table.items() if key not in GRID_KEYS})
    _check_settings(path, settings)
    if "options" in settings:
        settings["options"] = _options_in(path, settings["options"])
    _check_network(path, settings.get("network"))
    methods = tuple(_method(path, entry) for entry in _list(path, table, "methods", (str, dict)))
    _check_reached(path, settings, methods)
    _refuse_doubles(path, "methods", [method.title for method in methods], _plain)
    _refuse_doubles(path, "noises", _list(path, table, "noises", (str,), [""]), _same_noise)
    if isinstance(table.get("seeds"), int):
        only = table["seeds"]
        raise DataError(f"{path}: seeds should be a list: [{only}] for the seed {only} alone, or [0, 1, 2] for three")
    chosen_seeds = tuple(seeds or _list(path, table, "seeds", (int,), [0]))
    streams = _list(path, table, "streams", (str,), ["blurry-10"])
    noise_of = {stream: _manifest_noise(path, stream, chosen_seeds) for stream in streams if is_manifest(stream)}
    _refuse_crossed(path, table, list(noise_of))
    _refuse_doubles(path, "streams", streams, lambda stream: _content(stream, chosen_seeds))
    columns = tuple(
        Column(source, stream, noise, chosen_seeds, settings)
        for source in data or _list(path, table, "data", (str,), ["digits"])
        for stream in streams
        for noise in _list(path, table, "noises", (str,), [noise_of.get(stream) or _usual_noise(source)])
    )
    return Grid(path.stem, str(table.get("title", path.stem)), methods, columns)


def _check_reached(path: Path, settings: Mapping[str, Any], methods: Sequence[Method]) -> None:
    """Options that methods declare themselves: of a method its own, and of [grid] those of some method."""
    members = [methods_of(m, settings.get("network")) for m in methods]
    for name in settings.get("options", {}):
        if not any(reaches(name, each) for each in members):
            raise DataError(
                f"{path}: {name} is an option of {', '.join(owners(name))}, which no method of the grid has"
            )
    for method, its in zip(methods, members, strict=True):
        try:
            check_reached(method.options, its)
        except ValueError as error:
            raise DataError(f"{path}: {error}") from error


def _as_in_a_file(value: Any) -> Any:
    """A program may say (0, 1), range(2) or an array where a file has a list."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return list(value) if isinstance(value, tuple | range) else value


def _refuse_crossed(path: Path, table: Mapping[str, Any], manifests: Sequence[str]) -> None:
    """A manifest cannot be run under several noises: each run would count once for each of them."""
    if manifests and "noises" in table:
        raise DataError(
            f"{path}: streams has the manifest {manifests[0]}, which is already made, with its own noise: leave noises "
            "out, and name streams that are still to be made in another grid file"
        )


def _manifest_noise(path: Path, stream: str, seeds: Sequence[int]) -> str:
    """The noise of a manifest; where there is one for each seed, all must have the same."""
    found: dict[str, str] = {}  # and the file that has it
    for name in dict.fromkeys(manifest_path(stream, seed) for seed in seeds):
        manifest = _load_manifest(path, name)
        found.setdefault(noise_name(manifest.noise, manifest.noise_rate), name)
    if len(found) > 1:
        told = " and ".join(f"{noise} in {name}" for noise, name in found.items())
        raise DataError(
            f"{path}: {stream} should have the same noise for all seeds, but has {told}: name each noise's manifests "
            "apart, such as sym20-{seed}.json and sym60-{seed}.json"
        )
    return next(iter(found))


def _load_manifest(path: Path, name: str) -> StreamManifest:
    if not Path(name).is_file():
        raise DataError(
            f"{path}: streams names {name}, which is not there (`puridiver stream make --out {name}` writes one; paths "
            "are taken from the folder that the command is started in)"
        )
    return StreamManifest.load(name)


def _content(stream: str, seeds: Sequence[int]) -> str:
    """By what two streams are one: manifests by what they hold, whatever they are called."""
    if not is_manifest(stream):
        return stream
    return " ".join(StreamManifest.load(manifest_path(stream, seed)).content_hash for seed in seeds)


def _refuse_doubles(path: Path, key: str, names: Sequence[str], plain: Callable[[str], str]) -> None:
    """Two lines or columns that cannot be told apart, or one run that would count twice."""
    seen: dict[str, str] = {}
    for name in names:
        if plain(name) in seen:
            both = f"{seen[plain(name)]!r} and {name!r}" if name != seen[plain(name)] else f"{name!r} twice"
            raise DataError(f"{path}: {key} has {both}, which are one: leave one out, or give it a title of its own")
        seen[plain(name)] = name


def _usual_noise(source: str) -> str:
    """What a file that names no noises gets: none for data of one's own, whose labels pass as they came."""
    of_files = SOURCES[source].from_files is not None if source in SOURCES else is_own_or_arrays(source)
    return "none" if of_files else "sym-40"


def _read_table(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} is not TOML: {error}") from error
    if set(content) != {"grid"} or not isinstance(content["grid"], dict):
        raise DataError(f"{path} should hold one table, [grid], but holds {', '.join(content) or 'none'}")
    return content["grid"]


def _with_floats(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with whole numbers as floats where floats are wanted: 0 and 0.0 are one run."""
    kinds = {key: _kinds(kind) for key, kind in get_type_hints(RunConfig).items()}
    return {
        key: float(value) if type(value) is int and kinds.get(key) == [float] else value
        for key, value in settings.items()
    }


def _kinds(hint: Any) -> list[Any]:
    """What a setting may be, besides absent."""
    return [each for each in (get_args(hint) or (hint,)) if each is not type(None)]


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    allowed = [name for name in config_fields() if name not in FROM_LISTS]
    for key in settings:
        if key not in allowed:
            raise DataError(f"{path}: there is no key {key!r}; the keys are {', '.join([*GRID_KEYS, *allowed])}")
    _options_in(path, settings.get("options", {}))
    twice = settings.get("epochs"), settings.get("options", {}).get("epochs")
    if None not in twice and twice[0] != twice[1]:
        raise DataError(f"{path}: epochs is {twice[0]} in [grid] and {twice[1]} in [grid.options]: say it once")
    for key, value in settings.items():
        if key != "options":
            _check_setting(path, key, value, key)
    _check_least(path, settings)


def _check_least(path: Path, settings: Mapping[str, Any]) -> None:
    """The least values that numbers may have."""
    try:
        RunConfig(**settings)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def _check_setting(path: Path, called: str, value: Any, key: str) -> None:
    kinds = _kinds(get_type_hints(RunConfig)[key])
    if type(value) not in kinds:  # not isinstance: true is no number
        names = " or ".join(each.__name__ for each in kinds)
        raise DataError(f"{path}: {called} should be {names}, but got {value!r}")
    choices = tuple(RECIPES) if key == "recipe" else config_fields()[key].metadata["choices"]
    if choices and value not in choices:
        raise DataError(f"{path}: {called} should be one of {', '.join(choices)}, but got {value!r}")


def _options_in(path: Path, options: Any) -> dict[str, Any]:
    if not isinstance(options, dict):
        raise DataError(f"{path}: options should be a table of option = value, but got {options!r}")
    try:
        return checked_options(options)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options in their own types, so that 1 and 1.0 are one setting; a ValueError for what there is not."""
    from puridiver import plugins

    plugins.load_all()
    found = Options(**options)
    return {name: found[name] for name in options}


def _list(path: Path, table: Mapping[str, Any], key: str, kinds: tuple[type, ...], default: Any = None) -> list[Any]:
    """A list of the file; one value alone counts as a list of one."""
    value = table.get(key, default)
    if value is None:
        raise DataError(f"{path}: {key} is missing from [grid]: say {key} = [...] (docs/GRIDS.md has an example)")
    values = value if isinstance(value, list) else [value]
    if not values or not all(type(item) in kinds for item in values):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise DataError(f"{path}: {key} should be a list of {wanted}, but got {value!r}")
    return values


def _method(path: Path, entry: str | dict[str, Any]) -> Method:
    """A method written "sampler+trainer", or as a table with a title and options of its own."""
    if isinstance(entry, str):
        sampler, plus, trainer = (part.strip() for part in entry.partition("+"))
        if not (sampler and plus and trainer):
            raise DataError(f'{path}: a method should be written "sampler+trainer", but got {entry!r}')
        return _checked(path, Method(f"{sampler} + {trainer}", sampler, trainer))
    unknown = [key for key in entry if key not in METHOD_KEYS]
    if unknown or not {"sampler", "trainer"} <= set(entry):
        raise DataError(
            f"{path}: a method should have sampler and trainer, and may have title, options, "
            f"{', '.join(OWN_SETTINGS)}, but got {entry!r}"
        )
    for key in ("title", "sampler", "trainer"):
        if not isinstance(entry.get(key, ""), str):
            raise DataError(f"{path}: {key} of a method should be text, but got {entry[key]!r}")
    options = _options_in(path, entry.get("options", {}))
    settings = {key: entry[key] for key in OWN_SETTINGS if key in entry}
    for key, value in settings.items():
        _check_setting(path, f"{key} of a method", value, key)
    _check_least(path, settings)
    changed = "".join(f", {name}={value}" for name, value in {**settings, **options}.items())
    title = entry.get("title", f"{entry['sampler']} + {entry['trainer']}{changed}")
    return _checked(path, Method(title, entry["sampler"], entry["trainer"], options, settings))


def _checked(path: Path, method: Method) -> Method:
    from puridiver import plugins
    from puridiver.memory import SAMPLERS
    from puridiver.trainers import TRAINERS

    plugins.load_all()
    for family, members, name in (("sampler", SAMPLERS, method.sampler), ("trainer", TRAINERS, method.trainer)):
        if name not in members:
            raise _unknown(path, family, list(members), name)
    _check_network(path, method.settings.get("network"))
    return method


def _check_network(path: Path, name: str | None) -> None:
    from puridiver import plugins
    from puridiver.nets import NETWORKS

    if name not in (None, "auto"):
        plugins.load_all()
        if name not in NETWORKS:
            raise _unknown(path, "network", list(NETWORKS), name)


def _unknown(path: Path, family: str, members: Sequence[str], name: str | None) -> DataError:
    return DataError(
        f"{path}: {family} should be one of {', '.join(members)}, but got {name!r} "
        "(one of your own needs --plugin FILE: docs/METHODS.md)"
    )
