"""What an audit found: a judgement of every label, and how many are wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from puridiver.auditing.noise_model import UNKNOWN, Evidence, Rate, estimate_rates, fit_noise_model
from puridiver.auditing.settings import AuditSettings
from puridiver.learner.inputs import Label

# Below it, wrong labels and weak learners can hardly be told apart: on 2,000 photographs of CIFAR-10 the learners
# agree with a fifth of the labels, and the estimated rate is far too high. It is an agreement of 45 % with ten equal
# classes, and of 70 % with two.
LEAST_BEYOND_CHANCE = 0.39
LEAST_DOUBT = 0.001  # no probability is nearer to 0 or 1: no checked label could confirm more
OFTEN = 0.05  # a confusion of classes that is worth mentioning


@dataclass(frozen=True)
class Judgement:
    """What the audit says of one label."""

    row: int  # of the set, from 0
    name: str  # the sample's own name or path; empty where it has none
    given_label: Label
    suggested_label: Label
    p_correct: float  # probability that the given label is right
    why: str
    checked: bool = False  # a person has checked it: the label is not doubted any more


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
        wrong = f"about {self.noise.rate:.1%} wrong ({self.noise.low:.1%} to {self.noise.high:.1%})"
        counts = f"{len(self)} labels of {len(self.classes)} classes, {len(self.suspect_rows())} suspects"
        return f"<AuditReport: {counts}, {wrong}, {int(self.checked.sum())} checked>"

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
            f"the learners agree with {self.agreement:.0%} of the labels, and chance alone would give "
            f"{self.chance_agreement:.0%}: either very many labels are wrong, or the images are too hard for this "
            "network. Do not rely on the noise rate; the order of the list is the better guide. More training (such "
            "as --epochs 127), more images or a larger network help"
        )

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
            given, suggested = int(self.given[row]), int(self.suggested[row])
            label, better, p = self.classes[given], self.classes[suggested], float(self.p_correct[row])
            if self.checked[row]:
                was = self.classes[int(self.original[row])]
                reason = (
                    f"checked: confirmed as {label}" if was == label else f"checked: corrected from {was} to {label}"
                )
            else:
                joint = self.probabilities[row] * self.confusion[:, given]
                reason = why(
                    label, better, p, bool(joint[suggested] > joint[given]), int(agreeing[row]), int(asked[row]),
                    self.evidence.votes[row, given], self.evidence.votes[row, suggested],
                    float(self.confusion[suggested, given]),
                )  # fmt: skip
            name = self.names[row] if self.names else ""
            yield Judgement(row, name, label, better, p, reason, bool(self.checked[row]))


def why(
    given: Label, suggested: Label, p_correct: float, leads: bool, agreeing: int, asked: int, vote_given: float,
    vote_suggested: float, confused: float,
) -> str:  # fmt: skip
    """A sentence on what speaks for and against a label.

    `leads`: the suggested class alone is likelier than the given one, not only all others together. `agreeing` of the
    `asked` learners predict the suggested class. `vote_*` are shares of the similar images' labels. `confused` is how
    often the suggested class came with the given label.
    """
    learners = f"{agreeing} of {asked} learner{'s say' if asked != 1 else ' says'}"
    if suggested == given:
        opening = "the label fits" if p_correct >= 0.9 else "the label fits best, with some doubt"
        return f"{opening}: {learners} {given}, {vote_given:.0%} of similar images are labelled {given}"
    if not agreeing:
        learners = f"none of {asked} learners says" if asked != 1 else "the learner does not say"
    parts = [f"{learners} {suggested}", f"{vote_suggested:.0%} of similar images are labelled {suggested}"]
    parts.append(f"{vote_given:.0%} are labelled {given}")
    if confused >= OFTEN:
        parts.append(f"about {confused:.0%} of all {suggested} here came with the label {given}")
    if p_correct >= 0.5:
        opening = f"may be {suggested}, but {given} remains likelier"
    else:
        opening = f"looks like {suggested}" if leads and agreeing else f"probably wrong, perhaps {suggested}"
    return f"{opening}: {', '.join(parts)}"


def judge(
    evidence: Evidence, given: np.ndarray, classes: list[Label], settings: AuditSettings,
    original: np.ndarray | None = None, checked: np.ndarray | None = None, names: list[str] | None = None,
) -> AuditReport:  # fmt: skip
    """Fit a noise model to the labels as they came, knowing those that a person has checked, and judge every label."""
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
    """The likeliest class of each sample, (N,); where the given label is probably wrong, another class."""
    rows, others = np.arange(len(given)), posterior.copy()
    doubted = posterior[rows, given] < 0.5
    others[rows[doubted], given[doubted]] = -1
    return others.argmax(axis=1)


def truth_words(found: dict[str, float], kind: str) -> str:
    """How many of the wrong labels, which were "planted" or are "known" by true labels in the data, were found."""
    rate = found["true_noise_rate"]
    share = {
        "planted": f"planted: {rate:.1%} wrong",
        "known": f"by the true labels that the data have of {found['samples']}: {rate:.1%} wrong",
    }[kind]
    if "auc" not in found:
        return f"{share} among the labels that nobody has checked"
    return (
        f"{share}; {found['suspects_recall']:.1%} of them are among the suspects, of which "
        f"{found['suspects_precision']:.1%} are wrong; area under the ROC curve {found['auc']:.4f}"
    )
