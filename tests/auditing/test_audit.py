"""`puridiver.audit` on small sets whose wrong labels are known."""

from __future__ import annotations

import dataclasses
import doctest

import numpy as np
import pytest
import torch

import puridiver
import puridiver.auditing.audit
from puridiver.auditing import passes
from puridiver.auditing.audit import audit_set, choose_set
from puridiver.auditing.noise_model import NETWORK_WEIGHT, SMALLEST_SHARE, combine
from puridiver.auditing.passes import LabelledSet, Predictions
from puridiver.auditing.report import AuditReport, suggestions
from puridiver.data.base import DataSource, ImageSet
from puridiver.metrics.audit import list_quality, ranking_quality
from tests.auditing.samples import CLASSES, QUICK, planted, words

IMAGES, GIVEN, TRUE = planted()
ONE_PASS = {**QUICK, "passes": 1}


def test_the_wrong_labels_come_first_and_are_suggested_their_true_class(report: AuditReport) -> None:
    assert ranking_quality(report.p_correct, GIVEN != TRUE)["auc"] > 0.95
    found = list_quality(report.p_correct < 0.5, GIVEN != TRUE)
    assert found["suspects_precision"] > 0.8
    assert found["suspects_recall"] > 0.7
    suspects = report.suspects()
    assert np.mean([CLASSES[TRUE[j.row]] == j.suggested_label for j in suspects]) > 0.8
    assert [j.p_correct for j in suspects] == sorted(j.p_correct for j in suspects)
    for j in suspects:
        assert (j.given_label, j.name) == (CLASSES[GIVEN[j.row]], f"-img/{j.row}.png")
        assert str(j.suggested_label) in j.why


def test_the_noise_rate_is_near_the_planted_one_and_no_label_is_certain(report: AuditReport) -> None:
    assert report.noise.rate == pytest.approx(0.2, abs=0.08)
    assert report.noise.low < report.noise.rate < report.noise.high
    weighted = sum(rate.rate * rate.count for rate in report.noise_by_class) / 150
    assert weighted == pytest.approx(report.noise.rate)
    assert [j.row for j in report.judgements()] == list(range(150))
    assert 0.001 <= report.p_correct.min() <= report.p_correct.max() <= 0.999
    assert len(np.unique(report.p_correct)) > 140


def test_the_seed_decides_everything(report: AuditReport) -> None:
    again = puridiver.audit(IMAGES, words(GIVEN), **QUICK)
    assert np.array_equal(again.p_correct, report.p_correct)
    assert again.noise == report.noise
    other = puridiver.audit(IMAGES, words(GIVEN), **{**ONE_PASS, "seed": 5})
    assert not np.array_equal(other.p_correct, report.p_correct)


def test_clean_labels_are_left_alone() -> None:
    images, _, true = planted(seed=3)
    report = puridiver.audit(images, true, **QUICK)
    assert report.noise.rate < 0.08
    assert len(report.suspects()) <= 3
    assert "the label fits" in next(report.judgements()).why


def test_what_a_learner_keeps_in_its_memory_does_not_count(report: AuditReport) -> None:
    first, second = (
        Predictions(np.arange(150) < kept, *np.random.default_rng(kept).random((2, 150, 3))) for kept in (4, 9)
    )
    evidence = combine([first, second])
    assert evidence.weights[:, [0, 3, 4, 8, 9]].tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 1]]  # of 0 to 3, nobody else
    assert np.allclose(evidence.scores()[4], NETWORK_WEIGHT * first.scores[4] + np.log(first.votes[4] + SMALLEST_SHARE))
    assert (report.evidence.weights == 0).any()


def test_a_checked_label_is_not_doubted_and_not_counted(report: AuditReport, labelled: LabelledSet) -> None:
    worst = report.ranking()[:10].tolist()
    corrected = dataclasses.replace(labelled, corrections={row: int(TRUE[row]) for row in worst})
    after = audit_set(corrected, report.settings)
    assert (after.p_correct[worst] == 1).all()
    assert (after.given[worst] == TRUE[worst]).all()
    assert (after.original == GIVEN).all()
    assert not set(after.suspect_rows()) & set(worst)
    assert after.noise.count == 140
    assert after.noise.rate < report.noise.rate
    assert all(j.why.startswith("checked: ") for j in after.judgements(np.array(worst)))
    assert "10 checked" in repr(after)


