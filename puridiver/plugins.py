"""Samplers, trainers and networks from outside the package: whoever writes one registers it; it is chosen by name.

    @puridiver.register
    class Newest(puridiver.Sampler):
        name = "newest"

        def choose(self, pool, n_old, capacity, moment):
            return torch.arange(len(pool))[-capacity:]

A file or module that does so is a plugin. Plugins come from `--plugin`, from $PURIDIVER_PLUGINS (so that worker
processes have them, too) and from installed packages with entry points in the group "puridiver.plugins". Their code
enters the identity of the runs that use it, as a setting (`puridiver.runs.provenance`).
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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from puridiver.errors import DataError
from puridiver.memory import SAMPLERS, Sampler
from puridiver.nets import NETWORKS, Network
from puridiver.own_options import DOT, announce, check_of_one, values_of
from puridiver.trainers import TRAINERS, Trainer

ENVIRONMENT = "PURIDIVER_PLUGINS"  # files and modules, separated as folders are in $PATH
GROUP = "puridiver.plugins"
OWN = __name__.partition(".")[0]
NAME = re.compile(r"[a-z][a-z0-9_-]*")
FAMILIES: dict[str, tuple[type, dict[str, Any]]] = {
    "sampler": (Sampler, SAMPLERS), "trainer": (Trainer, TRAINERS), "network": (Network, NETWORKS),
}  # fmt: skip

Member = TypeVar("Member", bound=type)


@dataclass(frozen=True)
class Origin:
    """Where a method or network is from: what `--plugin` takes (without folders), and a hash of its code as loaded."""

    place: str
    code: str
    path: str = field(default="", compare=False)  # empty where it is in no file
    source: bytes = field(default=b"", compare=False, repr=False)  # of a file that stands alone, as loaded


_origins: dict[type, Origin] = {}
_loaded: set[str] = set()
_roots: set[str] = set()  # names of the modules, or packages, that were loaded as plugins

for _family_name, (_, _members) in FAMILIES.items():
    for _name, _member in _members.items():
        announce(_family_name, _name, _member)


def register(member: Member) -> Member:
    """Let a sampler, trainer or network of your own be chosen by its `name`; a decorator.

    `name` is lower case (letters, digits, - and _). `title` and `summary`, which tables and `puridiver methods` show,
    are the name and the first line of the docstring unless the class says otherwise.
    """
    family, registry = _family(member)
    name = getattr(member, "name", None)
    if isinstance(name, str) and _is_of_another_method(member, "name"):
        raise ValueError(f"{member.__qualname__} should have a name of its own: {name!r} is that of what it is made of")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"{member.__qualname__} should have a name of lower-case letters, digits, - and _, such as "
            f'name = "newest", but got {name!r}'
        )
    if name == "auto":
        raise ValueError(f"the name 'auto' leaves the {family} to the package: choose another")
    missing = sorted(getattr(member, "__abstractmethods__", ()))
    if missing:
        raise ValueError(f"{family} {name!r} should have {', '.join(missing)}: see the docstring of {family.title()}")
    if name in registry and is_own(registry[name]) and registry[name] is not member:
        raise ValueError(f"the name {name!r} is taken by a {family} of the package: choose another")
    fallbacks = {"title": name, "summary": ((member.__doc__ or "").strip() or name).splitlines()[0]}
    for attribute, fallback in fallbacks.items():
        if _is_of_another_method(member, attribute):
            setattr(member, attribute, fallback)
    if not is_own(member):
        origin = _origin(member)
        _refuse_two_files(family, name, _origins.get(registry.get(name, member), origin), origin)
        _origins[member] = origin
    announce(family, name, member)
    registry[name] = member
    return member


def _is_of_another_method(member: type, attribute: str) -> bool:
    """Whether a class lacks an attribute, or has that of a method it is derived from."""
    home = next((kind for kind in member.__mro__ if attribute in vars(kind)), None)
    return home is None or (home is not member and (home in _origins or is_own(home)))


def _refuse_two_files(family: str, name: str, before: Origin, now: Origin) -> None:
    """A cell of a notebook, or a file that was edited, may make a class anew; two files must not share a name."""
    if before.path and now.path and before.path != now.path:
        raise ValueError(f"the name {name!r} is taken by a {family} of {before.path}: choose another in {now.path}")


def as_name(member: str | type) -> str:
    """The name of a method; a class of one's own is registered by the way."""
    if isinstance(member, str):
        return member
    if not isinstance(member, type):
        raise ValueError(f"a sampler, trainer or network should be a name or a class, but got {member!r}")
    if not is_own(member) and _family(member)[1].get(str(getattr(member, "name", None))) is not member:
        register(member)  # in the place of another of that name, such as one of a cell that was run again
    return str(member.name)  # type: ignore[attr-defined]


