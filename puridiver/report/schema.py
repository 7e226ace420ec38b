"""What a report reads of a run folder. Every file is checked against these types as it is read."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict

from puridiver.errors import DataError
from puridiver.files import read_regular
from puridiver.metrics import METRICS

T = TypeVar("T")
Whole = Annotated[int, Field(ge=0, lt=2**63)]
Figure = Annotated[float, Field(strict=True, allow_inf_nan=False)] | None  # null where it is not known


class Checked(TypedDict):
    """A JSON object: exact types, finite numbers, further fields allowed."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)  # type: ignore[misc]


class Summary(Checked):
    """summary.json: the run's row of a ledger. Its metrics are checked by `read_summary`."""

    method: str
    column: str
    seed: Whole
    data: str
    stream: str
    stream_hash: str
    stream_noise: Figure
    sampler: str
    trainer: str
    recipe: str
    memory: Whole
    network: str
    epochs: Whole
    evaluated_on: str
    shortened: bool
    last_accuracy: float
    task_accuracy: list[float]
    memory_size: Whole
    phase_seconds: dict[str, float]
    command: str
    versions: dict[str, str]
    started: str
    device: NotRequired[str]
    commit: NotRequired[str | None]


class Config(Checked):
    """config.json: what the run was told, and what it made of it."""

    config: dict[str, Any]
    resolved: dict[str, Any]


class Manifest(Checked):
    """The part of manifest.json that every figure needs."""

    class_names: list[str]


class Event(Checked):
    """A line of metrics.jsonl."""

    event: str


class Point(Event):
    """An evaluation during a task."""

    task: Whole
    seen: Whole
    accuracy: float
    memory_purity: NotRequired[Figure]
    memory_diversity: NotRequired[Figure]
    alpha: NotRequired[Figure]


class Task(Point):
    """The end of a task; the lists have one entry a class."""

    confusion: list[list[Whole]]
    memory_per_class: list[Whole]
    memory_per_true_class: list[Whole] | None
    stream_per_class: list[Whole]
    stream_per_true_class: list[Whole] | None


class Mixture(Checked):
    """A mixture of two Gaussians, fitted to values that were shifted by `offset` and divided by `span`."""

    weights: list[float]
    means: list[float]
    variances: list[float]
    offset: float
    span: float


class Split(Event):
    """How the memory is divided at the end of a task; the lists have one entry a sample."""

    task: Whole
    losses: list[Figure]
    uncertainties: list[Figure]
    sets: list[Whole]
    right: list[Whole | None]
    guess_right: list[Whole | None]
    loss_mixture: Mixture
    uncertainty_mixture: Mixture


EVENTS: dict[str, type] = {"anytime": Point, "task": Task, "split": Split}


def read_json(path: Path, kind: type[T]) -> T:
    """A JSON file of a kind; a `DataError` names the file and the field that is wrong."""
    return _checked(str(path), _parsed(str(path), read_regular(path)), kind)


def read_summary(path: Path) -> dict[str, Any]:
    """A summary.json, its metrics checked, too."""
    found: Any = read_json(path, Summary)
    return {**found, **_checked(str(path), {name: found.get(name) for name in METRICS}, dict[str, Figure])}


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of metrics.jsonl, each checked by its kind."""
    found: list[dict[str, Any]] = []
    for number, line in enumerate(read_regular(path).split(b"\n"), start=1):
        if line.strip():
            place = f"{path}, line {number},"
            event: Any = _checked(place, _parsed(place, line), Event)
            found.append(_checked(place, event, EVENTS.get(event["event"], Event)))
    return found


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _parsed(place: str, content: bytes) -> Any:
    try:
        return from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise DataError(f"{place} is damaged: {error}") from error


def _checked(place: str, value: Any, kind: type[T]) -> T:
    try:
        found: T = _adapter(kind).validate_python(value)
        return found
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"])) or "its content"
        raise DataError(f"{place} is damaged: {field}: {first['msg']}, but is {first['input']!r:.60}") from None
