"""What an audit found: a judgement of every label, and how many are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from puridiver.auditing.evidence import Evidence
from puridiver.auditing.noise_model import UNKNOWN, fit_noise_model
from puridiver.auditing.rates import Rate, estimate_rates
from puridiver.auditing.settings import AuditSettings
from puridiver.auditing.words import why, why_checked
from puridiver.learner.inputs import Label

# Below it, wrong labels and weak learners can hardly be told apart: on 2,000 photographs of CIFAR-10, where the
# learners agree with about a fifth of the labels, the noise rate comes out far too high. With ten equal classes it is
# an agreement of 45 %, with two of 70 %.
LEAST_BEYOND_CHANCE = 0.39
# No probability is nearer to 0 or 1: what no checked label could ever bear out is not claimed. The order stays.
LEAST_DOUBT = 0.001


@dataclass(frozen=True)
class Judgement:
    """What the audit says of one label."""

    row: int  # of the set, from 0
    name: str  # the sample's own name or path; empty where it has none
    given_label: Label
    suggested_label: Label
    p_correct: float  # probability that the given label is right
    why: str
    checked: bool = False  # a person has looked: the label is not doubted any more


@dataclass(frozen=True, repr=False)
class AuditReport:
    """Every judgement as arrays, in the order of the set; `suspects()` and `judgements()` give them as rows."""

    classes: list[Label]
    given: np.ndarray  # int64 (N,): class ids; where a person corrected a label, the corrected one
    original: np.ndarray  # int64 (N,): class ids as they came
    checked: np.ndarray  # bool (N,)
    p_correct: np.ndarray  # float64 (N,): probability that the given label is right; 1 where checked
    suggested: np.ndarray  # int64 (N,): the likeliest class given the label too; of suspects, the likeliest other one
    probabilities: np.ndarray  # float64 (N, C): of the classes from the image alone
    noise: Rate  # share of wrong labels among those that nobody has checked
    noise_by_class: list[Rate]  # by given label
    confusion: np.ndarray  # float64 (C, C): how often class c (row) came labelled y (column)
    evidence: Evidence = field(repr=False)
    settings: AuditSettings
    names: list[str] | None = None

    def __len__(self) -> int:
        return len(self.given)

    def __repr__(self) -> str:
        """The figures alone: arrays of every label would fill the screen."""
        suspects, checked = len(self.suspect_rows()), int(self.checked.sum())
        wrong = f"about {self.noise.rate:.1%} wrong ({self.noise.low:.1%} to {self.noise.high:.1%})"
        return (
            f"<AuditReport: {len(self)} labels of {len(self.classes)} classes, {suspects} suspects, {wrong}, "
            f"{checked} checked>"
        )

    @property
    def agreement(self) -> float:
        """The share of labels, as they came, that are also the likeliest class from the image alone.

        Corrected labels would raise it without the learners having become any better.
        """
        return float((self.probabilities.argmax(axis=1) == self.original).mean())

    @property
    def chance_agreement(self) -> float:
        """What `agreement` would be if the learners named the classes as often as they do, but blindly."""
        labels = np.bincount(self.original, minlength=len(self.classes))
        answers = np.bincount(self.probabilities.argmax(axis=1), minlength=len(self.classes))
        return float(labels @ answers) / len(self) ** 2

    @property
    def beyond_chance(self) -> float:
        """How much of the way from chance to full agreement the learners have come (Cohen's kappa): 1 is all of it.

        Two classes agree in half of the labels by chance, and where one class has nearly all, in nearly all of them.
        """
        chance = self.chance_agreement
        return (self.agreement - chance) / (1 - chance) if chance < 1 else 0.0

    @property
    def caution(self) -> str | None:
        """A word where the figures should be read with care, or None."""
        if self.beyond_chance >= LEAST_BEYOND_CHANCE:
            return None
        return (
            f"the learners agree with {self.agreement:.0%} of the labels, and chance alone would give "
            f"{self.chance_agreement:.0%}: either very many labels are wrong, or the images are too hard for this "
            "network. Do not rely on the noise rate (mostly it is too high then, and too low where learners name one "
            "class alone), and take the order of the list for the better guide; more training (such as --epochs 127), "
            "more images or a larger network help"
        )

    def ranking(self) -> np.ndarray:
        """Rows of the set, the most doubtful label first."""
        return np.lexsort((np.arange(len(self)), self.p_correct))

    def suspect_rows(self) -> np.ndarray:
        """Rows whose label is more probably wrong than right, the most doubtful first."""
        ranked = self.ranking()
        return ranked[self.p_correct[ranked] < 0.5]

    def suspects(self) -> list[Judgement]:
        """The labels that are more probably wrong than right, the most doubtful first."""
        return list(self.judgements(self.suspect_rows()))

    def judgements(self, rows: np.ndarray | None = None) -> Iterator[Judgement]:
        """What the audit says of these rows, by default all in the order of the set."""
        agreeing, asked = self.evidence.agreeing(self.suggested)
        for row in (np.arange(len(self)) if rows is None else rows).tolist():
            yield self._judgement(row, int(agreeing[row]), int(asked[row]))

    def _judgement(self, row: int, agreeing: int, asked: int) -> Judgement:
        given, suggested = int(self.given[row]), int(self.suggested[row])
        votes, p = self.evidence.votes[row], float(self.p_correct[row])
        label, better = self.classes[given], self.classes[suggested]
        if self.checked[row]:
            reason = why_checked(self.classes[int(self.original[row])], label)
        else:
            joint = self.probabilities[row] * self.confusion[:, given]
            leads, confused = bool(joint[suggested] > joint[given]), float(self.confusion[suggested, given])
            reason = why(label, better, p, leads, agreeing, asked, votes[given], votes[suggested], confused)
        name = self.names[row] if self.names else ""
        return Judgement(row, name, label, better, p, reason, bool(self.checked[row]))


def judge(
    evidence: Evidence, given: np.ndarray, classes: list[Label], settings: AuditSettings,
    original: np.ndarray | None = None, checked: np.ndarray | None = None, names: list[str] | None = None,
) -> AuditReport:  # fmt: skip
    """Weigh the evidence: a noise model of the labels as they came, which is told those that a person has checked."""
    original = given if original is None else original
    checked = np.zeros(len(given), dtype=bool) if checked is None else checked
    truth = np.where(checked, given, UNKNOWN)
    scores = evidence.scores()
    model = fit_noise_model(scores, original, truth)
    posterior = model.posterior(scores, given)
    noise, by_class = estimate_rates(evidence, original, model, truth, settings.seed)
    p_correct = posterior[np.arange(len(given)), given]
    return AuditReport(
        classes=classes,
        given=given,
        original=original,
        checked=checked,
        p_correct=np.where(checked, 1.0, LEAST_DOUBT + (1 - 2 * LEAST_DOUBT) * p_correct),
        suggested=np.where(checked, given, suggestions(posterior, given)),
        probabilities=model.class_probabilities(scores),
        noise=noise,
        noise_by_class=by_class,
        confusion=model.confusion,
        evidence=evidence,
        settings=settings,
        names=names,
    )


def suggestions(posterior: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The likeliest class of each sample, (N,); where the given label is probably wrong, another one than this."""
    rows, others = np.arange(len(given)), posterior.copy()
    doubted = posterior[rows, given] < 0.5
    others[rows[doubted], given[doubted]] = -1
    return others.argmax(axis=1)
