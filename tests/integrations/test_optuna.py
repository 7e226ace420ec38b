"""The example that searches options with Optuna."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

optuna = pytest.importorskip("optuna", reason="needs optuna: pip install 'puridiver[optuna]'")
EXAMPLE = Path(__file__).parents[2] / "examples" / "optuna_search.py"


@pytest.fixture
def search() -> ModuleType:
    spec = importlib.util.spec_from_file_location("optuna_search", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_searches_on_validation_images_and_prunes(search: ModuleType) -> None:
    config = replace(search.CONFIG, epochs=1, memory=20, tasks=2, stream_limit=16, test_limit=50, anytime_points=0)
    assert (config.evaluate_on, config.holdout) == ("validation", 200)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: search.objective(trial, config), n_trials=2)
    first, second = study.trials
    assert first.state.is_finished()
    assert first.params.keys() == {"online_lr", "arrival_weight", "purity_by"}
    assert first.params != second.params
    assert sorted(first.intermediate_values) == [0, 1, 1000, 1001]
    assert study.best_value == max(first.value, second.value)
    poor = optuna.trial.FixedTrial(first.params)
    poor.should_prune = lambda: True
    with pytest.raises(optuna.TrialPruned):
        search.objective(poor, config)
