"""A run that is left anywhere and continued comes to the bits of the uninterrupted one: every trainer and sampler."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.memory import SAMPLERS
from puridiver.runs import folder as runs
from puridiver.runs import provenance
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.streams import make_stream
from puridiver.trainers import TRAINERS
from tests.learner_samples import differing, tensors_of
from tests.resume_samples import DIGITS, experiment, finished, tiny_config, traces

PAIRS = [pytest.param(s, t, id=f"{s}-{t}") for t in TRAINERS for s in SAMPLERS]


class Crash(Exception):
    """Stands for a process that dies: nothing is saved on the way out."""


class Leaving:
    """Ends a run at a given place: its n-th batch or epoch, counted from where this leg began, or a task's end."""

    def __init__(self, moves: int | None = None, at_task_end: bool = False, crash: bool = False) -> None:
        self.moves, self.at_task_end, self.crash = moves, at_task_end, crash
        self.run: Experiment | None = None
        self.total = self.done = 0

    def start(self, total: int) -> None:
        self.total, self.done = total, -1  # the first advance tells what was done before

    def advance(self, amount: int, text: str) -> None:
        self.done += 1
        if self.done == self.moves:
            self._leave()

    def event(self, event: dict[str, Any]) -> None:
        if self.at_task_end:
            self._leave()

    def _leave(self) -> None:
        if self.crash:
            raise Crash
        assert self.run is not None
        self.run.stop()


def leg(config: RunConfig, folder: Path, leaving: Leaving, checkpoint_every: float = 0) -> Experiment:
    """One process' part of a run, up to where it is left."""
    part = leaving.run = experiment(config, leaving)
    with pytest.raises(Crash if leaving.crash else KeyboardInterrupt):
        part.run(folder, resume=True, checkpoint_every=checkpoint_every)
    assert not (folder / runs.SUMMARY).exists()
    return part


def finish(config: RunConfig, folder: Path) -> Experiment:
    last = experiment(config)
    last.run(folder, resume=True)
    return last


# The way of a run: 3 batches, 3 memory epochs, evaluation; the same for the second task.
LEGS = (
    Leaving(2, crash=True),  # before the first checkpoint: from the start again
    Leaving(1),  # amid the first stream
    Leaving(3),  # amid the first consolidation
    Leaving(1, crash=True),  # from the checkpoint before
    Leaving(at_task_end=True),  # between the tasks
    Leaving(2),  # amid the second stream, with replayed samples in stock
    Leaving(2, crash=True),  # amid the second consolidation, back to its beginning
    Leaving(3),
    Leaving(at_task_end=True),  # everything is done but the summary
)


def assert_ends_alike_in_legs(config: RunConfig, folder: Path, legs: Sequence[Leaving] = LEGS) -> None:
    """A run that is left and continued after each leg ends in the bits of one that is not."""
    expected, weights = finished(config, folder / "whole")
    for leaving in legs:
        leg(config, folder / "parts", leaving)
    last = finish(config, folder / "parts")
    assert differing(weights, tensors_of(last.learner)) == []
    assert traces(folder / "parts") == expected


@pytest.mark.parametrize(("sampler", "trainer"), PAIRS)
def test_left_anywhere_and_continued_a_run_ends_in_the_same_bits(sampler, trainer, tmp_path):
    config = tiny_config(sampler=sampler, trainer=trainer, evaluate_epochs=trainer == "plain", tell_noise=True)
    assert_ends_alike_in_legs(config, tmp_path)


@pytest.mark.parametrize(
    ("trainer", "recipe"),
    [("plain", "puridiver"), ("coteaching", "puridiver"), ("dividemix", "puridiver"), ("puridiver", "puridiver"),
     ("puridiver", "paper")],
)  # fmt: skip
def test_epochs_that_end_with_a_smaller_batch_are_continued_too(trainer, recipe, tmp_path):
    options = {**tiny_config().options, "last_batch": "trained", "batch_size": 8}  # 20 = 2 * 8 + 4
    config = tiny_config(trainer=trainer, recipe=recipe, options=options, tell_noise=True)
    assert_ends_alike_in_legs(config, tmp_path)


