"""puridiver: learn online from an image stream whose labels are partly wrong and whose classes drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puridiver._version import __version__

if TYPE_CHECKING:
    from puridiver.auditing.audit import audit
    from puridiver.auditing.passes import AuditSettings
    from puridiver.auditing.report import AuditReport
    from puridiver.data.images import image_batch
    from puridiver.errors import BusyError, ConsolidatingError, DataError, DivergedError, ManifestError, PuridiverError
    from puridiver.grid.run import run_grid
    from puridiver.learner.audit import AuditRow
    from puridiver.learner.edits import Corrected
    from puridiver.learner.learner import Learner
    from puridiver.learner.snapshot import Snapshot
    from puridiver.learner.verdicts import Observed
    from puridiver.memory import Sampler
    from puridiver.nets import Backbone, Head, Network
    from puridiver.options import Option, Options
    from puridiver.plugins import register
    from puridiver.recipes import recipe
    from puridiver.runs.config import RunConfig
    from puridiver.runs.experiment import Experiment
    from puridiver.streams.build import write_manifest
    from puridiver.trainers import LossTrainer, NoiseHint, Trainer

# Module: the public names that it defines.
_NAMES = {
    "puridiver.auditing.audit": "audit",
    "puridiver.auditing.passes": "AuditSettings",
    "puridiver.auditing.report": "AuditReport",
    "puridiver.data.images": "image_batch",
    "puridiver.errors": "BusyError ConsolidatingError DataError DivergedError ManifestError PuridiverError",
    "puridiver.grid.run": "run_grid",
    "puridiver.learner.audit": "AuditRow",
    "puridiver.learner.edits": "Corrected",
    "puridiver.learner.learner": "Learner",
    "puridiver.learner.snapshot": "Snapshot",
    "puridiver.learner.verdicts": "Observed",
    "puridiver.memory": "Sampler",
    "puridiver.nets": "Backbone Head Network",
    "puridiver.options": "Option Options",
    "puridiver.plugins": "register",
    "puridiver.recipes": "recipe",
    "puridiver.runs.config": "RunConfig",
    "puridiver.runs.experiment": "Experiment",
    "puridiver.streams.build": "write_manifest",
    "puridiver.trainers": "LossTrainer NoiseHint Trainer",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    """Public names load on first use, so that `puridiver --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'puridiver' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
