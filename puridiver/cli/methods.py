"""`puridiver methods`: everything there is to choose from, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from puridiver.cli.flags import Json, Opt, Plugins
from puridiver.cli.output import say, say_json, say_table


def methods(
    options: Annotated[bool, Opt("show every option and its value in each recipe")] = False,
    check: Annotated[bool, Opt("try the methods and networks of plugins, and say what is wrong with them")] = False,
    json: Json = False,
    plugins: Plugins = None,
) -> int:
    """List samplers, trainers, networks, recipes and options.

    Examples:
      puridiver methods
          what --sampler, --trainer, --network and --recipe take
      puridiver methods --options
          what --set takes, and its value in each recipe
      puridiver methods --plugin mine.py --check
          does my own sampler, trainer or network behave?
    """
    if check:
        return _check()
    if json:
        say_json(listing())
    elif options:
        _print_options()
    else:
        found = listing()
        for family in ("samplers", "trainers", "networks", "recipes"):
            say_table(
                [(name, told if isinstance(told, str) else told["summary"]) for name, told in found[family].items()],
                ("name", "what it does"),
                family,
            )
    return 0


def listing() -> dict[str, Any]:
    """Everything there is to choose from, by short name."""
    from puridiver import plugins
    from puridiver.memory import SAMPLERS
    from puridiver.nets import NETWORKS
    from puridiver.options import DESCRIPTIONS, RECIPES, declared, owners, recipe
    from puridiver.trainers import TRAINERS

    plugins.load_all()
    return {
        "samplers": {name: member.summary for name, member in SAMPLERS.items()},
        "trainers": {name: member.summary for name, member in TRAINERS.items()},
        "networks": {name: member.summary for name, member in NETWORKS.items()},
        "recipes": {name: {"summary": DESCRIPTIONS[name], "options": dict(recipe(name))} for name in RECIPES},
        "options": {
            name: {
                "help": declaration.help,
                "type": type(declaration.default).__name__,
                "default": declaration.default,
                "choices": list(declaration.allowed()),
                "methods": owners(name),  # empty: every method has it
            }
            for name, declaration in declared().items()
        },
    }


def _print_options() -> None:
    import textwrap

    found = listing()
    for name, told in found["options"].items():
        choices = f"; one of {', '.join(told['choices'])}" if told["choices"] else ""
        only = f" (only for {', '.join(told['methods'])})" if told["methods"] else ""
        say(f"{name}{only}")
        say(textwrap.fill(f"{told['help']}{choices}", 100, initial_indent="    ", subsequent_indent="    "))
        values = {recipe: each["options"][name] for recipe, each in found["recipes"].items()}
        one = len(set(map(str, values.values()))) == 1
        shown = (
            f"{told['type']}, default {told['default']}" if one else ", ".join(f"{k} {v}" for k, v in values.items())
        )
        say(f"      {shown}")


def _check() -> int:
    """Try every method and network of the plugins; 1 if any has a fault."""
    from puridiver.method_check import find_faults
    from puridiver.plugins import FAMILIES, is_own, load_all, unregistered

    load_all()
    found = [(family, name, kind) for family, (_, members) in FAMILIES.items() for name, kind in members.items()]
    found = [(family, name, kind) for family, name, kind in found if not is_own(kind)]
    if not found:
        raise ValueError("--check needs a plugin: say --plugin FILE")
    faulty = False
    for family, name, _ in found:
        faults = find_faults(family, name)
        faulty |= bool(faults)
        for text in faults or ["no fault found"]:
            say(f"{family} {name}: {text}")
        for text in _remarks(name) if family == "trainer" and not faults else ():
            say(f"{family} {name}: note: {text}")
    for family, kind in unregistered():
        say(f"{kind.__name__}: looks like a {family}, but cannot be chosen: put @puridiver.register before its class")
    return int(faulty)


def _remarks(trainer: str) -> Iterator[str]:
    """What its author should know of a trainer without faults."""
    from puridiver.method_check import EPOCHS, idle_networks

    if idle := idle_networks(trainer):
        named = " and ".join(f"self.models[{k}]" for k in idle)
        yield (
            f"{EPOCHS} epochs on the memory did not change the weights of {named}; to train there, call "
            "self.plain_epoch(memory) or self.step(network, loss)"
        )