def test_a_suspect_is_never_suggested_the_label_it_has() -> None:
    posterior = np.array([[0.45, 0.3, 0.25], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    assert suggestions(posterior, np.array([0, 0, 0])).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros(4)}, r"\(N, H, W\), .*, but got \(4,\)"),
        ({"classes": ["cat", "dog"]}, "among the classes .*, but got 'owl'"),
        ({"images": IMAGES[:1], "labels": [0]}, "at least 2 images and 2 classes, but got 1"),
        ({"labels": [7] * 150}, "2 classes, but got 150 and 1"),
        ({"names": ["a", "b"]}, "names should have one entry for each of the 150 images, but got 2"),
        ({"passes": 0}, "passes should be at least 1 and at most 1000, but got 0"),
        ({"parts": 2**53}, "parts should be"),
        ({"labels": torch.zeros(150, dtype=torch.bfloat16)}, "labels should be all integers or all strings"),
        ({"seed": 10**30}, "seed should be"),
        ({"memory": "5"}, "memory should be"),
        ({"colour": "red"}, "no option 'colour'"),
    ],
)
def test_wrong_input_is_refused(changes: dict, message: str) -> None:
    arguments = {"images": IMAGES, "labels": words(GIVEN), **changes}
    with pytest.raises(ValueError, match=message):
        puridiver.audit(arguments.pop("images"), arguments.pop("labels"), **arguments)


def test_a_small_memory_is_trained_for_more_epochs() -> None:
    settings = puridiver.AuditSettings(passes=1, parts=2)
    assert [settings.memory_for(n) for n in (100, 620, 1_437, 50_000)] == [50, 124, 287, 2_000]
    assert [settings.epochs_for(memory) for memory in (50, 123, 124, 255, 256)] == [63, 63, 31, 31, 15]
    assert settings.work(620) == 620 + 2 * 124 * 31
    assert puridiver.AuditSettings(epochs=7).epochs_for(50) == 7


def test_two_samples_and_classes_without_samples_are_no_problem() -> None:
    report = puridiver.audit(IMAGES[:2], [0, 1], classes=4, **{**QUICK, "memory": 2})
    assert len(report.p_correct) == 2
    assert [rate.count for rate in report.noise_by_class] == [1, 1, 0, 0]
    assert report.noise_by_class[3].rate == 0


def test_an_audit_learns_by_the_released_recipe_and_takes_options(monkeypatch) -> None:
    seen, real = [], passes.predict
    monkeypatch.setattr(passes, "predict", lambda learner, *set: seen.append(learner.options) or real(learner, *set))
    for options in ({}, {"eta": 0.5}):
        puridiver.audit(IMAGES[:40], GIVEN[:40], **{**ONE_PASS, "network": "auto", "options": options})
    plain, changed = map(dict, seen)
    assert plain["online_steps"] == 1  # the default recipe has four
    assert changed == {**plain, "eta": 0.5}


@pytest.mark.parametrize(
    ("classes", "agreeing", "careful"), [(10, 44, True), (10, 46, False), (2, 69, True), (2, 70, False)]
)
def test_agreement_of_the_learners_is_measured_from_chance_on(report, classes, agreeing, careful) -> None:
    labels = np.repeat(np.arange(classes), 100)
    answers = np.where(np.arange(100 * classes) % 100 < agreeing, labels, (labels + 1) % classes)
    told = dataclasses.replace(report, original=labels, probabilities=np.eye(classes)[answers])
    assert told.agreement == agreeing / 100
    assert (told.caution is not None) == careful


def test_a_part_of_a_source_is_chosen_with_its_names_and_known_truth() -> None:
    given, true = torch.from_numpy(GIVEN), torch.from_numpy(TRUE).clone()
    true[5:] = -1
    part = ImageSet(torch.from_numpy(IMAGES), given, true, None, [f"a{row}.png" for row in range(150)])
    source = DataSource("mine", tuple(CLASSES), part, part)
    labelled, known = choose_set(source, "train", 20, None, seed=3)
    rows = [int(name.strip("a.png")) for name in labelled.names]
    assert len(set(rows)) == 20
    assert labelled.original.tolist() == GIVEN[rows].tolist()
    assert known is not None
    assert known.tolist() == true[rows].tolist()
    labelled, known = choose_set(source, "train", None, "sym-20", seed=0)
    assert (labelled.original != known).sum() == 30
    with pytest.raises(ValueError, match="puts 0 of 150 wrong"):
        choose_set(source, "train", None, "sym-0", seed=0)


def test_the_example_in_the_documentation_is_right() -> None:
    found = doctest.testmod(puridiver.auditing.audit)
    assert found.attempted > 3
    assert found.failed == 0
