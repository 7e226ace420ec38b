"""`puridiver.audit` on small sets whose wrong labels are known."""

from __future__ import annotations

import dataclasses
import doctest

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

import puridiver
import puridiver.auditing.audit
from puridiver.auditing.report import AuditReport, judge, suggestions, why
from puridiver.metrics.audit import list_quality, ranking_quality
from tests.auditing.samples import CLASSES, QUICK, planted, words


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return planted()


@pytest.fixture(scope="module")
def report(data) -> AuditReport:
    images, given, _ = data
    return puridiver.audit(images, words(given), names=[f"img/{i}.png" for i in range(150)], **QUICK)


def test_the_wrong_labels_come_first(report, data):
    _, given, true = data
    quality = ranking_quality(report.p_correct, given != true)
    assert quality["auc"] > 0.95
    assert quality["precision_at_0.5"] > 0.9  # 0.2 by chance
    found = list_quality(report.p_correct < 0.5, given != true)
    assert found["suspects_precision"] > 0.8
    assert found["suspects_recall"] > 0.7


def test_the_suggested_label_is_mostly_the_true_one(report, data):
    _, given, true = data
    suspects = report.suspects()
    right = [CLASSES[true[j.row]] == j.suggested_label for j in suspects]
    assert np.mean(right) > 0.8
    assert [j.p_correct for j in suspects] == sorted(j.p_correct for j in suspects)
    for j in suspects:
        assert j.given_label == CLASSES[given[j.row]]
        assert j.name == f"img/{j.row}.png"
        assert str(j.suggested_label) in j.why


def test_the_noise_rate_is_near_the_planted_one(report):
    assert report.noise.rate == pytest.approx(0.2, abs=0.08)
    assert report.noise.low < report.noise.rate < report.noise.high
    weighted = sum(rate.rate * rate.count for rate in report.noise_by_class) / 150
    assert weighted == pytest.approx(report.noise.rate)


def test_every_sample_is_judged_in_the_order_of_the_set(report):
    judgements = list(report.judgements())
    assert [j.row for j in judgements] == list(range(150))
    assert all(0 <= j.p_correct <= 1 for j in judgements)
    assert np.allclose(report.probabilities.sum(axis=1), 1)


def test_the_seed_decides_everything(report, data):
    images, given, _ = data
    settings = dataclasses.replace(puridiver.AuditSettings(), **QUICK)
    again = puridiver.audit(images, words(given), settings=settings)
    assert np.array_equal(again.p_correct, report.p_correct)
    assert again.noise == report.noise
    other = puridiver.audit(images, words(given), **{**QUICK, "seed": 5, "passes": 1})
    assert not np.array_equal(other.p_correct, report.p_correct)


def test_clean_labels_are_left_alone():
    images, _, true = planted(seed=3)
    report = puridiver.audit(images, true, **QUICK)
    assert report.noise.rate < 0.08
    assert len(report.suspects()) <= 3
    assert "the label fits" in next(report.judgements()).why


def test_what_a_learner_keeps_in_its_memory_does_not_testify(report):
    kept = report.evidence.weights == 0
    assert kept.sum(axis=1).tolist() == [24, 24]
    twice = kept.all(axis=0)
    once = kept.any(axis=0) & ~twice
    asked = report.evidence.agreeing(report.suggested)[1]
    assert (asked[once] == 1).all()
    assert (asked[twice] == 2).all()  # nobody else is left to ask


def test_a_checked_label_is_not_doubted_and_not_counted(report, data):
    _, given, true = data
    worst = report.ranking()[:10]
    checked = np.zeros(150, dtype=bool)
    checked[worst] = True
    corrected = np.where(checked, true, given)
    after = judge(report.evidence, corrected, CLASSES, report.settings, given, checked)
    assert (after.p_correct[worst] == 1).all()
    assert not set(after.suspect_rows()) & set(worst)
    assert after.noise.count == 140
    assert after.noise.rate < report.noise.rate
    reasons = [j.why for j in after.judgements(worst)]
    assert all(reason.startswith("checked: ") for reason in reasons)
    everything = judge(report.evidence, true, CLASSES, report.settings, given, np.ones(150, dtype=bool))
    assert everything.suspects() == []


def test_no_label_is_certain_but_the_order_stays(report):
    assert report.p_correct.min() >= 0.001
    assert report.p_correct.max() <= 0.999
    assert len(np.unique(report.p_correct)) > 140


def test_a_suspect_is_never_suggested_the_label_it_has():
    posterior = np.array([[0.45, 0.3, 0.25], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1]])
    assert suggestions(posterior, np.array([0, 0, 0])).tolist() == [1, 0, 1]
    told = why("cat", "dog", 0.45, False, 1, 2, 0.4, 0.3, 0.0)
    assert told.startswith("probably wrong, perhaps dog: 1 of 2 learners say dog")
    assert why("cat", "dog", 0.2, True, 1, 2, 0.4, 0.3, 0.0).startswith("looks like dog")
    alone = why("cat", "dog", 0.01, True, 0, 2, 0.1, 0.51, 0.0)
    assert alone.startswith("probably wrong, perhaps dog: none of 2 learners says dog, 51% of similar images")


def test_corrections_do_not_hide_that_the_learners_are_weak(report, data):
    _, given, true = data
    checked = given != true
    after = judge(report.evidence, np.where(checked, true, given), CLASSES, report.settings, given, checked)
    predicted = after.probabilities.argmax(axis=1)
    assert after.agreement == pytest.approx((predicted == given).mean())


