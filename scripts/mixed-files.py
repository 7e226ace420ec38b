"""How runs on the published files that mix their tasks (symmetric noise, seed 1) differ from those on the others.

    python scripts/mixed-files.py results/cifar10.jsonl

First what shuffling the files' tasks (row 23 of docs/FIDELITY.md) changes under each noise. Then of symmetric noise the
runs in the order of the files, seed 1 less the mean of the other seeds, and shuffled less listed by whether the file
was mixed before. bfloat16, test set; without the recipe `paper`, which does not learn. Of a seed the newest run counts,
and settings are told apart as on the results page. Errors take every pair for a draw of its own, though those of one
seed share its permutation: true ones are larger.
"""

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from puridiver.grid.page.tables import spelt_out
from puridiver.report.ledger import read_rows
from puridiver.streams.names import has_order, is_published
from puridiver.streams.noise import noise_name

MIXED_SEED = 1
Runs = dict[tuple[str, ...], dict[int, float]]  # of each setting and noise the last accuracy of each seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path)
    rows = [spelt_out(row) for row in read_rows(parser.parse_args().ledger)]
    listed, shuffled = (runs_in(order, rows) for order in ("listed", "shuffled"))
    print("Shuffled less listed, noise by noise, of what has two pairs or more:")
    for key in sorted(listed.keys() & shuffled.keys()):
        pairs = [shuffled[key][seed] - accuracy for seed, accuracy in listed[key].items() if seed in shuffled[key]]
        if len(pairs) > 1:
            print(f"{_summary(pairs)}, {len(pairs)} pairs: {' '.join(key)}")
    listed, shuffled = _symmetric(listed), _symmetric(shuffled)
    print("Symmetric noise in the order of the files, seed 1 less the mean of the others:")
    both = {key: runs for key, runs in listed.items() if MIXED_SEED in runs and len(runs) > 1}
    differences = [runs[MIXED_SEED] - statistics.mean(_others(runs)) for runs in both.values()]
    for key, difference in zip(both, differences, strict=True):
        print(f"{difference:+6.2f}  {' '.join(key)}")
    print(f"{len(differences)} settings and noises: {_summary(differences)}")
    print("Symmetric noise, shuffled less listed:")
    for name, mixed in (("mixed before", True), ("in blocks before", False)):
        found = [
            shuffled[key][seed] - accuracy
            for key in listed.keys() & shuffled.keys()
            for seed, accuracy in listed[key].items()
            if seed in shuffled[key] and (seed == MIXED_SEED) == mixed
        ]
        print(f"{name}: {len(found)} pairs, {sum(d > 0 for d in found)} of them higher: {_summary(found)}")


def runs_in(order: str, rows: Sequence[dict]) -> Runs:
    settings: Runs = defaultdict(dict)
    for row in rows:
        in_order = is_published(row["stream"]) and has_order(row["stream"], order)
        counts = row["evaluated_on"] == "test" and not row["shortened"] and row.get("precision") == "bfloat16"
        if in_order and counts and row["recipe"] != "paper":
            changed = json.dumps(row["options_changed"], sort_keys=True)
            key = (row["sampler"], row["trainer"], changed, noise_name(row["noise"], row["noise_rate"]))
            settings[key][row["seed"]] = 100 * row["last_accuracy"]
    return settings


def _symmetric(runs: Runs) -> Runs:
    return {key: of_seeds for key, of_seeds in runs.items() if key[-1].startswith("sym")}


def _others(runs: dict[int, float]) -> list[float]:
    return [accuracy for seed, accuracy in runs.items() if seed != MIXED_SEED]


def _summary(differences: Sequence[float]) -> str:
    if len(differences) < 2:
        return "too few"
    mean, deviation = statistics.mean(differences), statistics.stdev(differences)
    error = deviation / math.sqrt(len(differences))
    return f"{mean:+.2f} points, standard deviation {deviation:.2f}, standard error {error:.2f}"


if __name__ == "__main__":
    main()
