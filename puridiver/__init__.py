"""puridiver: learn online from an image stream whose labels are partly wrong and whose classes drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puridiver._version import __version__

if TYPE_CHECKING:
    from puridiver.auditing.audit import audit
    from puridiver.auditing.report import AuditReport
    from puridiver.auditing.settings import AuditSettings
    from puridiver.data.pictures import image_batch
    from puridiver.errors import (
        BusyError,
        ConsolidatingError,
        DataError,
        DivergedError,
        ManifestError,
        PuridiverError,
    )
    from puridiver.grid.run import run_grid
    from puridiver.learner.learner import Learner
    from puridiver.learner.samples import AuditRow
    from puridiver.memory import Sampler
    from puridiver.nets import Head, Network
    from puridiver.options import Option, Options, recipe
    from puridiver.plugins import register
    from puridiver.report.frames import RunFrames, read_run
    from puridiver.runs.config import RunConfig
    from puridiver.runs.experiment import Experiment
    from puridiver.streams.custom import write_manifest
    from puridiver.trainers import LossTrainer, NoiseHint, Trainer

__all__ = [
    "AuditReport",
    "AuditRow",
    "AuditSettings",
    "BusyError",
    "ConsolidatingError",
    "DataError",
    "DivergedError",
    "Experiment",
    "Head",
    "Learner",
    "LossTrainer",
    "ManifestError",
    "Network",
    "NoiseHint",
    "Option",
    "Options",
    "PuridiverError",
    "RunConfig",
    "RunFrames",
    "Sampler",
    "Trainer",
    "__version__",
    "audit",
    "image_batch",
    "read_run",
    "recipe",
    "register",
    "run_grid",
    "write_manifest",
]

_HOMES = {
    "AuditReport": "puridiver.auditing.report",
    "AuditRow": "puridiver.learner.samples",
    "AuditSettings": "puridiver.auditing.settings",
    "BusyError": "puridiver.errors",
    "ConsolidatingError": "puridiver.errors",
    "DataError": "puridiver.errors",
    "DivergedError": "puridiver.errors",
    "Experiment": "puridiver.runs.experiment",
    "Head": "puridiver.nets",
    "Learner": "puridiver.learner.learner",
    "LossTrainer": "puridiver.trainers",
    "ManifestError": "puridiver.errors",
    "Network": "puridiver.nets",
    "NoiseHint": "puridiver.trainers",
    "Option": "puridiver.options",
    "Options": "puridiver.options",
    "PuridiverError": "puridiver.errors",
    "RunConfig": "puridiver.runs.config",
    "RunFrames": "puridiver.report.frames",
    "Sampler": "puridiver.memory",
    "Trainer": "puridiver.trainers",
    "audit": "puridiver.auditing.audit",
    "image_batch": "puridiver.data.pictures",
    "read_run": "puridiver.report.frames",
    "recipe": "puridiver.options",
    "register": "puridiver.plugins",
    "run_grid": "puridiver.grid.run",
    "write_manifest": "puridiver.streams.custom",
}


def __getattr__(name: str) -> Any:
    """Public names load on first use, so that `puridiver --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'puridiver' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
