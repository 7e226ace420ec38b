"""Events of a run as metrics of an MLflow run; $MLFLOW_TRACKING_URI says where they go."""

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any

from puridiver.discovery import import_extra
from puridiver.errors import DataError, first_line
from puridiver.integrations.tracking import Event, Facts, Listener, figures_of, name_of

logger = logging.getLogger(__name__)

LONGEST = 6_000  # letters of a parameter that MLflow takes


@contextlib.contextmanager
def log(place: str, facts: Facts) -> Iterator[Listener]:
    """A listener that logs to a new run of an experiment, with the run's facts as parameters."""
    mlflow, entities = import_extra("mlflow", "mlflow"), import_extra("mlflow.entities", "mlflow")
    try:
        client = mlflow.MlflowClient()
        run = _begin(client, place, facts)
    except mlflow.MlflowException as error:
        raise DataError(f"MLflow cannot be reached (is $MLFLOW_TRACKING_URI right?): {first_line(error)}") from error
    figures_lost = False

    def write(event: Event) -> None:
        nonlocal figures_lost
        (figures, step), now = figures_of(event), int(time.time() * 1000)
        try:
            client.log_batch(run, metrics=[entities.Metric(key, value, now, step) for key, value in figures.items()])
        except mlflow.MlflowException as error:  # a server that fails must not end hours of work
            if not figures_lost:
                logger.warning("MLflow lacks some figures, the run goes on: %s", first_line(error))
            figures_lost = True

    status = "FAILED"
    try:
        yield write
        status = "FINISHED"
    finally:
        with contextlib.suppress(mlflow.MlflowException):
            client.set_terminated(run, status)


def _begin(client: Any, experiment: str, facts: Facts) -> str:
    """Begin a run and log its parameters; returns its id."""
    known = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if known is None else known.experiment_id
    run: str = client.create_run(place, run_name=name_of(facts), tags={"puridiver_id": facts["id"]}).info.run_id
    for key, value in facts.items():
        client.log_param(run, key, (value if isinstance(value, str) else json.dumps(value))[:LONGEST])
    return run
