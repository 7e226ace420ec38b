"""What requests bring as JSON and what the routes answer, as the OpenAPI description tells it."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from puridiver.service import bodies


class Problem(BaseModel):
    """What was wrong, what is allowed, what to do."""

    detail: str


class Logged(BaseModel):
    """A change is on disk: it will be applied, also after a crash."""

    seq: int = Field(description="its number in the log")


class Changed(Logged):
    """A change of samples that is logged."""

    count: int
    result: dict[str, Any] | None = Field(None, description="what became of it, if that is known in `wait` seconds")


class Arrived(Changed):
    """The batch's samples are arrivals `first` to `first + count - 1` of the stream."""

    first: int


class Correction(BaseModel):
    """The label that a person gives a sample; null undoes it. Name the sample by `arrival` or by your own `id`."""

    model_config = ConfigDict(extra="forbid")
    arrival: StrictInt | None = Field(None, ge=0, lt=2**63)
    id: bodies.Name | None = None
    label: bodies.Name | None
    image: str | None = Field(
        None, description="the image or .npy file as base64, in case that the memory has dropped it"
    )

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.arrival is None) == (self.id is None):
            raise ValueError("name the sample either by arrival or by id")
        return self


class Corrections(BaseModel):
    """Labels that a person has checked, also those found right."""

    model_config = ConfigDict(extra="forbid")
    corrections: list[Correction] = Field(min_length=1, max_length=bodies.MOST_IMAGES)


class Takedown(BaseModel):
    """Samples that the memory has to forget, by arrival or by your own ids."""

    model_config = ConfigDict(extra="forbid")
    arrivals: list[Annotated[StrictInt, Field(ge=0, lt=2**63)]] = Field([], max_length=bodies.MOST_IMAGES)
    ids: bodies.NAMES = Field([], max_length=bodies.MOST_IMAGES)


class Training(BaseModel):
    """How long to train; left out, as the service's policy or the learner's recipe says."""

    model_config = ConfigDict(extra="forbid")
    epochs: StrictInt | None = Field(None, ge=1, le=100_000)


class Trains(Logged):
    """A consolidation that is logged."""

    epochs: int


class Restored(Logged):
    """A rollback that is logged."""

    snapshot: str
    seen: int


class Predictions(BaseModel):
    """The most likely label of each image and its probability; all probabilities if asked for."""

    labels: list[int | str]
    p: list[float]
    classes: list[int | str] | None = None
    probabilities: list[list[float]] | None = None


class Doubt(BaseModel):
    """A memory sample whose label looks wrong."""

    arrival: int
    id: int | str | None
    given: int | str
    suggested: int | str
    p_right: float = Field(description="ranks labels; not a measured probability")
    image: str | None = Field(description="a PNG file as a data URL; none of vectors")


class SnapshotNote(BaseModel):
    """A state to roll back to."""

    id: str
    when: float
    seen: int
    consolidations: int
