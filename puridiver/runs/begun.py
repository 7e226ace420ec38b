"""What a run is begun with, as its `config.json` says: to know it again, to go on with it, to say what has changed."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from puridiver.errors import DataError
from puridiver.files import check_json
from puridiver.runs.config import Role, RunConfig

logger = logging.getLogger(__name__)

COMPARED = (Role.SOURCE, Role.STREAM, Role.IDENTITY, Role.MEASUREMENT)  # what a run must not change on its way
# What `check_json` should make of the fields below; text but for these.
KINDS: dict[str, Any] = {
    "config": {}, "resolved": {}, "versions": {}, "plugins": {}, "commit": (str, None),
}  # fmt: skip


class Begun(NamedTuple):
    """What `config.json` says: which run the folder holds and what it was begun with."""

    id: str
    config: RunConfig
    resolved: dict[str, Any]  # the defaults that were filled in
    stream: str  # these two as records name them: from another folder the paths would be others
    command: str
    stream_hash: str
    device: str
    precision: str
    versions: dict[str, Any]
    commit: str | None
    plugins: dict[str, Any]  # the code of single files, as loaded

    @classmethod
    def of_dict(cls, found: dict[str, Any], path: Path) -> Self:
        """Check what a file says; a `DataError` names the file and the field."""
        kinds = {name: KINDS.get(name, str) for name in cls._fields}
        values = check_json({name: found.get(name) for name in kinds}, kinds, str(path))
        try:
            RunConfig.of_dict(values["resolved"])  # the same fields, with the same types
            return cls(**{**values, "config": RunConfig.of_dict(values["config"])})
        except (ValueError, TypeError) as error:
            raise DataError(f"{path} is damaged: config: {error}") from error

    def continued(self, said: Mapping[str, Any], options: Mapping[str, Any]) -> RunConfig:
        """The config to go on with: this run's own, its defaults as they were filled in, and what the user says."""
        roles = (Role.IDENTITY,) if self.config.ready_made_stream else (Role.IDENTITY, Role.STREAM)
        own = {name: self.resolved.get(name) for name, value in self.config.values(*roles).items() if value is None}
        if "epochs" in options:
            own["epochs"] = None  # the field would hide the option
        return dataclasses.replace(self.config, **{**own, **said, "options": {**self.config.options, **options}})

    def check_same(self, other: Begun, path: Path) -> None:
        """Raise a `DataError` that names what differs if another run is to continue this one."""
        there, here = ({**run.config.values(*COMPARED), **run.resolved} for run in (self, other))
        there, here = ({**values, **values.pop("options", {})} for values in (there, here))
        names = [name for name in there | here if there.get(name) != here.get(name)]
        if self.id == other.id and not set(names) & self.config.values(Role.MEASUREMENT).keys():
            return
        if not names:
            raise DataError(f"{path} holds a run on another stream: data, noise matrix or plugin have changed since")
        told = "; ".join(f"{name} is {there.get(name)!r} there and {here.get(name)!r} here" for name in names)
        raise DataError(f"{path} holds a run with another config: {told}; --resume alone goes on with its own")

    def changes_since(self, before: Begun) -> dict[str, Any]:
        """A warning, and an entry for the summary, where a run goes on with other versions or on another machine."""
        names = [n for n in ("versions", "commit", "device", "precision") if getattr(self, n) != getattr(before, n)]
        if not names:
            return {}
        told = " and ".join(names)
        logger.warning("the run began with other %s: its figures may differ from those of one machine", told)
        return {"began_with": {name: getattr(before, name) for name in names}}
