"""Register samplers, trainers and networks from outside the package, so that they can be chosen by name.

    @puridiver.register
    class Newest(puridiver.Sampler):
        name = "newest"

        def choose(self, pool, n_old, capacity, moment):
            return torch.arange(len(pool))[-capacity:]

A plugin is a file or module that registers a class. Plugins come from `--plugin` and from $PURIDIVER_PLUGINS, which
worker processes read, too. A hash of a plugin's code is part of the identity of every run that uses it.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from puridiver.errors import DataError
from puridiver.memory import SAMPLERS, Sampler
from puridiver.nets import NETWORKS, Network
from puridiver.options import declare
from puridiver.trainers import TRAINERS, Trainer

ENVIRONMENT = "PURIDIVER_PLUGINS"  # files and modules, separated like folders in $PATH
NAME = re.compile(r"[a-z][a-z0-9_-]*")
FILE_MODULE = "puridiver_plugin_"  # begins the module names of plugins that are files
FAMILIES: dict[str, tuple[type, dict[str, Any]]] = {
    "sampler": (Sampler, SAMPLERS), "trainer": (Trainer, TRAINERS), "network": (Network, NETWORKS),
}  # fmt: skip

Member = TypeVar("Member", bound=type)


class Origin(NamedTuple):
    """Where a method or network comes from."""

    place: str  # the full path of a single file, or the name of a module
    code: str  # hash
    source: str = ""  # text of a single file, as loaded


_origins: dict[type, Origin] = {}
_loaded: dict[str, str] = {}  # full path or module: name of the module


def register(member: Member) -> Member:
    """Make a sampler, trainer or network available by its `name`; a decorator.

    `name` uses lower-case letters, digits, - and _. Tables and pages show `title` (default: the name),
    `puridiver methods` shows `summary` (default: the first line of the docstring).
    """
    families = [each for each, (base, _) in FAMILIES.items() if isinstance(member, type) and issubclass(member, base)]
    if not families:
        raise ValueError(f"a method or network should be a subclass of Sampler, Trainer or Network, but got {member!r}")
    family, registry, name = families[0], FAMILIES[families[0]][1], vars(member).get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == "auto":
        raise ValueError(
            f"{member.__qualname__} should set a name of its own, of lower-case letters, digits, - and _, other than "
            f'auto, such as name = "newest", but got {name!r}'
        )
    if (before := registry.get(name)) is member:
        return member
    if missing := sorted(getattr(member, "__abstractmethods__", ())):
        raise ValueError(f"{family} {name!r} should have {', '.join(missing)}: see the docstring of {family.title()}")
    origin = _origin(member)
    # A notebook cell or an edited file may register its name again, another file may not.
    if before is not None and (is_own(before) or _origins[before].place != origin.place):
        place = "the package" if is_own(before) else _origins[before].place
        raise ValueError(f"the name {name!r} is taken by a {family} of {place}: choose another in {origin.place}")
    for attribute, fallback in (("title", name), ("summary", (member.__doc__ or name).strip().splitlines()[0])):
        if attribute not in vars(member):
            setattr(member, attribute, fallback)
    declare(f"{family} {name}", member)
    _origins[member] = origin
    registry[name] = member
    return member


def as_name(member: str | type) -> str:
    """The name of a method or network; a class from outside the package is registered."""
    return member if isinstance(member, str) else str(register(member).name)  # type: ignore[attr-defined]


def title_of(sampler: str, trainer: str) -> str:
    """What tables and pages call a sampler with a trainer: their titles, or the one that both have."""
    return " + ".join(dict.fromkeys([SAMPLERS[sampler].title, TRAINERS[trainer].title]))


def is_own(member: type) -> bool:
    """Whether a method or network is one of the package."""
    return member.__module__.startswith("puridiver.")


def add(place: str) -> None:
    """Load a plugin (a .py file or a module's name) in this process and in the processes that it starts."""
    place = load(place)
    known = [word for word in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if word]
    if place not in known:
        os.environ[ENVIRONMENT] = os.pathsep.join([*known, place])


def load_all() -> None:
    """Load the plugins of the environment variable, each once."""
    for place in filter(None, os.environ.get(ENVIRONMENT, "").split(os.pathsep)):
        load(place)


def load(place: str) -> str:
    """Load a plugin unless it is already loaded. Returns its full path, or its name if it is a module."""
    if place.endswith(".py"):
        place = str(Path(place).expanduser().resolve())
    if place in _loaded:
        return place
    try:
        name = _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place).__name__
    except (Exception, SystemExit) as error:
        raise DataError(f"plugin {place} could not be loaded: {type(error).__name__}: {error}") from error
    if not any(_root(member.__module__) == _root(name) for member in _origins):
        raise DataError(
            f"plugin {place} registers no sampler, trainer or network: put @puridiver.register before its class"
        )
    _loaded[place] = name
    return place


def _import_file(path: Path) -> str:
    """Import a file under a unique module name, which is returned; it can import the files beside it."""
    name = f"{FILE_MODULE}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None  # the path ends in .py
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    spec.loader.exec_module(module)
    return name


def origins(*methods: tuple[str, str]) -> dict[str, Origin]:
    """Origins of methods from outside the package, by keys such as "sampler newest"."""
    load_all()
    found: dict[str, Origin] = {}
    for family, name in methods:
        member = FAMILIES[family][1].get(name) if family in FAMILIES else None  # a damaged save names anything
        if member in _origins:
            found[f"{family} {name}"] = _origins[member]
    return found


def codes(*methods: tuple[str, str]) -> dict[str, str]:
    """Code hashes of methods from outside the package, by keys such as "sampler newest"."""
    return {key: origin.code for key, origin in origins(*methods).items()}


def _origin(member: type) -> Origin:
    """Where a class comes from. The hash covers its file or package, and the `files = ["weights.pt"]` that it reads."""
    place, file = member.__module__, getattr(sys.modules.get(member.__module__), "__file__", None)
    if file is None:  # a notebook, or typed at a prompt
        try:
            return Origin(place, hashlib.sha256(inspect.getsource(member).encode()).hexdigest())
        except (OSError, TypeError):
            return Origin(place, "not known")
    path, digest = Path(file).resolve(), hashlib.sha256()
    package = sys.modules[_root(place)]
    files = sorted(Path(str(package.__file__)).parent.rglob("*.py")) if hasattr(package, "__path__") else [path]
    for each in [*files, *(path.parent / name for name in getattr(member, "files", ()))]:
        digest.update(f"{each.name} {hashlib.sha256(each.read_bytes()).hexdigest()}\n".encode())
    single = place.startswith(FILE_MODULE) or place == "__main__"
    return Origin(str(path), digest.hexdigest(), path.read_text()) if single else Origin(place, digest.hexdigest())


def _root(module: str) -> str:
    return module.partition(".")[0]
