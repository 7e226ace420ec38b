"""Compares `puridiver.audit` with cleanlab on labels that were put wrong on purpose, and writes docs/AUDIT.md's table.

    python benchmarks/audit_vs_cleanlab.py                     # everything that is not in the ledger yet
    python benchmarks/audit_vs_cleanlab.py --table             # only the table, from the ledger
    python benchmarks/audit_vs_cleanlab.py --data digits --seeds 100 --ledger /tmp/try.jsonl --no-table

Three methods judge the same images and labels:

- puridiver: `puridiver.audit` with its defaults;
- cleanlab: cleanlab's scores, list and noise rate on cross-validated probabilities of the same network, trained
  offline with cross-entropy and the same augmentation, for about the same time;
- cleanlab on ours: the same of cleanlab on the probabilities that our audit exports for it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from puridiver.memory.samples import Samples
from puridiver.recipes import recipe, replaced, suited_to_size

from puridiver import AuditSettings, audit, data
from puridiver.metrics.audit import list_quality, ranking_quality
from puridiver.report import insert_between_markers
from puridiver.runs.ledger import append_row, read_lines
from puridiver.runs.resolve import commit
from puridiver.runtime.device import choose_runtime, describe_device
from puridiver.streams.noise import plant
from puridiver.trainers import TRAINERS, TrainerContext

COMMIT = commit()  # of the code that runs: it may change on the disk meanwhile
ROOT = Path(__file__).resolve().parent.parent
LEDGER, PAGE = ROOT / "results" / "audit.jsonl", ROOT / "docs" / "AUDIT.md"
NOISES = ("sym-20", "sym-40", "asym-20", "asym-40")
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


@dataclass(frozen=True)
class Cell:
    data: str
    noise: str
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        return self.data, self.noise, self.seed


def planted(cell: Cell, root: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, given and true labels of a cell; the seed decides which images and which labels are wrong."""
    source = data.load(cell.data, root)
    rng = np.random.default_rng([2_026, cell.seed])
    rows = rng.permutation(len(source.train))[: TASKS[cell.data].size]
    images, true = source.train.images.numpy()[rows], source.train.labels.numpy()[rows]
    return images, plant(true, source, cell.noise, rng), true


def judged_by_puridiver(images: np.ndarray, given: np.ndarray, cell: Cell) -> tuple[dict[str, Any], np.ndarray]:
    settings = AuditSettings(network="small", device="cpu", seed=cell.seed, options=TASKS[cell.data].options)
    report = audit(images, given, classes=10, settings=settings)
    result = {"p_correct": report.p_correct, "suspects": report.p_correct < 0.5, "rate": report.noise.rate,
              "interval": [report.noise.low, report.noise.high]}  # fmt: skip
    return result, report.probabilities


def judged_by_cleanlab(probabilities: np.ndarray, given: np.ndarray) -> dict[str, Any]:
    from cleanlab.count import estimate_joint
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    return {
        "p_correct": get_label_quality_scores(given, probabilities),
        "suspects": find_label_issues(given, probabilities, n_jobs=1),
        "rate": float(1 - np.trace(estimate_joint(given, probabilities))),
        "interval": None,
    }


def cross_validated(images: np.ndarray, given: np.ndarray, cell: Cell) -> np.ndarray:
    """Out-of-fold probabilities of the audit's own network, trained offline with cross-entropy."""
    fold = np.random.default_rng(cell.seed).permutation(len(given)) % FOLDS
    probabilities = np.zeros((len(given), 10))
    for k in range(FOLDS):
        held = fold == k
        trainer = trained_offline(images[~held], given[~held], cell, k)
        pixels = torch.from_numpy(images[held]).permute(0, 3, 1, 2).contiguous()
        probabilities[held] = trainer.probabilities(pixels).double().numpy()
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def trained_offline(images: np.ndarray, given: np.ndarray, cell: Cell, fold: int) -> Any:
    task, shape = TASKS[cell.data], tuple(images.shape[1:])
    options = replaced(suited_to_size(recipe("official"), shape), {**task.options, "schedule": "cosine"})
    generator = torch.Generator().manual_seed(1_000 * cell.seed + fold)
    context = TrainerContext(options, "small", 10, shape, choose_runtime("cpu"), generator)
    n = len(given)
    samples = Samples(torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(given),
                      torch.arange(n), torch.zeros(n))  # fmt: skip
    trainer = TRAINERS["plain"](context)
    for _ in trainer.consolidate(samples, task.offline_epochs):
        pass
    return trainer