@pytest.mark.parametrize("times", [2, 3, 5])
def test_runs_that_train_on_the_memory_within_tasks_are_continued_too(times, tmp_path):
    """Five times in a task of three batches is three times."""
    config = tiny_config(options={**tiny_config().options, "consolidations": times})
    assert_ends_alike_in_legs(
        config, tmp_path, (Leaving(2), Leaving(3), Leaving(4, crash=True), Leaving(6), Leaving(5))
    )


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("sampler", "trainer"), [("puridiver", "puridiver"), ("rm", "dividemix"), ("ntd", "selfie")])
def test_on_a_gpu_too_a_continued_run_ends_in_the_same_bits(sampler, trainer, precision, tmp_path):
    config = tiny_config(sampler=sampler, trainer=trainer, tell_noise=True, device="cuda", precision=precision)
    assert_ends_alike_in_legs(config, tmp_path, (Leaving(2), Leaving(3), Leaving(at_task_end=True), Leaving(4)))


@pytest.mark.parametrize("recipe", ["paper", "official"])
def test_saved_at_every_batch_and_epoch_it_still_ends_in_the_same_bits(recipe, tmp_path):
    """With AutoAugment, CutMix and replay from the first batch on."""
    options = {"strong": "autoaugment", "cutmix": 0.5, "online_cutmix": 0.5, "replay": "always", "batch_size": 16}
    config = tiny_config(recipe=recipe, options=options)
    expected, weights = finished(config, tmp_path / "whole")
    while not (tmp_path / "parts" / runs.SUMMARY).exists():
        part = experiment(config)
        part.stop()
        try:
            part.run(tmp_path / "parts", resume=True)
        except KeyboardInterrupt:
            continue
    assert differing(weights, tensors_of(part.learner)) == []
    assert traces(tmp_path / "parts") == expected


def test_the_time_of_all_parts_counts_and_the_start_is_the_first(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(4))
    newest = sorted((tmp_path / runs.CHECKPOINT).iterdir())[-1]
    settings, tensors = storage.load(newest)
    assert set(settings["seconds"]) == {"observe", "evaluate", "consolidate", "checkpoint"}
    settings |= {"seconds": {"observe": 1000.0}, "started": "long ago"}
    storage.save(newest, settings, tensors)
    finish(tiny_config(), tmp_path)
    summary = json.loads((tmp_path / runs.SUMMARY).read_text())
    assert summary["started"] == "long ago"
    assert 1000 < summary["phase_seconds"]["observe"] < summary["seconds"] < 1060


def test_progress_goes_on_where_it_was(tmp_path):
    class Watched(Leaving):
        amounts: list[int]

        def advance(self, amount: int, text: str) -> None:
            self.amounts = [*getattr(self, "amounts", []), amount]
            super().advance(amount, text)

    first, second = Watched(4), Watched()
    leg(tiny_config(), tmp_path, first)
    experiment(tiny_config(), second).run(tmp_path, resume=True)
    assert second.amounts[0] == sum(first.amounts)
    assert sum(second.amounts) == second.total


# Which run is continued --------------------------------------------------------------------------------------------


def test_without_a_folder_there_is_nothing_to_resume():
    with pytest.raises(ValueError, match="name the folder"):
        experiment(tiny_config()).run(resume=True)


def test_a_finished_run_gives_its_summary_and_is_left_alone(tmp_path, monkeypatch):
    summary = experiment(tiny_config()).run(tmp_path)
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    monkeypatch.setattr("puridiver.learner.learner.Learner.observe", lambda *a: pytest.fail("learnt again"))
    assert experiment(tiny_config()).run(tmp_path, resume=True) == json.loads(runs.to_json(summary))
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before


