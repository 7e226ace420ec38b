"""Rank arriving labels by several ways of judging them, before each is learnt, and compare with the truth.

python run.py STREAMS verdicts.jsonl --streams fashion-late mnist-pairs --seeds 11

STREAMS is the folder that ../ordinary-streams/make_data.py writes.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import rankdata

from puridiver import Learner, __version__
from puridiver.learner.verdicts import NEIGHBOURS, Neighbours, votes

ARRIVALS = {"fashion-late": 3000, "mnist-pairs": 3000, "cifar10-clean": 3000, "digits-drift": 897}  # others: all
EPOCHS = 31


def area(scores: np.ndarray, right: np.ndarray) -> float | None:
    """The ROC area: how often a right label has a higher score than a wrong one."""
    known = np.isfinite(scores)
    ranks, right = rankdata(scores[known]), right[known]
    n, wrong = right.sum(), (~right).sum()
    return float((ranks[right].sum() - n * (n + 1) / 2) / (n * wrong)) if n and wrong else None


def calibration_error(p: np.ndarray, right: np.ndarray) -> float:
    """The expected difference between a probability and the share of right labels, in ten bins."""
    known = np.isfinite(p)
    bins, p, right = (p[known] * 10).clip(0, 9).astype(int), p[known], right[known]
    return float(sum(abs((p - right)[bins == b].sum()) for b in range(10)) / len(p))


def margin(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """By how much the label's log-probability leads that of the best other class."""
    logs, own = p.clamp(min=1e-7).log(), F.one_hot(y, p.shape[1]).bool()
    return logs[own] - logs.masked_fill(own, -torch.inf).amax(dim=1)


class Judges:
    """Stands between a learner and its predictor, and notes what each way says of the arriving labels."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.judge = learner, learner.predictor.judge
        self.found: dict[str, list[torch.Tensor]] = {}
        n = len(learner.classes)
        self.confusion = torch.full((n, n), 3 / (n - 1)).fill_diagonal_(27)  # 30 pseudo-counts a class, 90 % right
        learner.predictor.judge = self  # type: ignore[method-assign, assignment]

    def __call__(self, x: torch.Tensor, y: torch.Tensor, wanted: bool = True) -> torch.Tensor | None:
        model, held, n = self.learner.trainer.models[0], self.learner.memory.held(), len(self.learner.classes)
        live, answer = self.learner.predictor._probabilities(x), self.judge(x, y, wanted)
        assert answer is not None
        pixels = features = answer
        if len(held):
            pixels = Neighbours().votes(x, held, n)
            unit = F.normalize(model.outputs(torch.cat([x, held.images])).features, dim=1)
            features = votes(unit[: len(x)] @ unit[len(x) :].T, held.labels, n, NEIGHBOURS, 0.1)
        both = (answer + pixels) / 2
        joint = both * (self.confusion / self.confusion.sum(1, keepdim=True))[:, y].T
        joint /= joint.sum(1, keepdim=True)
        self.confusion += joint.T @ F.one_hot(y, n).float()
        ways = {
            "live network": live, "what answers": answer, "neighbours by pixels": pixels,
            "neighbours by features": features, "answer + pixels": both, "answer + features": (answer + features) / 2,
            "answer + pixels + features": (answer + pixels + features) / 3, "answer + pixels, noise matrix": joint,
        }  # fmt: skip
        for name, p in ways.items():
            self.found.setdefault(name, []).append(p.gather(1, y[:, None]).squeeze(1))
        self.found.setdefault("what answers, margin", []).append(margin(answer, y))
        return answer


def measure(folder: Path, name: str, seed: int, commit: str) -> dict:
    """One learner on one stream: three consolidations, a memory of a fifth of the images and at most 500."""
    data = np.load(folder / f"{name}.npz")
    rows = slice(ARRIVALS.get(name))
    x, y, true = (data[key][rows] for key in ("train_images", "train_labels", "train_true_labels"))
    size, right = 1 if name == "digits-single" else 16, y == true
    learner = Learner(int(y.max()) + 1, x.shape[1:], min(500, len(x) // 5), seed=seed, epochs=EPOCHS, device="cpu")
    judges, p_right, suggested, thirds = Judges(learner), [], [], [len(x) * k // 3 for k in (1, 2, 3)]
    start = time.process_time()
    for first in range(0, len(x), size):
        seen = learner.observe(x[first : first + size], y[first : first + size])
        p_right.append(seen.p_right)
        suggested += seen.suggested
        if any(first < end <= first + size for end in thirds):
            learner.consolidate()
    scores = {way: torch.cat(found).numpy() for way, found in judges.found.items()}
    scores["p_right"] = p = np.concatenate(p_right)
    scores["final network"] = learner.predict_proba(x)[np.arange(len(y)), y]
    ends = [0, *thirds]
    return {
        "stream": name, "seed": seed, "samples": len(y), "wrong": float((~right).mean()),
        "area": {way: area(s, right) for way, s in scores.items()},
        "area_by_third": {
            way: [area(scores[way][a:b], right[a:b]) for a, b in itertools.pairwise(ends)]
            for way in ("what answers", "p_right", "final network")
        },
        "without_verdict": int(np.isnan(p).sum()), "mean_p_right": float(np.nanmean(p)),
        "calibration_error": calibration_error(p, right), "noise_rate_at_end": learner.status()["noise_rate"],
        "suggested_is_true": float((np.array(suggested) == true).mean()), "cpu_seconds": time.process_time() - start,
        "version": __version__, "torch": torch.__version__, "commit": commit,
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--streams", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--commit", default="", help="of the code, for the record")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.streams:
        for seed in asked.seeds:
            row = measure(asked.folder, name, seed, asked.commit)
            with asked.ledger.open("a") as ledger:
                ledger.write(json.dumps(row) + "\n")
