"""Why a label is doubted, or not, in a sentence."""

from __future__ import annotations

from puridiver.learner.inputs import Label

OFTEN = 0.05  # of a class's images came with the other's label: worth saying


def why(
    given: Label, suggested: Label, p_correct: float, leads: bool, agreeing: int, asked: int, vote_given: float,
    vote_suggested: float, confused: float,
) -> str:  # fmt: skip
    """What speaks for and against a label.

    `leads`: the suggested class alone is likelier than the given one, and not only all others together. `agreeing`
    of the `asked` learners take the image for the suggested class; `vote_*` are shares of the similar images' labels;
    `confused` is how often the suggested class came labelled like this, in the whole set.
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


def why_checked(given: Label, label: Label) -> str:
    return f"checked: confirmed as {label}" if given == label else f"checked: corrected from {given} to {label}"


def truth_words(found: dict[str, float], kind: str) -> str:
    """What of the wrong labels, which were planted or are known by true labels in the data, the audit found."""
    rate = found["true_noise_rate"]
    share = {
        "planted": f"planted: {rate:.1%} wrong",
        "known": f"by the true labels that the data have of {found['samples']}: {rate:.1%} wrong",
    }[kind]
    if "auc" not in found:
        return f"{share} among what nobody has checked"
    return (
        f"{share}; {found['suspects_recall']:.1%} of them are among the suspects, of which "
        f"{found['suspects_precision']:.1%} are wrong; area under the ROC curve {found['auc']:.4f}"
    )