def rows_of(cell: Cell, root: Path | None) -> Iterator[dict[str, Any]]:
    """A ledger row for each method on one cell."""
    images, given, true = planted(cell, root)
    started = time.process_time()
    ours, probabilities = judged_by_puridiver(images, given, cell)
    ours_seconds = time.process_time() - started
    yield ledger_row(cell, "puridiver", ours, given, true, ours_seconds)
    yield ledger_row(cell, "cleanlab on ours", judged_by_cleanlab(probabilities, given), given, true, ours_seconds)
    started = time.process_time()
    theirs = judged_by_cleanlab(cross_validated(images, given, cell), given)
    yield ledger_row(cell, "cleanlab", theirs, given, true, time.process_time() - started)


def ledger_row(
    cell: Cell, method: str, found: dict[str, Any], given: np.ndarray, true: np.ndarray, seconds: float
) -> dict[str, Any]:
    import cleanlab

    wrong = given != true
    return {
        "data": cell.data, "samples": len(given), "noise": cell.noise, "seed": cell.seed, "method": method,
        **ranking_quality(found["p_correct"], wrong), **list_quality(found["suspects"], wrong),
        "true_rate": float(wrong.mean()), "estimated_rate": found["rate"], "interval": found["interval"],
        "cpu_seconds": seconds, "command": "python benchmarks/audit_vs_cleanlab.py", "commit": COMMIT,
        "device": describe_device(torch.device("cpu")),
        "versions": {"torch": torch.__version__, "cleanlab": cleanlab.__version__, "numpy": np.__version__},
    }  # fmt: skip


HEADINGS = (
    "data", "noise", "method", "ROC area %", "average precision %", "precision at half depth %",
    "precision at depth 1 %", "recall at depth 1.5 %", "list: precision / recall %", "noise rate: estimate (true) %",
    "in interval", "CPU seconds", "seeds",
)  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, one line for each data set, noise and method: means over seeds, ± standard deviation."""
    groups: dict[tuple[str, str, str], dict[int, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["noise"], row["method"]), {})[row["seed"]] = row
    order = {method: i for i, method in enumerate(("puridiver", "cleanlab", "cleanlab on ours"))}
    keys = sorted(groups, key=lambda k: (list(TASKS).index(k[0]), NOISES.index(k[1]), order[k[2]]))
    lines = [_line(key, list(groups[key].values())) for key in keys]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (HEADINGS, ("---",) * len(HEADINGS), *lines))


def _line(key: tuple[str, str, str], rows: list[dict[str, Any]]) -> tuple[str, ...]:
    def percent(name: str, digits: int = 1) -> str:
        values = [100 * row[name] for row in rows]
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.{digits}f}{spread}"

    both = f"{_mean(rows, 'suspects_precision')} / {_mean(rows, 'suspects_recall')}"
    held = [row["interval"][0] <= row["true_rate"] <= row["interval"][1] for row in rows if row["interval"]]
    return (
        f"{key[0]} ({rows[0]['samples']:,})", key[1], key[2], percent("auc", 2), percent("average_precision"),
        percent("precision_at_0.5"), percent("precision_at_1"), percent("recall_at_1.5"), both,
        f"{percent('estimated_rate')} ({_mean(rows, 'true_rate')})",
        f"{sum(held)} of {len(held)}" if held else "-",
        f"{statistics.mean(row['cpu_seconds'] for row in rows):.0f}", str(len(rows)),
    )  # fmt: skip


def _mean(rows: list[dict[str, Any]], name: str) -> str:
    return f"{100 * statistics.mean(row[name] for row in rows):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=tuple(TASKS), default=list(TASKS))
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--seeds", nargs="+", type=int, help="other seeds than those of the table")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    parser.add_argument("--table", action="store_true", help="run nothing, only write the table")
    parser.add_argument("--no-table", action="store_true", help="leave docs/AUDIT.md as it is")
    args = parser.parse_args()
    done = (
        {(row["data"], row["noise"], row["seed"]) for row in read_lines(args.ledger)}
        if args.ledger.exists()
        else set()
    )
    cells = [Cell(d, n, s) for d in args.data for s in args.seeds or TASKS[d].seeds for n in args.noise]
    for cell in [] if args.table else cells:
        if cell.key not in done:
            for row in list(rows_of(cell, args.data_root)):  # all methods or none, if it is interrupted
                append_row(args.ledger, row)
                shown = {k: row[k] for k in ("method", "auc", "average_precision", "estimated_rate", "cpu_seconds")}
                sys.stderr.write(f"{cell.key} {json.dumps(shown)}\n")
    if not args.no_table:
        insert_between_markers(PAGE, "audit", table(read_lines(args.ledger)))


if __name__ == "__main__":
    main()
