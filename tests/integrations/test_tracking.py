"""Listeners of a run's events for TensorBoard, MLflow and Weights & Biases, each with the real library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from puridiver.errors import DataError
from puridiver.integrations.tracking import figures_of, tracker
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


def test_what_is_in_the_way_is_told_before_the_work(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "log").write_text("")
    with pytest.raises(DataError, match="is a file"), tracker("tensorboard", str(tmp_path / "log"), {}):
        pass


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
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
    wandb = pytest.importorskip("wandb", reason="needs wandb: pip install 'puridiver[wandb]'")
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "CONSOLE": "off"}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    logged, told, log = list[dict[str, Any]](), set[tuple[str, ...]](), wandb.Run.log

    def heard(run: Any, figures: dict[str, Any]) -> None:
        logged.append(figures)
        told.add((run.project, run.config["id"], run.config["sampler"]))
        log(run, figures)

    monkeypatch.setattr(wandb.Run, "log", heard)
    expected, id = tracked("wandb", "digits", tmp_path / "run")
    assert told == {("digits", id, "puridiver")}
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