def _family(member: type) -> tuple[str, dict[str, Any]]:
    for family, (base, registry) in FAMILIES.items():
        if isinstance(member, type) and issubclass(member, base):
            return family, registry
    raise ValueError(
        f"what is registered should be a subclass of puridiver.Sampler, Trainer or Network, but got {member!r}"
    )


def is_own(member: type) -> bool:
    """Whether a method is one of the package's."""
    return member.__module__.partition(".")[0] == OWN


def option_readers() -> dict[str, list[str]]:
    """Of each option that not every method goes by: the package's own methods that do."""
    readers: dict[str, list[str]] = {}
    for family, (_, members) in FAMILIES.items():
        for method in members.values():
            for name in method.reads if is_own(method) else ():
                readers.setdefault(name, []).append(f"the {family} {method.name}")
    return readers


def unread_options(sampler: str, trainer: str, arrival_weight: float) -> frozenset[str]:
    """Options that change nothing with these methods. None for a plugin: nobody knows what it looks at.

    PuriDivER's sampler looks at views of what arrives only where their loss has a weight.
    """
    chosen = [FAMILIES[family][1].get(name) for family, name in (("sampler", sampler), ("trainer", trainer))]
    if any(method is None or not is_own(method) for method in chosen):
        return frozenset()
    read = {name for method in chosen if method is not None for name in method.reads}
    unseen = {"ntd_views"} if sampler == "puridiver" and not arrival_weight else set()
    return frozenset(option_readers()) - (read - unseen)