def test_resume_and_force_contradict_each_other(tmp_path):
    with pytest.raises(ValueError, match="say one of them"):
        experiment(tiny_config()).run(tmp_path, force=True, resume=True)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 3}, ["seed is 0 there and 3 here"]),
        ({"noise": "asym-40", "memory": 21}, ["noise is 'sym-40' there and 'asym-40' here", "memory is 20 there"]),
        ({"epochs": 4}, ["epochs is 3 there and 4 here"]),
        ({"options": {**tiny_config().options, "eta": 0.5}}, ["eta is"]),
        ({"evaluate_epochs": True}, ["evaluate_epochs is False there and True here"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("state", ["finished", "unfinished"])
def test_another_config_is_refused_with_what_differs(changes, named, state, tmp_path):
    if state == "finished":
        finish(tiny_config(), tmp_path)
    else:
        leg(tiny_config(), tmp_path, Leaving(2))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match="another config") as caught:
        experiment(tiny_config(**changes)).run(tmp_path, resume=True)
    assert all(words in str(caught.value) for words in named)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_changes_no_figure_may_differ(tmp_path):
    leg(tiny_config(), tmp_path / "run", Leaving(2))
    finish(
        tiny_config(device="auto" if not torch.cuda.is_available() else "cpu", data_root="/elsewhere"), tmp_path / "run"
    )
    assert (tmp_path / "run" / runs.SUMMARY).exists()


def test_a_run_may_go_on_on_another_gpu_but_not_on_another_kind_of_device():
    description = experiment(tiny_config()).describe()
    hashes = {}
    for device in ("cpu", "cuda", "cuda:1"):
        description["resolved"]["device"] = device
        hashes[device] = runs.identity_hash(description)
    assert hashes["cuda"] == hashes["cuda:1"] != hashes["cpu"]


def test_other_data_under_the_same_name_is_refused(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(2))
    begun = json.loads((tmp_path / runs.CONFIG).read_text())
    begun["resolved"]["stream_hash"] = "0" * 64
    (tmp_path / runs.CONFIG).write_text(json.dumps(begun))
    with pytest.raises(DataError, match="on another stream: the data have changed since"):
        finish(tiny_config(), tmp_path)


def test_a_run_that_goes_on_under_other_code_is_of_no_code(tmp_path):
    """A table of one code must not count it."""
    leg(tiny_config(), tmp_path, Leaving(2))
    begun = json.loads((tmp_path / runs.CONFIG).read_text())
    (tmp_path / runs.CONFIG).write_text(json.dumps({**begun, "code_hash": "other"}))
    summary = finish(tiny_config(), tmp_path).run(tmp_path, resume=True)
    assert summary["began_with"] == {"code_hash": "other"}
    assert (summary["cell"], summary["code_hash"]) == (None, None)


def test_a_run_that_went_on_under_other_code_can_still_be_read(tmp_path, capsys):
    """It is whole: neither its folder nor a ledger with its row is damaged."""
    leg(tiny_config(), tmp_path / "run", Leaving(2))
    begun = json.loads((tmp_path / "run" / runs.CONFIG).read_text())
    (tmp_path / "run" / runs.CONFIG).write_text(json.dumps({**begun, "code_hash": "other"}))
    finish(tiny_config(), tmp_path / "run")
    summary = json.loads((tmp_path / "run" / runs.SUMMARY).read_text())
    whole = {**summary, "code_hash": "a" * 64, "cell": "b" * 64}
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (summary, whole)))
    assert main(["table", str(tmp_path / "run")]) == 0
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "report.html")]) == 0
    capsys.readouterr()
    assert main(["table", str(tmp_path / "ledger.jsonl"), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["code several" in lines[1], f"code {'a' * 7}" in lines[2]] == [True, True]  # not one mean of two codes


def test_an_edit_while_a_run_goes_on_does_not_change_what_it_says_of_its_code(tmp_path, monkeypatch):
    part = experiment(tiny_config())
    before = provenance.code_hash()
    monkeypatch.setattr(provenance, "hash_code", lambda package: "edited")
    monkeypatch.setenv("PURIDIVER_COMMIT", "edited")
    summary = part.run(tmp_path)
    assert summary["code_hash"] == before
    assert summary["commit"] != "edited"


def test_a_run_that_goes_on_under_another_version_says_so(tmp_path, caplog):
    leg(tiny_config(), tmp_path, Leaving(2))
    begun = json.loads((tmp_path / runs.CONFIG).read_text())
    begun["versions"]["torch"] = "1.0"
    (tmp_path / runs.CONFIG).write_text(json.dumps(begun))
    finish(tiny_config(), tmp_path)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "began with other versions" in caplog.text
    assert json.loads((tmp_path / runs.SUMMARY).read_text())["began_with"] == {"versions": begun["versions"]}


def test_a_damaged_config_is_named(tmp_path):
    (tmp_path / runs.CONFIG).write_text("{")
    with pytest.raises(DataError, match=r"config\.json is damaged"):
        finish(tiny_config(), tmp_path)


def test_checkpoints_without_a_config_are_not_touched_without_force(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(2))
    (tmp_path / runs.CONFIG).unlink()
    with pytest.raises(DataError, match=r"holds checkpoints but no config\.json"):
        finish(tiny_config(), tmp_path)
    experiment(tiny_config()).run(tmp_path, force=True)
    assert not (tmp_path / runs.CHECKPOINT).exists()


def test_force_starts_an_unfinished_run_afresh(tmp_path):
    expected, _ = finished(tiny_config(), tmp_path / "whole")
    leg(tiny_config(seed=3), tmp_path / "run", Leaving(4))
    experiment(tiny_config()).run(tmp_path / "run", force=True)
    assert traces(tmp_path / "run") == expected


def test_an_unfinished_run_is_not_touched_without_resume(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(2))
    with pytest.raises(DataError, match=r"an unfinished run; .* --resume"):
        experiment(tiny_config()).run(tmp_path)


def test_a_folder_that_another_process_works_in_is_refused(tmp_path):
    with runs.held(tmp_path), pytest.raises(DataError, match="busy with the run in"):
        experiment(tiny_config()).run(tmp_path, resume=True)
    finish(tiny_config(), tmp_path)


def test_metrics_that_lost_events_are_an_error(tmp_path):
    leg(tiny_config(), tmp_path, Leaving(5))
    (tmp_path / runs.METRICS).write_text("")
    with pytest.raises(DataError, match="the run cannot continue"):
        finish(tiny_config(), tmp_path)


@pytest.mark.parametrize("every", [-1, float("nan"), float("inf")])
def test_an_interval_that_makes_no_sense_is_refused(every, tmp_path):
    with pytest.raises(ValueError, match="seconds between checkpoints should be at least 0"):
        experiment(tiny_config()).run(tmp_path, checkpoint_every=every)


def test_a_run_from_before_an_option_came_can_be_continued(tmp_path):
    config = tiny_config()
    expected, _ = finished(config, tmp_path / "whole")
    leg(config, tmp_path / "parts", Leaving(4))
    path = tmp_path / "parts" / runs.CONFIG
    begun = json.loads(path.read_text())
    del begun["resolved"]["options"]["online_average"]
    path.write_text(json.dumps(begun))
    finish(config, tmp_path / "parts")
    assert traces(tmp_path / "parts") == expected
    assert runs.identity_hash(begun) == runs.identity_hash(experiment(config).describe())


def test_a_noise_matrix_is_read_once_and_known_by_what_it_holds(tmp_path: Path) -> None:
    first, other = (f"matrix:{tmp_path / name}.npy" for name in "TU")
    for noise in (first, other):
        np.save(noise.removeprefix("matrix:"), np.full((10, 10), 0.02) + 0.8 * np.eye(10))
    expected = experiment(tiny_config(noise=first)).run()
    begun = experiment(tiny_config(noise=first))
    np.save(tmp_path / "T.npy", np.eye(10))  # once the run has begun this changes nothing
    summary = begun.run(tmp_path / "run")
    again = experiment(tiny_config(noise=other, imbalance=1.0)).run(tmp_path / "run", resume=True)
    for name in ("cell", "settings_hash", "last_accuracy"):
        assert expected[name] == summary[name] == again[name]
    with pytest.raises(DataError, match="on another stream"):
        experiment(tiny_config(noise=first)).run(tmp_path / "run", resume=True)


def test_a_run_does_not_need_its_manifest_to_the_end(tmp_path: Path) -> None:
    manifest = tmp_path / "mine-0.json"
    make_stream(DIGITS, n_tasks=2).save(manifest)
    begun = experiment(tiny_config(tasks=None, stream=str(tmp_path / "mine-{seed}.json")))
    manifest.unlink()
    assert begun.run()["stream_hash"]


def test_an_experiment_is_run_once_and_its_folder_may_be_a_string(tmp_path: Path) -> None:
    run, folder = experiment(tiny_config()), str(tmp_path / "run")
    with pytest.raises(ValueError, match="only a run with a folder can be resumed"):
        run.run(resume=True)  # it has not begun then
    summary = run.run(folder)
    for again in ({}, {"folder": folder, "force": True}):
        with pytest.raises(ValueError, match=r"an experiment is run once, .* make a new Experiment"):
            run.run(**again)
    assert run.run(folder, resume=True) == json.loads(runs.to_json(summary))  # for which nothing is run
