"""Events of a run in Weights & Biases; $WANDB_MODE=offline keeps them in files."""

import contextlib
from collections.abc import Iterator

from puridiver.discovery import import_extra
from puridiver.errors import DataError, first_line
from puridiver.integrations.tracking import STEPS, Event, Facts, Listener, figures_of, name_of


@contextlib.contextmanager
def log(place: str, facts: Facts) -> Iterator[Listener]:
    """A listener that logs to a new run of a project, with the run's facts as its config."""
    wandb = import_extra("wandb", "wandb")
    try:
        run = wandb.init(project=place, name=name_of(facts), config=facts, reinit="create_new")
    except wandb.Error as error:
        raise DataError(f"W&B cannot be reached (WANDB_MODE=offline writes files): {first_line(error)}") from error
    for group, step in STEPS.values():  # the stream and the memory's epochs have axes of their own
        run.define_metric(f"{group}/*", step_metric=f"{group}/{step}")

    def write(event: Event) -> None:
        figures, step = figures_of(event)
        if figures:
            group, axis = STEPS[event["event"]]
            run.log({**figures, f"{group}/{axis}": step})

    failed = 1
    try:
        yield write
        failed = 0
    finally:
        run.finish(exit_code=failed)