def own_options(sampler: str, trainer: str, network: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options that these declare themselves, by full names, with the values asked for or else their defaults."""
    load_all()
    chosen = (("sampler", sampler), ("trainer", trainer), ("network", network))
    found: dict[str, Any] = {}
    members = [(name, FAMILIES[family][1][name]) for family, name in chosen if name in FAMILIES[family][1]]
    check_of_one(asked, [name for name, _ in members])
    for name, member in members:
        found |= {f"{name}{DOT}{option}": value for option, value in values_of(member, asked).items()}
    return found


# Loading -----------------------------------------------------------------------------------------------------------


def add(place: str) -> None:
    """Load a plugin, a .py file or the name of a module, in this process and in those that it starts."""
    place = _absolute(place)
    load(place)
    known = [word for word in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if word]
    if place not in known:
        os.environ[ENVIRONMENT] = os.pathsep.join([*known, place])


def load_all() -> None:
    """Load what the environment and installed packages name, once."""
    for word in os.environ.get(ENVIRONMENT, "").split(os.pathsep):
        if word:
            load(_absolute(word))
    for module in _installed(tuple(sys.path)):
        load(module)


@functools.cache
def _installed(search_path: tuple[str, ...]) -> tuple[str, ...]:
    """Modules that installed packages name, read once for each search path: it takes a look into every package."""
    return tuple(point.module for point in importlib.metadata.entry_points(group=GROUP))


def load(place: str) -> None:
    """Load a plugin that was not loaded before."""
    if place in _loaded:
        return
    before = {id(member) for _, registry in FAMILIES.values() for member in registry.values()}
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (Exception, SystemExit) as error:
        raise DataError(f"plugin {place} could not be loaded: {type(error).__name__}: {error}") from error
    found = [member for _, registry in FAMILIES.values() for member in registry.values() if id(member) not in before]
    if not found and not _registered_by(module):
        raise DataError(
            f"plugin {place} registers no sampler, trainer or network: put @puridiver.register before its class"
        )
    _loaded.add(place)
    _roots.add(module.__name__.partition(".")[0])


def unregistered() -> list[tuple[str, type]]:
    """Classes of plugins that look like methods but cannot be chosen, for want of @puridiver.register; by family.

    What others are derived from may be meant to be no method itself, unless it has a name.
    """
    known = {*_origins, *(member for _, registry in FAMILIES.values() for member in registry.values())}
    return [
        (family, kind)
        for family, (base, _) in FAMILIES.items()
        for kind in _descendants(base)
        if kind not in known and _is_of_a_plugin(kind) and not inspect.isabstract(kind)
        if "name" in vars(kind) or not _descendants(kind)
    ]


def _descendants(base: type) -> list[type]:
    direct: list[type] = base.__subclasses__()
    return list(dict.fromkeys([*direct, *(kind for each in direct for kind in _descendants(each))]))


def _is_of_a_plugin(kind: type) -> bool:
    """And still there: a file that was loaded again has made its classes anew."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] in _roots and getattr(module, kind.__name__, None) is kind


def _absolute(place: str) -> str:
    if not place.endswith(".py"):
        return place
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise DataError(f"plugin {place} should be a Python file or a module, but there is no such file")
    return str(path)


def _from_file(path: Path) -> ModuleType:
    """Import a file under a name of its own; files beside it can be imported from it."""
    name = f"puridiver_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None  # of a path that ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _registered_by(module: ModuleType) -> list[type]:
    root = module.__name__.partition(".")[0]
    return [member for member in _origins if member.__module__.partition(".")[0] == root]


# Where it came from ------------------------------------------------------------------------------------------------


def origins(*methods: tuple[str, str]) -> dict[str, Origin]:
    """By family and name ("sampler newest"), where those of some methods came from that the package has not."""
    load_all()
    members = {f"{family} {name}": FAMILIES[family][1].get(name) for family, name in methods}
    return {key: _origins[member] for key, member in members.items() if member in _origins}


def _origin(member: type) -> Origin:
    named = _named_files(member)
    try:
        file = Path(inspect.getsourcefile(member) or "")
        code = _code(member, file, named)
    except (OSError, TypeError):  # typed at a prompt
        return Origin(member.__module__, "not known")
    is_script = member.__module__.startswith("puridiver_plugin_") or member.__module__ == "__main__"
    path = str(file.resolve()) if file.is_file() else ""
    source = file.read_bytes() if is_script and path else b""
    return Origin(file.name if is_script else member.__module__, code, path, source)


def _code(member: type, file: Path, named: list[Path]) -> str:
    """A hash of the file, of every Python file of its package, or of the class where it is in no file (a notebook)."""
    if not file.is_file() and not named:
        return hashlib.sha256(inspect.getsource(member).encode()).hexdigest()
    root = sys.modules.get(member.__module__.partition(".")[0])
    package = (
        Path(root.__file__).parent if root is not None and getattr(root, "__path__", None) and root.__file__ else None
    )
    files = sorted(package.rglob("*.py")) if package is not None else [file] if file.is_file() else []
    digest = hashlib.sha256() if files else hashlib.sha256(inspect.getsource(member).encode())
    for path in [*files, *named]:
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _named_files(member: type) -> list[Path]:
    """What the class reads besides, such as weights, which decide its runs as code does.

    `files` of the class, or of one it is derived from: names, by the folder of that class's file.
    """
    home = next((kind for kind in member.__mro__ if "files" in vars(kind)), None)
    names = vars(home)["files"] if home is not None else ()
    if isinstance(names, str) or (isinstance(names, list | tuple) and not all(isinstance(n, str) for n in names)):
        raise ValueError(
            f'{member.__qualname__}: files should be a list of names, such as ["weights.pt"], but is {names!r}'
        )
    found = [_folder(home) / Path(name).expanduser() for name in names] if isinstance(names, list | tuple) else []
    for path in found:
        if not path.is_file():
            raise ValueError(f"{member.__qualname__} names a file that is not there: {path}")
    return found


def _folder(kind: type | None) -> Path:
    """Of the file of a class; the present one for a class of a notebook."""
    try:
        file = Path(inspect.getsourcefile(kind) or "") if kind is not None else Path()
    except (OSError, TypeError):
        return Path()
    return file.parent if file.is_file() else Path()


def codes(*methods: tuple[str, str]) -> dict[str, str]:
    """Hashes of those of some methods that the package has not, by family and name."""
    return {key: origin.code for key, origin in origins(*methods).items()}
