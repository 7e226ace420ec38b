"""Shared by the experiment trackers: which figures of an event they log, and at which step.

A tracker is a module with a context manager `log(place, facts)`, which gives a listener of a run's events. Its
`facts` describe the run: `Experiment.facts()`.
"""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Facts = dict[str, Any]
Event = dict[str, Any]
Listener = Callable[[Event], None]

# The kinds of events that are figures, and what places them: samples seen, or the number of the epoch in the run.
STEPS = {"anytime": ("stream", "seen"), "task": ("task", "seen"), "epoch": ("memory epoch", "number")}
PLACES = ("event", "task", "seen", "epoch", "number")  # where an event stands, and not what it measures


def tracker(name: str, place: str, facts: Facts) -> AbstractContextManager[Listener]:
    """The tracker of this name; `place` is TensorBoard's folder, MLflow's experiment or W&B's project."""
    log: Callable[[str, Facts], AbstractContextManager[Listener]]
    log = importlib.import_module(f"puridiver.integrations.{name}").log
    return log(place, facts)


def name_of(facts: Facts) -> str:
    """What a tracker calls a run."""
    return f"{facts['title']}, {facts['column']}, seed {facts['seed']}"


def figures_of(event: Event) -> tuple[dict[str, float], int]:
    """The figures of an event, such as "task/accuracy", and their step. Kinds outside STEPS, for reports, have none."""
    group, step = STEPS.get(event["event"], ("", ""))
    numbers = event.items() if group else ()
    found = {f"{group}/{k}": v for k, v in numbers if k not in PLACES and isinstance(v, int | float)}
    return found, event.get(step, 0)
