"""Compare `puridiver.audit` with cleanlab on labels that were made wrong on purpose (experiments/audit).

    python tools/audit_vs_cleanlab.py                    # run what experiments/audit/audits.jsonl does not have yet
    python tools/audit_vs_cleanlab.py --table            # only print the table
    python tools/audit_vs_cleanlab.py --data digits --seeds 100 --ledger /tmp/try.jsonl

Three methods judge the same images and labels:

- puridiver: `puridiver.audit` with its defaults;
- cleanlab: on cross-validated probabilities of the same network, trained offline with cross-entropy and the same
  augmentation, for about the same time;
- cleanlab on ours: on the probabilities that our audit exports for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from puridiver import audit, data, recipes
from puridiver.grid.table import markdown
from puridiver.memory import Samples
from puridiver.metrics.audit import list_quality, ranking_quality
from puridiver.runs.resolve import commit
from puridiver.runtime.device import choose_runtime, describe_device
from puridiver.streams.noise import plant
from puridiver.trainers import TRAINERS
from puridiver.trainers.base import TrainerContext

LEDGER = Path(__file__).resolve().parents[1] / "experiments" / "audit" / "audits.jsonl"
NOISES = ("sym-20", "sym-40", "asym-20", "asym-40")
METHODS = ("puridiver", "cleanlab", "cleanlab on ours")
FOLDS = 3


@dataclass(frozen=True)
class Task:
    """A data set of the comparison; `offline_epochs` gives cleanlab's network about the time of our passes."""

    size: int | None
    seeds: tuple[int, ...]
    offline_epochs: int
    options: dict[str, Any]


TASKS = {
    "digits": Task(None, (0, 1, 2, 3, 4), 12, {"flip": False}),
    "cifar10": Task(2_000, (0, 1, 2), 10, {"online_lr": 0.01, "strong": "none"}),
}


def rows_of(name: str, noise: str, seed: int, root: Path | None) -> Iterator[dict[str, Any]]:
    """A row for each method. The seed decides which images are judged and which labels are wrong."""
    source, task = data.load(name, root), TASKS[name]
    rng = np.random.default_rng([2_026, seed])
    chosen = rng.permutation(len(source.train))[: task.size]
    images, true = source.train.images.numpy()[chosen], source.train.labels.numpy()[chosen]
    given = plant(true, source, noise, rng)
    where = {"data": name, "samples": len(given), "noise": noise, "seed": seed}
    started = time.process_time()
    report = audit(images, given, classes=10, network="small", device="cpu", seed=seed, options=task.options)
    seconds = time.process_time() - started
    ours = {"p_correct": report.p_correct, "suspects": report.p_correct < 0.5, "rate": report.noise.rate}
    interval = [report.noise.low, report.noise.high]
    yield row(where, "puridiver", {**ours, "interval": interval}, given != true, seconds)
    yield row(where, "cleanlab on ours", judged_by_cleanlab(report.probabilities, given), given != true, seconds)
    started = time.process_time()
    theirs = judged_by_cleanlab(cross_validated(images, given, task, seed), given)
    yield row(where, "cleanlab", theirs, given != true, time.process_time() - started)


def row(where: dict[str, Any], method: str, found: dict[str, Any], wrong: np.ndarray, seconds: float) -> dict[str, Any]:
    import cleanlab

    return {
        **where, "method": method, **ranking_quality(found["p_correct"], wrong),
        **list_quality(found["suspects"], wrong), "true_rate": float(wrong.mean()), "estimated_rate": found["rate"],
        "interval": found.get("interval"), "cpu_seconds": seconds, "command": "python tools/audit_vs_cleanlab.py",
        "commit": commit(), "device": describe_device(torch.device("cpu")),
        "versions": {"torch": torch.__version__, "cleanlab": cleanlab.__version__, "numpy": np.__version__},
    }  # fmt: skip


def judged_by_cleanlab(probabilities: np.ndarray, given: np.ndarray) -> dict[str, Any]:
    from cleanlab.count import estimate_joint
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    return {
        "p_correct": get_label_quality_scores(given, probabilities),
        "suspects": find_label_issues(given, probabilities, n_jobs=1),
        "rate": float(1 - np.trace(estimate_joint(given, probabilities))),
    }


def cross_validated(images: np.ndarray, given: np.ndarray, task: Task, seed: int) -> np.ndarray:
    """Out-of-fold probabilities of the audit's own network, trained offline with cross-entropy."""
    fold = np.random.default_rng(seed).permutation(len(given)) % FOLDS
    probabilities = np.zeros((len(given), 10))
    shape = (images.shape[1], images.shape[2], images.shape[3])
    chosen = recipes.resolve("official", shape, {}, {**task.options, "schedule": "cosine"})
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()  # (N, C, H, W)
    for k in range(FOLDS):
        held = torch.from_numpy(fold == k)
        generator = torch.Generator().manual_seed(1_000 * seed + k)
        trainer = TRAINERS["plain"](TrainerContext(chosen, "small", 10, shape, choose_runtime("cpu"), generator))
        labels, n = torch.from_numpy(given)[~held], int((~held).sum())
        samples = Samples(pixels[~held], labels, torch.arange(n), torch.zeros(n), torch.full((n,), -1))
        list(trainer.consolidate(samples, task.offline_epochs))
        logits = trainer.models[0].outputs(pixels[held]).logits
        probabilities[held.numpy()] = logits.double().softmax(dim=1).numpy()
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of means over seeds, in percent, a line for each data set, noise and method."""
    frame = pd.DataFrame(rows)
    frame["interval holds"] = [
        None if not i else float(i[0] <= rate <= i[1])
        for i, rate in zip(frame["interval"], frame["true_rate"], strict=True)
    ]
    columns = {
        "ROC area": "auc", "average precision": "average_precision", "precision at half depth": "precision_at_0.5",
        "list: precision": "suspects_precision", "list: recall": "suspects_recall", "true rate": "true_rate",
        "estimated rate": "estimated_rate", "interval holds": "interval holds",
    }  # fmt: skip
    orders = {"data": list(TASKS), "noise": NOISES, "method": METHODS}
    keys = [frame[name].astype(pd.CategoricalDtype(order)) for name, order in orders.items()]
    means = (100 * frame[list(columns.values())].astype(float)).groupby(keys, observed=True).mean().round(1)
    means.columns = pd.Index(columns)
    seconds = frame.groupby(keys, observed=True)["cpu_seconds"].mean().round().astype(int)
    return markdown(means.assign(**{"CPU seconds": seconds}).reset_index().astype(object).fillna("-"))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=tuple(TASKS), default=list(TASKS))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, help="other seeds than those of the table")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--table", action="store_true", help="run nothing, only print the table")
    args = parser.parse_args(words)
    rows = [json.loads(line) for line in args.ledger.read_text().splitlines()] if args.ledger.exists() else []
    done = {(found["data"], found["noise"], found["seed"]) for found in rows}
    cells = [(d, n, s) for d in args.data for s in args.seeds or TASKS[d].seeds for n in args.noise]
    for cell in [] if args.table else cells:
        if cell not in done:
            fresh = list(rows_of(*cell, args.data_root))  # all methods or none, if it is interrupted
            with args.ledger.open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in fresh)
            rows += fresh
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
