"""The scripts that decide something, on made rows, and a sampler that is one."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from puridiver import Learner
from puridiver.memory import SAMPLERS
from tests.grid.page.samples import full_run
from tests.learner_samples import SHAPE, TINY, patterns

SCRIPTS = Path(__file__).parent.parent / "scripts"
BEFORE = {"online_lr": 0.01, "online_steps": 4, "online_batchnorm": "train", "online_prediction": "consolidated"}
NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.partition(".")[0].replace("-", "_"), SCRIPTS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rule() -> ModuleType:
    return loaded("choose-arrival.py")


def runs(
    gains: tuple[float, ...], sampler: str = "puridiver", noises: tuple[str, ...] = NOISES, **options: Any
) -> list:
    """Validation runs of a setting, a seed for each gain over 50 %."""
    told = {"recipe": "puridiver", "default_changes": BEFORE, "evaluated_on": "validation", "epochs": 63}
    changed = {"epochs": 63, **options}
    return [
        full_run(11 + number, 0.5 + gain / 100, noise, sampler=sampler, options_changed=changed, **told)
        for noise in noises
        for number, gain in enumerate(gains)
    ]


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [((1.0, 3.0), True), ((0.0, 3.0), True), ((-1.0, 3.0), False), ((-1.0, -1.5), False), ((2.0,), False)],
)
def test_a_weight_is_chosen_that_gains_two_standard_errors_with_two_seeds_or_more(rule, gains, chosen):
    """Of five noises alike the error is that of one by the root of five: (0, 3) gains 2.2 errors, (-1, 3) 1.1."""
    rows = [*runs((0.0, 0.0)), *runs(gains, arrival_weight=0.5, ntd_views=2)]
    assert rule.choice(rule.validation_runs(rows)) == ((0.5, 2) if chosen else None)


def test_of_two_weights_the_one_that_gains_more_is_chosen(rule):
    rows = [*runs((0.0, 0.1)), *runs((2.0, 2.2), arrival_weight=0.5, ntd_views=2), *runs((3.0, 3.2), "both-losses")]
    assert rule.choice(rule.validation_runs(rows)) == (1.0, 8)


def test_a_weight_that_was_not_run_under_every_noise_is_not_chosen(rule):
    rows = [*runs((0.0, 0.0)), *runs((5.0, 5.1), arrival_weight=0.5, noises=NOISES[:4])]
    assert rule.choice(rule.validation_runs(rows)) is None


def test_other_settings_and_runs_on_the_test_set_do_not_count(rule):
    other = runs((9.0, 9.1), arrival_weight=0.5, eta=2.0)
    tested = [{**row, "evaluated_on": "test"} for row in runs((9.0, 9.1), arrival_weight=0.5)]
    found = rule.validation_runs([*runs((0.0, 0.0), ntd_views=2), *other, *tested])
    assert list(found) == [rule.TODAY_ALONE]


@pytest.fixture
def ntd_program() -> Iterator[ModuleType]:
    yield loaded("ntd_program.py")
    del SAMPLERS["ntd-program"]


def test_five_crops_are_the_corners_and_the_middle(ntd_program):
    image = torch.arange(64).view(1, 1, 8, 8)
    crops = ntd_program.five_crops(image.repeat(2, 1, 1, 1))
    assert crops.shape == (10, 1, 6, 6)
    firsts = [0, 0, 2, 2, 16, 16, 18, 18, 9, 9]  # the upper left pixel of each, crop by crop
    assert crops[:, 0, 0, 0].tolist() == firsts
    assert torch.equal(crops[-1, 0], image[0, 0, 1:7, 1:7])


def test_the_authors_ntd_notes_the_loss_of_the_mean_logits_and_freezes_batchnorm(ntd_program):
    learner = Learner(3, SHAPE, 12, sampler="ntd-program", trainer="plain", device="cpu", **TINY)
    images, labels = patterns(40)
    learner.observe(images[:16], labels[:16])
    assert learner.sampler.freezes_norm
    batch = learner.memory.samples
    found = learner.sampler.note_arrivals(batch, learner._moment(torch.tensor(1.0)))
    by_crop = [learner.trainer.outputs(part).logits for part in ntd_program.five_crops(batch.images).split(len(batch))]
    mean = torch.stack(by_crop).mean(dim=0).log_softmax(dim=1)
    expected = [-float(mean[row, label]) for row, label in enumerate(batch.labels.tolist())]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)
