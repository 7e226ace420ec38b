"""Finds the members of a family (samplers, trainers, noises, figures, ...) by listing its folder; imports extras."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from puridiver.errors import DataError, meant

Base = TypeVar("Base")
Found = TypeVar("Found")


def members(package: str, base: type[Base]) -> dict[str, type[Base]]:
    """Import every module of a package's folder and return the named classes there that derive from `base`.

    A class belongs to the family if it is concrete and its own body sets `name`. The result is sorted by that name.
    Modules whose names begin with _ are helpers that are imported where they are used.
    """
    found: dict[str, type[Base]] = {}
    for kind in _classes(package, base):
        name: str = vars(kind)["name"]
        if name in found:
            raise ValueError(f"{kind.__module__} and {found[name].__module__} both define {name!r}: rename one")
        found[name] = kind
    return dict(sorted(found.items()))


def listing(family: str) -> str:
    """The members of a "package:base class" as users write them, such as "gbs, ntd, rsv"."""
    package, _, base = family.partition(":")
    module, _, name = base.rpartition(".")
    found = members(package, getattr(importlib.import_module(module), name))
    return ", ".join(text for key, kind in found.items() if (text := getattr(kind, "written", key)))


def member(package: str, base: type[Base], name: str) -> type[Base] | None:
    """The member of that name, or None. Files are imported until it is found, one of that name first."""
    for kind in _classes(package, base, first=name):
        if vars(kind)["name"] == name:
            return kind
    return None


def find(family: str, registry: Mapping[str, Found], name: str) -> Found:
    """What a registry of samplers, trainers or networks has under a name."""
    if name not in registry:
        known = f"{family} should be one of {', '.join(sorted(registry))}, but got {name!r}{meant(name, registry)}"
        raise ValueError(f"{known} (one of your own needs its plugin: docs/methods.md)")
    return registry[name]


def import_extra(library: str, extra: str) -> Any:
    """Import a library that an extra of the package installs; a `DataError` says how to install it."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        told = f"{library} cannot be imported ({error})"
        raise DataError(f"{told}: pip install 'puridiver[{extra}]'") from error


def _classes(package: str, base: type[Base], first: str = "") -> Iterator[type[Base]]:
    """The members of a family, file by file; each file is imported when its turn comes."""
    files = pkgutil.iter_modules(importlib.import_module(package).__path__)
    for file in sorted(files, key=lambda file: file.name != first):
        if file.name.startswith("_"):
            continue
        module = importlib.import_module(f"{package}.{file.name}")
        for kind in tuple(vars(module).values()):
            own = isinstance(kind, type) and kind.__module__ == module.__name__ and issubclass(kind, base)
            if own and "name" in vars(kind) and not inspect.isabstract(kind):
                yield kind
