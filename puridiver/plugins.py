"""Register samplers, trainers and networks from outside the package, so that they can be chosen by name.

    @puridiver.register
    class Newest(puridiver.Sampler):
        name = "newest"

        def choose(self, pool, n_old, capacity, moment):
            return torch.arange(len(pool))[-capacity:]

A plugin is a file or module that registers a class. Plugins come from `--plugin`, from $PURIDIVER_PLUGINS (also read
by worker processes), and from entry points of installed packages in the group "puridiver.plugins". A hash of a
plugin's code is part of the identity of every run that uses it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from puridiver.errors import DataError
from puridiver.memory import SAMPLERS, Sampler
from puridiver.nets import NETWORKS, Network
from puridiver.options import class_options, declare
from puridiver.trainers import TRAINERS, Trainer

ENVIRONMENT = "PURIDIVER_PLUGINS"  # files and modules, separated like folders in $PATH
GROUP = "puridiver.plugins"
NAME = re.compile(r"[a-z][a-z0-9_-]*")
FAMILIES: dict[str, tuple[type, dict[str, Any]]] = {
    "sampler": (Sampler, SAMPLERS), "trainer": (Trainer, TRAINERS), "network": (Network, NETWORKS),
}  # fmt: skip

Member = TypeVar("Member", bound=type)


@dataclass(frozen=True)
class Origin:
    """Where a method or network comes from."""

    place: str  # the module, or the name of a file outside any package
    code: str  # hash
    path: str = ""  # empty if there is no file
    source: bytes = field(default=b"", repr=False)  # content of a single file, as loaded


_origins: dict[type, Origin] = {}
_loaded: dict[str, str] = {}  # full path or module: name of the module


def register(member: Member) -> Member:
    """Make a sampler, trainer or network available by its `name`; a decorator.

    `name` uses lower-case letters, digits, - and _. Tables and `puridiver methods` show `title` (default: the name)
    and `summary` (default: the first line of the docstring).
    """
    family, registry = _family(member)
    name = vars(member).get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name == "auto":
        raise ValueError(
            f"{member.__qualname__} should set a name of its own, of lower-case letters, digits, - and _, other than "
            f'auto, such as name = "newest", but got {name!r}'
        )
    if missing := sorted(getattr(member, "__abstractmethods__", ())):
        raise ValueError(f"{family} {name!r} should have {', '.join(missing)}: see the docstring of {family.title()}")
    before, origin = registry.get(name, member), _origin(member)
    if before is not member and is_own(before):
        raise ValueError(f"the name {name!r} is taken by a {family} of the package: choose another")
    first = _origins.get(before, origin)
    # a notebook cell or an edited file may register its name again, another file may not
    if first.path and origin.path and first.path != origin.path:
        raise ValueError(f"the name {name!r} is taken by a {family} of {first.path}: choose another in {origin.path}")
    for attribute, fallback in (("title", name), ("summary", (member.__doc__ or name).strip().splitlines()[0])):
        if attribute not in vars(member):
            setattr(member, attribute, fallback)
    declare(f"{family} {name}", class_options(member))
    _origins[member] = origin
    registry[name] = member
    return member


def as_name(member: str | type) -> str:
    """The name of a method or network; a class from outside the package is registered first."""
    if isinstance(member, str):
        return member
    registry = _family(member)[1]
    if not is_own(member) and registry.get(str(getattr(member, "name", None))) is not member:
        register(member)
    return str(member.name)  # type: ignore[attr-defined]


def _family(member: type) -> tuple[str, dict[str, Any]]:
    for family, (base, registry) in FAMILIES.items():
        if isinstance(member, type) and issubclass(member, base):
            return family, registry
    raise ValueError(f"a method or network should be a subclass of Sampler, Trainer or Network, but got {member!r}")


def is_own(member: type) -> bool:
    """Whether the package itself defines a method or network."""
    return _root(member.__module__) == _root(__name__)


def _root(module: str) -> str:
    return module.partition(".")[0]


# Loading -----------------------------------------------------------------------------------------------------------


def add(place: str) -> None:
    """Load a plugin (a .py file or a module's name) in this process and in the processes that it starts."""
    place = load(place)
    known = [word for word in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if word]
    if place not in known:
        os.environ[ENVIRONMENT] = os.pathsep.join([*known, place])


def load_all() -> None:
    """Load the plugins of the environment variable and of installed packages, each once."""
    for place in (*os.environ.get(ENVIRONMENT, "").split(os.pathsep), *_installed(tuple(sys.path))):
        if place:
            load(place)


@functools.cache
def _installed(search_path: tuple[str, ...]) -> tuple[str, ...]:
    """Modules that entry points name; cached, since the search reads the metadata of every installed package."""
    return tuple(point.module for point in importlib.metadata.entry_points(group=GROUP))


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
    name = f"puridiver_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None  # the path ends in .py
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return name


# Origins -----------------------------------------------------------------------------------------------------------


def origins(*methods: tuple[str, str]) -> dict[str, Origin]:
    """Origins of methods from outside the package, by keys such as "sampler newest"."""
    load_all()
    members = {f"{family} {name}": FAMILIES[family][1].get(name) for family, name in methods}
    return {key: _origins[member] for key, member in members.items() if member in _origins}


def codes(*methods: tuple[str, str]) -> dict[str, str]:
    """Code hashes of methods from outside the package, by keys such as "sampler newest"."""
    return {key: origin.code for key, origin in origins(*methods).items()}


def _origin(member: type) -> Origin:
    """The hash is of the file or the whole package, and of `files = ["weights.pt"]` that the class declares to read."""
    place = member.__module__
    try:
        file = Path(inspect.getsourcefile(member) or "")
        if not file.is_file():  # a notebook
            return Origin(place, hashlib.sha256(inspect.getsource(member).encode()).hexdigest())
    except (OSError, TypeError):  # typed at a prompt
        return Origin(place, "not known")
    root, files, digest = sys.modules.get(_root(place)), [file], hashlib.sha256()
    if root is not None and hasattr(root, "__path__") and root.__file__:
        files = sorted(Path(root.__file__).parent.rglob("*.py"))
    for path in [*files, *(file.parent / name for name in getattr(member, "files", ()))]:
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    if place.startswith("puridiver_plugin_") or place == "__main__":
        return Origin(file.name, digest.hexdigest(), str(file.resolve()), file.read_bytes())
    return Origin(place, digest.hexdigest(), str(file.resolve()))
