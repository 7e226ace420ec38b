"""Listeners of a run's events for TensorBoard, MLflow and Weights & Biases, each with the real library."""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.integrations.tracking import TRACKERS, figures_of, tracker
from tests.runs.samples import Leaving, events_of, experiment, tiny_config


def test_scalars_are_the_events_of_the_run_also_after_a_resume(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for leaving in (Leaving(4), Leaving(3), Leaving()):
        part = leaving.run = experiment(tiny_config(evaluate_epochs=True), leaving)
        with tracker("tensorboard", str(tmp_path / "log"), part.facts()) as log:
            part.listeners.append(log)
            if leaving.moves is None:
                part.run(tmp_path / "run", resume=True)
            else:
                with pytest.raises(KeyboardInterrupt):
                    part.run(tmp_path / "run", resume=True)
    found = accumulator.EventAccumulator(str(tmp_path / "log")).Reload()
    events = events_of(tmp_path / "run")
    for group, kind, step in (
        ("stream", "anytime", "seen"),
        ("task", "task", "seen"),
        ("memory epoch", "epoch", "number"),
    ):
        expected = [(e[step], pytest.approx(e["accuracy"])) for e in events if e["event"] == kind and "accuracy" in e]
        assert [(s.step, s.value) for s in found.Scalars(f"{group}/accuracy")] == expected
    assert [s.step for s in found.Scalars("memory epoch/clean_size")] == [1, 2, 3, 4, 5, 6]
    assert not any("losses" in tag for tag in found.Tags()["scalars"])


def test_what_is_in_the_way_is_told_before_the_work(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    (tmp_path / "log").write_text("")
    with pytest.raises(DataError, match="is a file"), tracker("tensorboard", str(tmp_path / "log"), {}):
        pass


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_library_is_told_with_the_extra_that_has_it(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard" if name == "tensorboard" else name, None)
    facts = {"title": "PuriDivER", "column": "digits sym-40", "seed": 0}
    with pytest.raises(DataError, match=rf"pip install 'puridiver\[{name}\]'"), tracker(name, "x", facts):
        pass


def tracked(name: str, place: str, folder: Path) -> tuple[dict[str, list[tuple[int, float]]], str]:
    """The figures that a run of a tracker should have, each with its steps; and the identity of the run."""
    run, expected = experiment(tiny_config(evaluate_epochs=True)), dict[str, list[tuple[int, float]]]()
    with tracker(name, place, run.facts()) as log:
        run.listeners.append(log)
        run.run(folder)
    for event in events_of(folder):
        figures, step = figures_of(event)
        for figure, value in figures.items():
            expected.setdefault(figure, []).append((step, pytest.approx(value)))
    assert {"stream/accuracy", "task/memory_purity", "memory epoch/clean_size"} <= expected.keys()
    return expected, run.id


@pytest.mark.filterwarnings("ignore")  # of the library's own
def test_mlflow_has_the_figures_and_what_the_run_is(tmp_path, monkeypatch, caplog):
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow: pip install 'puridiver[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # its databases need more than the skinny package
    mlflow.set_tracking_uri((tmp_path / "mlflow").as_uri())
    expected, id = tracked("mlflow", "digits", tmp_path / "run")

    def refuse(*anything: object, **more: object) -> None:
        raise mlflow.MlflowException("no disk")

    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert (run.info.status, run.data.tags["puridiver_id"], run.data.params["sampler"]) == ("FINISHED", id, "puridiver")
    for figure, values in expected.items():
        assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, figure)] == values
    facts = experiment(tiny_config()).facts()
    with caplog.at_level("WARNING"), monkeypatch.context() as patched, tracker("mlflow", "lost", facts) as log:
        for _ in range(2):
            patched.setattr(mlflow.MlflowClient, "log_batch", refuse)
            log({"event": "task", "seen": 3, "accuracy": 0.5})
    assert caplog.text.count("the run goes on: no disk") == 1
    with pytest.raises(KeyboardInterrupt), tracker("mlflow", "digits", experiment(tiny_config()).facts()):
        raise KeyboardInterrupt
    assert {run.info.status for run in client.search_runs([run.info.experiment_id])} == {"FINISHED", "FAILED"}


@pytest.mark.filterwarnings("ignore")  # of the library's own
def test_wandb_has_the_figures_and_what_the_run_is(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs wandb: pip install 'puridiver[wandb]'")
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "CONSOLE": "off"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    expected, id = tracked("wandb", "digits", tmp_path / "run")
    records, patience = list[Any](), time.monotonic() + 60
    while not any(record.HasField("exit") for record in records):  # its service may write after the run has ended
        assert time.monotonic() < patience, "W&B did not end its file"
        records = list(wandb_records(next(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))))
    told = next(record.run for record in records if record.HasField("run"))
    config = {item.key: json.loads(item.value_json) for item in told.config.update}
    assert (told.project, config["id"], config["sampler"]) == ("digits", id, "puridiver")
    rows = [record.history.item for record in records if record.HasField("history")]
    logged = [{"".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row} for row in rows]
    axes = {"stream": "seen", "task": "seen", "memory epoch": "number"}
    for figure, values in expected.items():
        axis = f"{(group := figure.partition('/')[0])}/{axes[group]}"
        assert [(one[axis], one[figure]) for one in logged if figure in one] == values


@pytest.mark.filterwarnings("ignore")  # of the libraries' own
@pytest.mark.parametrize(
    ("name", "call", "kind"), [("mlflow", "MlflowClient", "MlflowException"), ("wandb", "init", "Error")]
)
def test_a_server_that_cannot_be_reached_is_told_before_the_work(monkeypatch, name, call, kind):
    library = pytest.importorskip(name, reason=f"needs {name}: pip install 'puridiver[{name}]'")

    def refuse(*anything: object, **more: object) -> None:
        raise getattr(library, kind)("no net")

    monkeypatch.setattr(library, call, refuse)
    facts = experiment(tiny_config()).facts()
    with pytest.raises(DataError, match=r"cannot be reached \(.*: no net"), tracker(name, "digits", facts):
        pass


def wandb_records(path: Path) -> Iterator[Any]:
    """What W&B has written offline: a log as LevelDB's, in blocks of 32 KiB with fragments of protobuf records."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, record = path.read_bytes(), 7, b""
    while place + 7 < len(content):
        if 32768 - place % 32768 < 7:  # no room for the head of a fragment
            place += 32768 - place % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        if len(content) < place + 7 + length:
            return  # not whole yet
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last fragment of one
            yield Record.FromString(record)
            record = b""
