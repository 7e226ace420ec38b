"""A run that is left anywhere and continued comes to the bits of the uninterrupted one: every trainer and sampler."""

from __future__ import annotations

import errno
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.files import to_json
from puridiver.learner import storage
from puridiver.memory import SAMPLERS
from puridiver.runs import folder as runs
from puridiver.trainers import TRAINERS
from tests.runs.samples import (
    Leaving,
    assert_ends_alike_in_legs,
    contents,
    experiment,
    finish,
    leg,
    tiny_config,
)

# AutoAugment, CutMix, replay from the first batch on, a smaller last batch and two trainings a task.
EVERYTHING = {
    "strong": "autoaugment", "cutmix": 0.5, "online_cutmix": 0.5, "replay": "always", "consolidations": 2,
    "last_batch": "trained", "batch_size": 8,
}  # fmt: skip
# Every trainer and every sampler once.
CASES = [
    *((list(SAMPLERS)[i % len(SAMPLERS)], trainer, {}) for i, trainer in enumerate(TRAINERS)),
    ("puridiver", "puridiver", EVERYTHING),
]
LEGS = (
    Leaving(2, crash=True),  # before the first checkpoint: from the start again
    Leaving(4),  # amid the first consolidation
    Leaving(3, crash=True),  # in the second stream, back to its beginning
    Leaving(4),  # amid the second consolidation, with replayed samples in stock
)
AMID_TRAININGS = (LEGS[1], Leaving(6))  # where all state of a method is in use


@pytest.mark.parametrize(("sampler", "trainer", "options"), CASES)
def test_left_anywhere_and_continued_a_run_ends_in_the_same_bits(sampler, trainer, options, tmp_path):
    measured = {"evaluate_epochs": trainer == "plain", "live": trainer == "er"}
    config = tiny_config(sampler=sampler, trainer=trainer, options=options, tell_noise=True, **measured)
    assert_ends_alike_in_legs(config, tmp_path, LEGS if options else AMID_TRAININGS)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("sampler", "trainer"), [("puridiver", "puridiver"), ("rm", "dividemix"), ("ntd", "selfie")])
def test_on_a_gpu_too_a_continued_run_ends_in_the_same_bits(sampler, trainer, precision, tmp_path):
    config = tiny_config(sampler=sampler, trainer=trainer, tell_noise=True, device="cuda", precision=precision)
    assert_ends_alike_in_legs(config, tmp_path, (Leaving(2), Leaving(3), Leaving(4)))


def test_progress_time_and_start_go_on_where_they_were(tmp_path):
    first, second = Leaving(4), Leaving()
    leg(tiny_config(), tmp_path, first)
    settings, tensors = storage.load(tmp_path / runs.CHECKPOINT)
    settings |= {"seconds": {"observe": 1000.0}, "started": "long ago"}
    storage.save(tmp_path / runs.CHECKPOINT, settings, tensors)
    summary = experiment(tiny_config(), second).run(tmp_path, resume=True)
    assert summary["started"] == "long ago"
    assert 1000 < summary["phase_seconds"]["observe"] < summary["seconds"]
    assert second.amounts[0] == sum(first.amounts)
    assert sum(second.amounts) == second.total


# Which run is continued --------------------------------------------------------------------------------------------


def test_a_finished_run_gives_its_summary_and_is_left_alone(tmp_path, monkeypatch):
    summary = experiment(tiny_config()).run(tmp_path)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    monkeypatch.setattr("puridiver.learner.learner.Learner.observe", lambda *a: pytest.fail("learnt again"))
    assert experiment(tiny_config()).run(tmp_path, resume=True) == json.loads(to_json(summary))
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before


@pytest.fixture(scope="module")
def left(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("left")
    leg(tiny_config(), folder, Leaving(2))
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 3}, ["seed is 0 there and 3 here"]),
        ({"noise": "asym-40", "memory": 21}, ["noise is 'sym-40' there and 'asym-40' here", "memory is 20 there"]),
        ({"epochs": 4}, ["epochs is 3 there and 4 here"]),
        ({"evaluate_epochs": True}, ["evaluate_epochs is False there and True here"]),
    ],
    ids=str,
)
def test_another_config_is_refused_with_what_differs(changes, named, left):
    before = contents(left)
    with pytest.raises(DataError, match="another config") as caught:
        experiment(tiny_config(**changes)).run(left, resume=True)
    assert all(words in str(caught.value) for words in named)
    assert contents(left) == before


def test_a_run_goes_on_with_its_own_config_and_what_is_said(left):
    begun = runs.RunFolder(left).begun()
    assert begun is not None
    config = begun.continued({}, {})
    assert experiment(config).id == begun.facts["id"]
    assert (config.tasks, config.memory) == (2, 20)
    assert begun.continued({"seed": 4}, {"lr": 0.5}).seed == 4
    assert begun.continued({}, {"lr": 0.5}).options == {**begun.config.options, "lr": 0.5}
    assert begun.continued({}, {"epochs": 9}).epochs is None


def test_an_unfinished_run_is_not_touched_without_resume_or_force(left):
    before = contents(left)
    with pytest.raises(DataError, match=r"an unfinished run; .* --resume"):
        experiment(tiny_config()).run(left)
    assert contents(left) == before


def test_another_version_machine_or_place_may_continue_a_run_which_says_so(tmp_path, caplog):
    leg(tiny_config(), tmp_path, Leaving(2))
    begun = json.loads((tmp_path / runs.CONFIG).read_text())
    begun |= {"versions": {**begun["versions"], "torch": "1.0"}, "device": "an H200", "commit": "abc"}
    (tmp_path / runs.CONFIG).write_text(json.dumps(begun))
    last = finish(tiny_config(data_root="/elsewhere", device="auto"), tmp_path)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "began with other versions and commit and device" in caplog.text
    summary = json.loads((tmp_path / runs.SUMMARY).read_text())
    assert summary["began_with"] == {name: begun[name] for name in ("versions", "commit", "device")}
    assert (summary["id"], summary["command"]) == (last.id, begun["command"])


def test_metrics_that_lost_events_are_an_error(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(5))
    (tmp_path / runs.METRICS).write_text("")
    with pytest.raises(DataError, match="the run cannot continue"):
        finish(tiny_config(), tmp_path)


# Disks that are full -----------------------------------------------------------------------------------------------


def full(folder: Path, *state: Any) -> Path:
    raise OSError(errno.ENOSPC, "No space left on device", str(folder))


def test_a_learner_that_does_not_fit_leaves_the_run_unfinished_and_resume_keeps_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(storage, "save", full)
        with pytest.raises(OSError, match="No space left"):
            experiment(tiny_config()).run(tmp_path, keep_learner=True)
    assert not (tmp_path / runs.SUMMARY).exists()
    monkeypatch.setattr("puridiver.learner.learner.Learner.observe", lambda *a: pytest.fail("learnt again"))
    summary = experiment(tiny_config()).run(tmp_path, resume=True, keep_learner=True)
    assert summary["last_accuracy"] > 0
    assert (tmp_path / runs.LEARNER / storage.FILE).exists()
    assert not (tmp_path / runs.CHECKPOINT).exists()


def test_a_checkpoint_of_another_version_is_named_and_the_run_is_left_as_it_is(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(5))
    settings, tensors = storage.load(tmp_path / runs.CHECKPOINT)
    del settings["recorder"]
    storage.save(tmp_path / runs.CHECKPOINT, settings, tensors)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=r"another version.*--force"):
        finish(tiny_config(), tmp_path)
    assert contents(tmp_path) == before
