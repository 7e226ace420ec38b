"""Events of a run as TensorBoard scalars, written while it runs."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from puridiver.discovery import import_extra
from puridiver.errors import DataError
from puridiver.integrations.tracking import Event, Facts, Listener, figures_of


@contextlib.contextmanager
def log(place: str, facts: Facts) -> Iterator[Listener]:
    """A listener that writes scalars to a folder, and once what the run is."""
    writers, folder = import_extra("torch.utils.tensorboard", "tensorboard"), Path(place)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for TensorBoard")
    with writers.SummaryWriter(str(folder)) as writer:
        writer.add_text("run", "\n".join(f"    {name}: {json.dumps(value)}" for name, value in facts.items()))

        def write(event: Event) -> None:
            figures, step = figures_of(event)
            for name, value in figures.items():
                writer.add_scalar(name, value, step)

        yield write
