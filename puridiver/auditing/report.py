"""What an audit found: a judgement of every label, and how many are wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import cohen_kappa_score

from puridiver.auditing.noise_model import Evidence, Rate, combine, estimate_rates, fit_noise_model, sharpened
from puridiver.auditing.passes import AuditSettings, LabelledSet, Predictions
from puridiver.data.base import UNKNOWN
from puridiver.learner.inputs import Label

# Below it, wrong labels and weak learners can hardly be told apart: on 2,000 photographs of CIFAR-10 the learners
# agree with a fifth of the labels, and the estimated rate is far too high. It is an agreement of 45 % with ten equal
# classes, and of 70 % with two.
LEAST_KAPPA = 0.39
LEAST_DOUBT = 0.001  # no probability is nearer to 0 or 1: no checked label could confirm more


class Judgement(NamedTuple):
    """The audit's judgement of one label."""

    row: int  # of the set, from 0
    name: str  # the sample's own name or path; empty where it has none
    given_label: Label
    suggested_label: Label
    p_correct: float  # probability that the given label is right
    why: str


@dataclass(frozen=True, repr=False)
class AuditReport:
    """Every judgement as arrays, in the order of the set; `suspects()` and `judgements()` give them as rows."""

    classes: list[Label]
    given: np.ndarray  # int64 (N,): class ids; where a person corrected a label, the corrected one
    original: np.ndarray  # int64 (N,): class ids as they came
    checked: np.ndarray  # bool (N,)
    p_correct: np.ndarray  # float64 (N,): probability that the given label is right; 1 where checked
    suggested: np.ndarray  # int64 (N,): the likeliest class; of suspects, the likeliest other one
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
        counts = f"{len(self)} labels, {len(self.suspect_rows())} suspects, {self.checked.sum()} checked"
        return f"<AuditReport: {counts}, {self.noise.rate:.1%} wrong ({self.noise.low:.1%} to {self.noise.high:.1%})>"

    @property
    def agreement(self) -> float:
        """The share of labels, as they came, that are also the likeliest class from the image alone."""
        return float((self.probabilities.argmax(axis=1) == self.original).mean())

    @property
    def kappa(self) -> float:
        """Cohen's kappa of labels and learners: 0 is chance, 1 full agreement."""
        answers = self.probabilities.argmax(axis=1)
        return float(cohen_kappa_score(self.original, answers)) if len({*self.original, *answers}) > 1 else 0.0

    @property
    def caution(self) -> str | None:
        """A warning where the figures are not reliable, or None."""
        if self.kappa >= LEAST_KAPPA:
            return None
        return (
            f"the learners agree with {self.agreement:.0%} of the labels (Cohen's kappa {self.kappa:.2f}): very many "
            "labels are wrong, or the images are too hard for this network. Do not rely on the noise rate, but on the "
            "order of the list. More epochs (such as 127), more images or a larger network help"
        )

    def summary(self) -> dict[str, Any]:
        """The figures, for programs."""
        by_class = {
            str(label): {"rate": found.rate, "interval": [found.low, found.high], "labels": found.count}
            for label, found in zip(self.classes, self.noise_by_class, strict=True)
        }
        return {
            "samples": len(self), "classes": len(self.classes), "checked": int(self.checked.sum()),
            "suspects": len(self.suspect_rows()), "agreement": self.agreement, "kappa": self.kappa,
            "noise_rate": self.noise.rate, "noise_interval": [self.noise.low, self.noise.high],
            "caution": self.caution, "noise_by_class": by_class, "settings": asdict(self.settings),
        }  # fmt: skip

    def ranking(self) -> np.ndarray:
        """Rows of the set, the most doubtful label first."""
        return np.argsort(self.p_correct, kind="stable")

    def suspect_rows(self) -> np.ndarray:
        """Rows whose label is more likely wrong than right, the most doubtful first."""
        ranked = self.ranking()
        return ranked[self.p_correct[ranked] < 0.5]

    def suspects(self) -> list[Judgement]:
        """The labels that are more likely wrong than right, the most doubtful first."""
        return list(self.judgements(self.suspect_rows()))

    def judgements(self, rows: np.ndarray | None = None) -> Iterator[Judgement]:
        """What the audit says of these rows, by default of all in the order of the set."""
        for row in (np.arange(len(self)) if rows is None else rows).tolist():
            label, better = self.classes[self.given[row]], self.classes[self.suggested[row]]
            name = self.names[row] if self.names else ""
            yield Judgement(row, name, label, better, float(self.p_correct[row]), self._why(row))

    def _why(self, row: int) -> str:
        """The evidence for and against a label, in words."""
        given, suggested = self.given[row], self.suggested[row]
        label, better, was = (self.classes[c] for c in (given, suggested, self.original[row]))
        if self.checked[row]:
            return f"checked: confirmed as {label}" if was == label else f"checked: corrected from {was} to {label}"
        asked = self.evidence.weights[:, row] > 0
        agreeing = int((self.evidence.choices[asked, row] == suggested).sum())
        vote_given, vote_suggested = self.evidence.votes[row, [given, suggested]]
        found = f"{agreeing} of {asked.sum()} learners predict {better}"
        if suggested == given:
            opening = "the label fits" if self.p_correct[row] >= 0.9 else "the label fits best, with some doubt"
            return f"{opening}: {found}, {vote_given:.0%} of similar images are labelled {label}"
        opening = "looks like" if agreeing and self.p_correct[row] < 0.5 else "may be"
        neighbours = f"{vote_suggested:.0%} of similar images are labelled {better}, {vote_given:.0%} {label}"
        return f"{opening} {better}: {found}, {neighbours}"


def judge(predictions: Sequence[Predictions], labelled: LabelledSet, settings: AuditSettings) -> AuditReport:
    """Fit a noise model to the labels as they came, knowing those that a person has checked, and judge every label."""
    evidence, given, checked = combine(predictions), labelled.given, labelled.checked
    scores = evidence.scores()
    truth = np.where(checked, given, UNKNOWN)
    model = fit_noise_model(scores, labelled.original, truth)
    posterior = model.posterior(scores, given)
    noise, *by_class = estimate_rates(evidence, labelled.original, model, truth, settings.seed)
    p_correct = LEAST_DOUBT + (1 - 2 * LEAST_DOUBT) * posterior[np.arange(len(given)), given]
    return AuditReport(
        labelled.classes, given, labelled.original, checked, p_correct=np.where(checked, 1.0, p_correct),
        suggested=np.where(checked, given, suggestions(posterior, given)),
        probabilities=sharpened(scores, model.sharpness), noise=noise, noise_by_class=by_class,
        confusion=model.confusion, evidence=evidence, settings=settings, names=labelled.names,
    )  # fmt: skip


def suggestions(posterior: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The likeliest class of each sample, (N,); where the given label is probably wrong, another class."""
    rows, others = np.arange(len(given)), posterior.copy()
    doubted = posterior[rows, given] < 0.5
    others[rows[doubted], given[doubted]] = -1
    return others.argmax(axis=1)
