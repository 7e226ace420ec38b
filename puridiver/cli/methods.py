"""`puridiver methods`: every sampler, trainer, recipe and option, for people and for programs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from puridiver.cli.common import add_command, add_plugin_option, console

EXAMPLES = """\
examples:
  puridiver methods                 samplers, trainers, recipes and networks
  puridiver methods --options       every option and its value in each recipe
  puridiver methods --json          the same for programs
  puridiver methods --plugin mine.py --check    does my own sampler, trainer or network behave?
"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "methods",
        "list samplers, trainers, recipes and options",
        EXAMPLES,
    )
    parser.add_argument("--options", action="store_true", help="show every option and its value in each recipe")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_plugin_option(parser)
    parser.add_argument(
        "--check", action="store_true", help="try the methods and networks of plugins, and say what is wrong with them"
    )
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    if args.check:
        return _check()
    if args.json:
        sys.stdout.write(json.dumps(listing(), indent=1) + "\n")
    elif args.options:
        _print_options()
    else:
        _print_methods()
    return 0


def _check() -> int:
    """Try every method and network of the plugins; 1 if any has a fault."""
    from puridiver.method_check import find_faults
    from puridiver.options import class_options
    from puridiver.plugins import FAMILIES, is_own, load_all, unregistered

    load_all()
    found = [(family, name) for family, (_, members) in FAMILIES.items() for name in members]
    found = [(family, name) for family, name in found if not is_own(FAMILIES[family][1][name])]
    if not found:
        raise ValueError("--check needs a plugin: say --plugin FILE")
    faulty = False
    for family, name in found:
        faults = find_faults(family, name)
        faulty |= bool(faults)
        for text in faults or ["no fault found"]:
            print(f"{family} {name}: {text}")
        for note in _notes_on(name) if family == "trainer" and not faults else ():
            print(f"{family} {name}: note: {note}")
        if options := class_options(FAMILIES[family][1][name]):
            told = ", ".join(f"{option}={each.default}" for option, each in options.items())
            print(f"{family} {name}: options {told}")
    for family, kind in unregistered():
        print(f"{kind.__name__}: looks like a {family}, but cannot be chosen: put @puridiver.register before its class")
    return int(faulty)


def _notes_on(trainer: str) -> Iterator[str]:
    """What its author should know of a trainer without faults."""
    from puridiver.method_check import EPOCHS, idle_networks

    if idle := idle_networks(trainer):
        named = " and ".join(f"self.trainees[{k}]" for k in idle)
        yield (
            f"{EPOCHS} epochs on the memory left the weights of {named} as they were; if memory_epoch is to train, "
            "self.plain_epoch(memory) does so, or self.step(network, loss) (docs/METHODS.md)"
        )


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
                "help": option.help,
                "type": type(option.default).__name__,
                "default": option.default,
                "choices": list(option.allowed()),
                "methods": owners(name),  # empty: every method has it
            }
            for name, option in declared().items()
        },
    }


def _print_methods() -> None:
    from rich.table import Table

    found = listing()
    table = Table(show_header=True, header_style="bold")
    for heading in ("family", "name", "what it does"):
        table.add_column(heading)
    for family in ("sampler", "trainer", "network", "recipe"):
        for name, summary in found[f"{family}s"].items():
            table.add_row(family, name, summary if isinstance(summary, str) else summary["summary"])
        table.add_section()
    console().print(table, highlight=False)


def _print_options() -> None:
    import textwrap

    from puridiver.options import SUITS_TINY_IMAGES, TINY_IMAGE

    found = listing()
    for name, option in found["options"].items():
        print(name)
        print(textwrap.fill(option["help"], 78, initial_indent="    ", subsequent_indent="    "))
        if option["choices"]:
            print(f"    choices: {', '.join(option['choices'])}")
        if option["methods"]:
            print(f"    only for {', '.join(option['methods'])}")
        for recipe, content in found["recipes"].items():
            print(f"      {recipe:<10} {content['options'][name]}")
        if name in SUITS_TINY_IMAGES:
            print(f"      images under {TINY_IMAGE} px, whatever the recipe: {SUITS_TINY_IMAGES[name]}")
