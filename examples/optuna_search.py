"""Search options with Optuna, on validation images that no stream has.

pip install 'puridiver[optuna]'
python examples/optuna_search.py 20
"""

from __future__ import annotations

import sys
from dataclasses import replace

import optuna

import puridiver

# Choose on validation images, with seeds other than those of the tables: the test images stay unseen.
CONFIG = puridiver.RunConfig(
    data="digits", noise="sym-40", holdout=200, evaluate_on="validation", diversity=False, sampler="puridiver",
    trainer="puridiver",
)  # fmt: skip
SEEDS = (11, 12)


def objective(trial: optuna.Trial, config: puridiver.RunConfig = CONFIG) -> float:
    """Last accuracy on the validation images, the mean of the seeds."""
    options = {
        "online_lr": trial.suggest_float("online_lr", 1e-3, 1e-1, log=True),
        "arrival_weight": trial.suggest_float("arrival_weight", 0.0, 1.0),
        "purity_by": trial.suggest_categorical("purity_by", ["loss", "margin"]),
    }
    accuracies = []
    for number, seed in enumerate(SEEDS):
        run = puridiver.Experiment(replace(config, seed=seed, options=options))
        run.listeners.append(lambda event, number=number: prune_if_poor(trial, event, number))
        accuracies.append(run.run()["last_accuracy"])
    return sum(accuracies) / len(accuracies)


def prune_if_poor(trial: optuna.Trial, event: dict, number: int) -> None:
    """Stop a trial whose accuracy after a task is below the median of the others there."""
    if event["event"] == "task":
        trial.report(event["accuracy"], step=1000 * number + event["task"])
        if trial.should_prune():
            raise optuna.TrialPruned


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    print(
        f"{100 * study.best_value:.1f} % on validation images with",
        *(f"--set {k}={v}" for k, v in study.best_params.items()),
    )
