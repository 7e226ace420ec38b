"""`puridiver methods`: everything there is to choose from, for people and for programs."""

from typing import Annotated, Any

from puridiver.cli.flags import Json, Opt, Plugins
from puridiver.cli.output import say, say_json, say_table
from puridiver.learner.method_check import find_fault
from puridiver.options import declared, owners
from puridiver.plugins import FAMILIES, is_own, load_all
from puridiver.recipes import DESCRIPTIONS, RECIPES, recipe


def methods(
    options: Annotated[bool, Opt("show every option and its value in each recipe", name="--options")] = False,
    check: Annotated[bool, Opt("try methods and networks of plugins and name the first fault", name="--check")] = False,
    json: Json = False,
    plugins: Plugins = None,
) -> int:
    """List samplers, trainers, networks, recipes and options.

    Examples:
      puridiver methods                             what --sampler, --trainer, --network and --recipe take
      puridiver methods --options                   what --set takes, and its value in each recipe
      puridiver methods --plugin mine.py --check    does my own sampler, trainer or network behave?
    """
    if check:
        return _check()
    found = listing()
    if json:
        say_json(found)
    elif options:
        for name, option in found["options"].items():
            only = f" (only for {', '.join(option['methods'])})" if option["methods"] else ""
            choices = f"; one of {', '.join(option['choices'])}" if option["choices"] else ""
            values = [f"{recipe}: {told['options'][name]}" for recipe, told in found["recipes"].items()]
            say(f"{name}{only}\n    {option['help']}{choices}\n    {', '.join(values)}")
        say("\n[row N]: the row of docs/fidelity.md on which the paper and its released program differ")
    else:
        for family in ("samplers", "trainers", "networks", "recipes"):
            rows = [(name, each["summary"]) for name, each in found[family].items()]
            say_table(rows, ("name", "what it does"), family)
    return 0


def listing() -> dict[str, dict[str, dict[str, Any]]]:
    """Everything there is to choose from, by short name."""
    load_all()
    found: dict[str, dict[str, dict[str, Any]]] = {
        f"{family}s": {name: {"title": kind.title, "summary": kind.summary} for name, kind in kinds.items()}
        for family, (_, kinds) in FAMILIES.items()
    }
    found["recipes"] = {name: {"summary": DESCRIPTIONS[name], "options": dict(recipe(name))} for name in RECIPES}
    found["options"] = {
        name: {"help": option.help, "default": option.default, "choices": [*option.allowed()], "methods": owners(name)}
        for name, option in declared().items()
    }
    return found


def _check() -> int:
    """Try every method and network of the plugins; 1 if any has a fault."""
    load_all()
    every = ((family, name, kind) for family, (_, kinds) in FAMILIES.items() for name, kind in kinds.items())
    found = {f"{family} {name}": find_fault(family, name) for family, name, kind in every if not is_own(kind)}
    if not found:
        raise ValueError("--check needs a plugin: say --plugin FILE")
    for method, fault in found.items():
        say(f"{method}: {fault or 'no fault found'}")
    return int(any(found.values()))
