"""What a learner thinks of the labels in its memory: the rows of `Learner.audit`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from puridiver.learner.inputs import Label, SourceId
from puridiver.memory import Samples
from puridiver.trainers import SET_NAMES, Split


@dataclass(frozen=True)
class AuditRow:
    """The learner's opinion of the label of one memory sample.

    `p_correct` comes from two groups of losses, which Eq. 4 finds even where all labels are right: the half with the
    larger losses then has small values. `puridiver.audit` covers a whole set and estimates probabilities.
    """

    arrival: int  # the sample was the arrival-th of the stream, from 0
    given_label: Label
    p_correct: float  # Eq. 4's posterior of a small loss: it ranks labels, and is no measured probability (see above)
    suggested_label: Label
    set: str  # "clean", "relabel" or "unlabelled"
    checked: bool = False  # by a person (`Learner.correct`): not doubted any more
    id: SourceId | None = None  # that the caller gave it (`Learner.observe`)


def audit_rows(samples: Samples, split: Split, classes: Sequence[Label], ids: Mapping[int, SourceId]) -> list[AuditRow]:
    """A row for each sample of a divided memory: first those with another suggested label, each by `p_correct`."""
    suggested = split.suggested(samples.labels)
    columns = (samples.arrivals, samples.labels, split.p_clean, suggested, split.codes(), samples.checked)
    rows = [
        AuditRow(arrival, classes[given], p, classes[better], SET_NAMES[code], checked, ids.get(arrival))
        for arrival, given, p, better, code, checked in zip(*(c.tolist() for c in columns), strict=True)
    ]
    return sorted(rows, key=lambda row: (row.suggested_label == row.given_label, row.p_correct, row.arrival))
