"""What a run, or a grid, says before it begins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from puridiver import data
from puridiver.cli.notes import notes, unread_options
from puridiver.recipes import recipe
from puridiver.runs.config import RunConfig
from puridiver.runtime.device import Runtime
from puridiver.trainers import TRAINERS
from puridiver.trainers.plain import Plain


def told(config: RunConfig) -> list[str]:
    return list(notes(config, data.load("digits"), Runtime(torch.device("cpu")), (300, 1000)))


@pytest.mark.parametrize("trainer", ["selfie", "dividemix", "puridiver"])
@pytest.mark.parametrize("epochs", [1, 10, 11])
def test_robust_training_that_never_begins_is_told(trainer, epochs):
    found = [note for note in told(RunConfig(trainer=trainer, epochs=epochs)) if "all warm-up" in note]
    assert len(found) == (epochs <= 10)
    assert not [note for note in told(RunConfig(trainer="plain", epochs=epochs)) if "warm-up" in note]


def test_a_memory_that_holds_the_whole_stream_is_told():
    assert any("holds the whole stream" in note for note in told(RunConfig(memory=1000)))
    assert not any("holds the whole stream" in note for note in told(RunConfig(memory=999)))


def test_a_resnet_on_a_cpu_is_warned_of_with_the_small_network_named_first():
    config = RunConfig(network="resnet18", device="cpu", epochs=1)
    (note,) = [note for note in told(config) if "takes hours" in note]
    assert note.index("--network small") < note.index("--stream-limit")


@pytest.mark.parametrize(
    ("epochs", "schedule", "times"), [(20, "warm_restarts", 1), (31, "warm_restarts", 0), (20, "cosine", 0)]
)
def test_epochs_that_end_amid_a_warm_restart_are_told(epochs, schedule, times):
    config = RunConfig(network="small", device="cpu", epochs=epochs, options={"schedule": schedule})
    assert len([note for note in told(config) if "amid a warm restart" in note]) == times


def test_classes_that_only_one_part_has_are_named():
    images, labels = np.zeros((6, 8, 8, 3), np.uint8), np.array([0, 1, 2, 0, 1, 2])
    names = ["cat", "dog", "owl", "elk"]
    source = data.from_arrays(images, labels, images[:3], np.array([0, 1, 3]), class_names=names)
    found = list(notes(RunConfig(), source, Runtime(torch.device("cpu"))))
    assert "no train image has the label 'elk': test images of it count as wrong" in found
    assert "no test image shows 'owl': the accuracy says nothing of it" in found
    assert not [note for note in told(RunConfig()) if "image" in note]


def test_noise_on_top_of_wrong_labels_is_told():
    images, labels = np.zeros((6, 8, 8, 3), np.uint8), torch.tensor([0, 1, 0, 1, 0, 1])
    source = data.from_arrays(images, labels.numpy(), images[:2], np.array([0, 1]))
    known = dataclasses.replace(source.train, true=torch.tensor([0, 0, 0, 1, -1, -1]))
    partly = dataclasses.replace(source, train=known)

    def about_noise(noise: str, source: data.DataSource) -> list[str]:
        found = notes(RunConfig(noise=noise), source, Runtime(torch.device("cpu")))
        return [note for note in found if "on top" in note]

    assert about_noise("sym-40", partly) == [
        "sym-40 is planted on top of the labels as they came, of which 25% are wrong already where that is known"
    ]
    assert about_noise("none", partly) == about_noise("sym-40", source) == []


@pytest.mark.parametrize(
    ("sampler", "trainer", "option", "told_of"),
    [
        (
            "rsv",
            "plain",
            {"eta": 2.0},
            "eta is an option of the trainer puridiver: with rsv + plain it changes nothing",
        ),
        ("puridiver", "puridiver", {"eta": 2.0}, None),
        ("puridiver", "plain", {"ntd_views": 4}, None),
        ("puridiver", "plain", {"ntd_views": 4, "arrival_weight": 0.0}, "puridiver + plain it changes nothing here"),
        ("rsv", "puridiver", {"arrival_weight": 1.0}, "arrival_weight is an option of the sampler puridiver"),
        ("ntd", "plain", {"ntd_views": 4}, None),
        ("rm", "plain", {"online_batchnorm": "train"}, None),
        ("gbs", "plain", {"online_batchnorm": "train"}, "the sampler rm and the sampler puridiver"),
        ("rsv", "plain", {"online_lr": 0.1, "cutmix": 0.0}, None),  # of every method
        ("no such sampler", "plain", {"eta": 2.0}, None),
    ],
)
def test_options_that_the_methods_do_not_look_at_are_told(sampler, trainer, option, told_of):
    config = RunConfig(sampler=sampler, trainer=trainer, options=option)
    found = list(unread_options(config, recipe("puridiver", **option)))
    assert len(found) == (told_of is not None)
    assert told_of is None or told_of in found[0]


@pytest.mark.parametrize(
    ("changes", "times"),
    [({"sampler": "ntd"}, 1), ({"sampler": "ntd", "options": {"ntd_views": 8}}, 0), ({"sampler": "puridiver"}, 0),
     ({"sampler": "ntd", "recipe": "official"}, 0)],
)  # fmt: skip
def test_ntd_with_other_views_than_its_own_is_told(changes, times):
    assert len([note for note in told(RunConfig(**changes)) if "its own number is 8" in note]) == times


@pytest.mark.parametrize(("memory", "times"), [(9, 1), (10, 0)])
def test_a_memory_that_cannot_hold_every_class_is_told(memory, times):
    found = [note for note in told(RunConfig(memory=memory)) if "each of the 10 classes" in note]
    assert len(found) == times


@pytest.mark.parametrize(("cutmix", "times"), [(1.0, 1), (0.5, 0)])
def test_elr_that_never_sees_a_whole_batch_is_told(cutmix, times):
    found = told(RunConfig(trainer="elr", options={"cutmix": cutmix}))
    assert len([note for note in found if "with cutmix=1 it is plain training" in note]) == times


@pytest.mark.parametrize(("epochs", "times"), [(255, 1), (63, 0)])
def test_many_epochs_on_a_cpu_are_told_with_what_is_quicker(epochs, times):
    found = [note for note in told(RunConfig(network="small", epochs=epochs)) if "which is a quick look" in note]
    assert len(found) == times
    assert all("about 8 times as long as --epochs 31" in note for note in found)


def test_epochs_of_trainings_that_tasks_are_too_short_for_are_not_counted():
    config = RunConfig(network="small", epochs=31, options={"consolidations": 50, "batch_size": 100})
    found = told(config)  # tasks of 3 and 7 batches
    assert "consolidations=50 is more than a task has batches: the memory is trained on 3 to 7 times a task" in found
    assert [note.split()[0] for note in found if "which is a quick look" in note] == [str(7 * 31)]
    enough = dataclasses.replace(config, options={"consolidations": 3, "batch_size": 100})
    assert not [note for note in told(enough) if "is more than a task has batches" in note]


@pytest.mark.parametrize(("trainer", "deaf"), [("plain", 1), ("puridiver", 1), ("coteaching", 0), ("dividemix", 0)])
def test_that_a_trainer_is_told_what_it_does_not_look_at_is_told(trainer, deaf):
    def about_it(tell_noise: bool) -> list[str]:
        found = told(RunConfig(sampler="rsv", trainer=trainer, tell_noise=tell_noise))
        return [note for note in found if "tell_noise changes nothing" in note]

    assert len(about_it(True)) == deaf
    assert about_it(False) == []


def test_of_a_trainer_from_outside_nobody_knows_whether_it_looks_at_the_noise(monkeypatch):
    class Told(Plain):
        name = "told"

    monkeypatch.setitem(TRAINERS, "told", Told)
    assert not [note for note in told(RunConfig(trainer="told", tell_noise=True)) if "tell_noise" in note]
