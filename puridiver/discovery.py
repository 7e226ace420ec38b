"""Finds the members of a family (samplers, trainers, noises, figures, ...) by listing its folder."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from typing import TypeVar

Base = TypeVar("Base")
Found = TypeVar("Found")


def members(package: str, base: type[Base]) -> dict[str, type[Base]]:
    """Import every module of a package's folder and return the named classes there that derive from `base`.

    A class belongs to the family if it is concrete and its own body sets `name`. The result is sorted by that name.
    Modules whose names begin with _ are helpers that are imported where they are used.
    """
    found: dict[str, type[Base]] = {}
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        for kind in [] if info.name.startswith("_") else _classes(f"{package}.{info.name}", base):
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
    """The member of that name, or None. Where a file has the name, only this file is imported."""
    path = f"{package}.{name}"
    if name.isidentifier() and (path in sys.modules or importlib.util.find_spec(path) is not None):
        for kind in _classes(path, base):
            if vars(kind)["name"] == name:
                return kind
    return members(package, base).get(name)


def find(family: str, registry: Mapping[str, Found], name: str) -> Found:
    """What a registry of samplers, trainers or networks has under a name."""
    if name not in registry:
        known = f"{family} should be one of {', '.join(sorted(registry))}, but got {name!r}"
        raise ValueError(f"{known} (one of your own needs its plugin: docs/methods.md)")
    return registry[name]


def _classes(path: str, base: type[Base]) -> list[type[Base]]:
    module = importlib.import_module(path)
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == path]
    return [kind for kind in kinds if issubclass(kind, base) and "name" in vars(kind) and not inspect.isabstract(kind)]
