"""Options of a method's own: its class declares them, `own_options = {"q": 0.7}`, and a run sets `mygce.q`.

A name with a dot is one of them: the method's name, then the option's. Those of the package's recipes have none.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from puridiver.option import KINDS, Option

DOT = "."
NAME = re.compile(r"[a-z][a-z0-9_]*")

_declared: dict[tuple[str, str], dict[str, Option]] = {}  # by family and name: a sampler and a trainer may share one


def is_own_option(name: str) -> bool:
    return DOT in name


def declared(member: type) -> dict[str, Option]:
    """The options of a class by name; those of the classes that it is made of come first, unless it has them anew."""
    found: dict[str, Option] = {}
    for kind in reversed(member.__mro__):
        found |= _as_options(kind, vars(kind).get("own_options", {}))
    return found


def _as_options(kind: type, entries: Any) -> dict[str, Option]:
    if not isinstance(entries, Mapping):
        raise ValueError(
            f'{kind.__qualname__}: own_options should be defaults by name, such as {{"q": 0.7}}, but is {entries!r}'
        )
    return {name: _as_option(kind, name, entry) for name, entry in entries.items()}


def _as_option(kind: type, name: Any, entry: Any) -> Option:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"{kind.__qualname__}: an option's name should be of lower-case letters, digits and _, but got {name!r}"
        )
    option = entry if isinstance(entry, Option) else Option(entry)
    if type(option.default) not in KINDS:
        raise ValueError(
            f"{kind.__qualname__}: the default of {name} should be bool, int, float or str, which is then the type of "
            f"the option, but got {option.default!r}"
        )
    option.checked(name, option.default)
    return option


def announce(family: str, name: str, member: type) -> None:
    """Let the options of a method be known by its name: to those who parse them, and for errors."""
    _declared[family, name] = declared(member)


def options_by_method() -> dict[str, dict[str, Option]]:
    """Of every method or network that has options of its own."""
    found: dict[str, dict[str, Option]] = {}
    for (_, name), options in _declared.items():
        if options:
            found.setdefault(name, {}).update(options)
    return found


def check_known(names: Iterable[str]) -> None:
    """A ValueError where a method that is known has no such option, or no method of that name has any."""
    for name in names:
        if is_own_option(name):
            known(name)


def known(name: str) -> Option:
    """The declaration of `mygce.q`, or a ValueError that lists what there is."""
    method, _, option = name.partition(DOT)
    having = options_by_method()
    if method not in having:
        near = difflib.get_close_matches(method, having)
        has = f"did you mean {near[0]}?" if near else f"those that have are {', '.join(sorted(having)) or 'none'}"
        raise ValueError(
            f"there is no option {name!r}: no method or network {method!r} with options of its own is known; {has} "
            "(one of your own needs its plugin: docs/METHODS.md)"
        )
    if option not in having[method]:
        raise unknown_own(method, option, having[method])
    return having[method][option]


def unknown_own(method: str, option: str, options: Mapping[str, Option]) -> ValueError:
    has = ", ".join(f"{method}.{name} (default {each.default})" for name, each in options.items())
    return ValueError(f"there is no option {method + DOT + option!r}: the options of {method} are {has or 'none'}")


def meant_by(option: str) -> list[str]:
    """Full names of the methods' own options of this name: for whoever forgot the method."""
    return [f"{method}{DOT}{option}" for method, options in options_by_method().items() if option in options]


def values_of(member: type, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a class's own options, by their names: what was asked for (`mygce.q`), else the defaults."""
    options, name = declared(member), str(getattr(member, "name", ""))
    values = {option: each.default for option, each in options.items()}
    of_namesakes = options_by_method().get(name, {})  # a sampler and a trainer may share a name
    for full, value in asked.items():
        method, _, option = full.partition(DOT)
        if method == name and option in options:
            values[option] = options[option].checked(full, value)
        elif method == name and option not in of_namesakes:
            raise unknown_own(name, option, options)
    return values


def check_of_one(asked: Collection[str], methods: Sequence[str]) -> None:
    """A ValueError where an option is not there, or is one of none of these methods."""
    check_known(asked)
    for full in asked:
        if not reaches(full, methods):
            method = full.partition(DOT)[0]
            raise ValueError(
                f"{full} is an option of {method}, and this run has {', '.join(methods)}: leave the option out, or "
                f"choose {method}"
            )


def check_values(asked: Mapping[str, Any], methods: Sequence[str]) -> None:
    """`check_of_one`, and a ValueError where a value is not one that the option may have."""
    check_of_one(asked, methods)
    for full, value in asked.items():
        known(full).checked(full, value)


def reaches(option: str, methods: Iterable[str | None]) -> bool:
    """Whether an option is one of these methods', or one of a recipe."""
    return not is_own_option(option) or option.partition(DOT)[0] in methods