def test_wrong_input_is_refused_with_a_word_on_what_is_allowed(data):
    images, given, _ = data
    with pytest.raises(ValueError, match=r"shape \(N, H, W\) or \(N, H, W, 1 or 3\), but got \(4,\)"):
        puridiver.audit(np.zeros(4), [0, 1, 2, 3])
    with pytest.raises(ValueError, match="among the classes 'cat', 'dog', but got 'owl'"):
        puridiver.audit(images, words(given), classes=["cat", "dog"])
    with pytest.raises(ValueError, match="at least 2 images, but got 1"):
        puridiver.audit(images[:1], [0])
    with pytest.raises(ValueError, match="names should have one entry for each of the 150 images, but got 2"):
        puridiver.audit(images, given, names=["a", "b"])
    with pytest.raises(ValueError, match="passes should be a whole number, at least 1, but got 0"):
        puridiver.audit(images, given, passes=0)
    with pytest.raises(ValueError, match="no option 'colour'"):
        puridiver.audit(images, given, colour="red")
    for wrong in ({"seed": 10**30}, {"memory": "5"}, {"epochs": True}, {"network": 3}, {"options": []}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} should be"):
            puridiver.AuditSettings(**wrong)


@pytest.mark.parametrize(
    ("samples", "memory", "epochs"), [(100, 50, 63), (615, 123, 63), (620, 124, 31), (1_279, 255, 31), (1_437, 287, 15)]
)
def test_a_small_memory_is_trained_for_more_epochs(samples: int, memory: int, epochs: int) -> None:
    settings = puridiver.AuditSettings(passes=1, parts=2)
    assert settings.memory_for(samples) == memory
    assert settings.epochs_for(memory) == epochs
    assert settings.work(samples) == samples + 2 * memory * epochs
    assert puridiver.AuditSettings(epochs=7).epochs_for(memory) == 7


def test_two_samples_are_enough_not_to_fail(data):
    images, _, _ = data
    report = puridiver.audit(images[:2], [0, 1], **{**QUICK, "memory": 2})
    assert len(report.p_correct) == 2


def test_one_class_leaves_nothing_to_ask(data):
    images, _, _ = data
    with pytest.raises(ValueError, match="at least 2 classes an image shows, but the data have one class only, '7'"):
        puridiver.audit(images[:9], [7] * 9)


def test_an_audit_has_one_thread_for_the_small_network_and_gives_the_others_back(data, monkeypatch):
    seen = []

    def noted(*anything):
        seen.append(torch.get_num_threads())
        return real(*anything)

    real = puridiver.auditing.audit.run_pass
    monkeypatch.setattr(puridiver.auditing.audit, "run_pass", noted)
    images, given, _ = data
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        puridiver.audit(images[:40], given[:40], **{**QUICK, "passes": 1, "network": "auto"})
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1]


def test_an_audit_learns_by_the_released_recipe_and_takes_options(data, monkeypatch):
    seen = []

    def noted(*arguments):
        learner, testimony = real(*arguments)
        seen.append(dict(learner.options))
        return learner, testimony

    real = puridiver.auditing.audit.run_pass
    monkeypatch.setattr(puridiver.auditing.audit, "run_pass", noted)
    images, given, _ = data
    for options in ({}, {"eta": 0.5}):
        puridiver.audit(images[:40], given[:40], **{**QUICK, "passes": 1, "options": options})
    plain, changed = seen
    assert plain["online_steps"] == 1  # the default recipe has four
    assert plain["checked_share"] == 1  # all that a person has checked is kept
    assert changed == {**plain, "eta": 0.5}


def test_on_a_cpu_large_images_get_the_small_network_too():
    settings = puridiver.AuditSettings(device="cpu")
    assert settings.with_network((64, 64, 3)).network == "small"
    assert dataclasses.replace(settings, network="resnet34").with_network((64, 64, 3)).network == "resnet34"


def test_a_class_without_samples_has_no_wrong_ones(data):
    images, given, _ = data
    report = puridiver.audit(images[:60], given[:60], classes=5, **QUICK)
    assert [rate.count for rate in report.noise_by_class][3:] == [0, 0]
    assert report.noise_by_class[4].rate == 0


def test_weak_learners_are_owned_up_to(report, data):
    assert report.caution is None
    images, _, _ = data
    nonsense = np.random.default_rng(0).integers(3, size=len(images))
    poor = puridiver.audit(images, nonsense, **{**QUICK, "passes": 1})
    assert poor.agreement < 0.45
    assert "Do not rely on the noise rate" in (poor.caution or "")


@pytest.mark.parametrize(
    ("classes", "agreeing", "careful"),
    [(10, 44, True), (10, 46, False), (3, 58, True), (3, 60, False), (2, 69, True), (2, 70, False)],
)
def test_what_the_learners_agree_in_is_measured_from_chance_on(report, classes, agreeing, careful):
    labels = np.repeat(np.arange(classes), 100)
    answers = np.where(np.arange(100 * classes) % 100 < agreeing, labels, (labels + 1) % classes)
    changes = {"classes": list(range(classes)), "original": labels, "given": labels}
    told = dataclasses.replace(report, **changes, probabilities=np.eye(classes)[answers])
    assert told.chance_agreement == pytest.approx(1 / classes)
    assert told.beyond_chance == pytest.approx(cohen_kappa_score(labels, answers))
    assert (told.caution is not None) == careful


def test_labels_of_one_class_alone_show_nothing_of_the_learners(report):
    alone = np.zeros(len(report), dtype=np.int64)
    told = dataclasses.replace(report, original=alone, given=alone, probabilities=np.eye(3)[alone])
    assert told.agreement == 1
    assert told.beyond_chance == 0


def test_the_example_in_the_documentation_is_right():
    found = doctest.testmod(puridiver.auditing.audit)
    assert found.attempted > 3
    assert found.failed == 0
