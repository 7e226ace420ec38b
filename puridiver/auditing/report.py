"""What an audit found: a judgement of every label, and how many are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from puridiver.auditing.noise_model import UNKNOWN, Evidence, Rate, estimate_rates, fit_noise_model, sharpened
from puridiver.auditing.passes import AuditSettings, LabelledSet
from puridiver.learner.inputs import Label

# Below it, wrong labels and weak learners can hardly be told apart: on 2,000 photographs of CIFAR-10 the learners
# agree with a fifth of the labels, and the estimated rate is far too high. It is an agreement of 45 % with ten equal
# classes, and of 70 % with two.
LEAST_BEYOND_CHANCE = 0.39
LEAST_DOUBT = 0.001  # no probability is nearer to 0 or 1: no checked label could confirm more
OFTEN = 0.05  # a confusion of classes that is worth mentioning


class Judgement(NamedTuple):
    """What the audit says of one label."""

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
    def chance_agreement(self) -> float:
        """The `agreement` of learners that predict the classes as often, but blindly."""
        labels = np.bincount(self.original, minlength=len(self.classes))
        answers = np.bincount(self.probabilities.argmax(axis=1), minlength=len(self.classes))
        return float(labels @ answers) / len(self) ** 2

    @property
    def beyond_chance(self) -> float:
        """Cohen's kappa of labels and learners: 0 is chance, 1 full agreement."""
        chance = self.chance_agreement
        return (self.agreement - chance) / (1 - chance) if chance < 1 else 0.0

    @property
    def caution(self) -> str | None:
        """A warning where the figures are not reliable, or None."""
        if self.beyond_chance >= LEAST_BEYOND_CHANCE:
            return None
        return (
            f"the learners agree with {self.agreement:.0%} of the labels, chance with {self.chance_agreement:.0%}: "
            "very many labels are wrong, or the images are too hard for this network. Do not rely on the noise rate, "
            "but on the order of the list. More epochs (such as 127), more images or a larger network help"
        )

    def summary(self) -> dict[str, Any]:
        """The figures, for programs."""
        by_class = {
            str(label): {"rate": found.rate, "interval": [found.low, found.high], "labels": found.count}
            for label, found in zip(self.classes, self.noise_by_class, strict=True)
        }
        return {
            "samples": len(self), "classes": len(self.classes), "checked": int(self.checked.sum()),
            "suspects": len(self.suspect_rows()), "agreement": self.agreement,
            "chance_agreement": self.chance_agreement, "noise_rate": self.noise.rate,
            "noise_interval": [self.noise.low, self.noise.high], "caution": self.caution, "noise_by_class": by_class,
            "settings": asdict(self.settings),
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
        agreeing, asked = self.evidence.agreeing(self.suggested)
        for row in (np.arange(len(self)) if rows is None else rows).tolist():
            label, better = self.classes[self.given[row]], self.classes[self.suggested[row]]
            name, why = self.names[row] if self.names else "", self._why(row, int(agreeing[row]), int(asked[row]))
            yield Judgement(row, name, label, better, float(self.p_correct[row]), why)

    def _why(self, row: int, agreeing: int, asked: int) -> str:
        """What speaks for and against a label; `agreeing` of `asked` learners predict the suggested class."""
        given, suggested, p_correct = self.given[row], self.suggested[row], self.p_correct[row]
        label, better, was = (self.classes[c] for c in (given, suggested, self.original[row]))
        if self.checked[row]:
            return f"checked: confirmed as {label}" if was == label else f"checked: corrected from {was} to {label}"
        vote_given, vote_suggested = self.evidence.votes[row, [given, suggested]]
        learners = f"{agreeing} of {asked} learner{'s say' if asked != 1 else ' says'}"
        if suggested == given:
            opening = "the label fits" if p_correct >= 0.9 else "the label fits best, with some doubt"
            return f"{opening}: {learners} {label}, {vote_given:.0%} of similar images are labelled {label}"
        if not agreeing:
            learners = f"none of {asked} learners says" if asked != 1 else "the learner does not say"
        parts = [f"{learners} {better}", f"{vote_suggested:.0%} of similar images are labelled {better}"]
        parts.append(f"{vote_given:.0%} are labelled {label}")
        if (confused := self.confusion[suggested, given]) >= OFTEN:
            parts.append(f"about {confused:.0%} of all {better} here came with the label {label}")
        joint = self.probabilities[row] * self.confusion[:, given]
        if p_correct >= 0.5:
            opening = f"may be {better}, but {label} remains likelier"
        elif joint[suggested] > joint[given] and agreeing:  # alone, and not only with all other classes together
            opening = f"looks like {better}"
        else:
            opening = f"probably wrong, perhaps {better}"
        return f"{opening}: {', '.join(parts)}"


def judge(evidence: Evidence, labelled: LabelledSet, settings: AuditSettings) -> AuditReport:
    """Fit a noise model to the labels as they came, knowing those that a person has checked, and judge every label."""
    given, checked, scores = labelled.given, labelled.checked, evidence.scores()
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
