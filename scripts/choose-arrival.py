"""Which weight of the loss of arrival the default should have, by a rule that was set down before half of it was run.

    python scripts/choose-arrival.py results/cifar10.jsonl

Of the validation runs of scripts/choose-arrival.toml (the default's recipe, 63 memory epochs a task). A candidate's
gain under a noise is the mean of its differences from the default over the seeds that both have, its gain in all the
mean of these over five noises, and the error of that follows from how the seeds differ. **The rule:** a candidate is
worth the change if it was run under all five noises, with two seeds or more, and gains two standard errors or more in
all; of several the one with the largest gain; of none, the default stays. The last line is the choice, as options of
a run.

The rule takes each noise's error from its own few seeds, and that may be too small by chance: docs/LOG.md.

Rows of the sampler `both-losses` are of a plugin that has become `arrival_weight=1`, and count as that; thirteen pairs
of them were known when the rule was made.
"""

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from puridiver.grid.page.tables import spelt_out
from puridiver.recipes import OFFICIAL
from puridiver.report.ledger import read_rows

NOISES = (("sym", 0.2), ("sym", 0.4), ("sym", 0.6), ("asym", 0.2), ("asym", 0.4))
EPOCHS = 63
WORTH_IT = 2  # standard errors
Candidate = tuple[float, int]  # the weight, the number of views
# As far as accuracies can depend on it; the default may become another.
DEFAULT_THEN = {"online_lr": 0.01, "online_batchnorm": "train", "online_steps": 4}
TODAY_ALONE: Candidate = (0.0, 0)  # the default as it was
Runs = dict[Candidate, dict[tuple[str, float], dict[int, float]]]  # last accuracy by noise and seed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, nargs="+")
    ledgers = parser.parse_args().ledger
    runs = validation_runs([row for ledger in ledgers for row in read_rows(ledger)])
    chosen = choice(runs)
    print("the default stays" if chosen is None else f"arrival_weight={chosen[0]:g} ntd_views={chosen[1]}")


def choice(runs: Runs) -> Candidate | None:
    """By the rule; None where the default stays."""
    gains = {}
    for candidate in sorted(runs.keys() - {TODAY_ALONE}):
        gain = overall_gain(runs[candidate], runs.get(TODAY_ALONE, {}), str(candidate))
        if gain is not None and gain[0] >= WORTH_IT * gain[1]:
            gains[candidate] = gain[0]
    return max(gains, key=gains.__getitem__, default=None)


def validation_runs(rows: list[dict]) -> Runs:
    runs: Runs = defaultdict(lambda: defaultdict(dict))
    for row in map(spelt_out, rows):
        if row["evaluated_on"] == "validation" and row["epochs"] == EPOCHS and row["trainer"] == "puridiver":
            candidate = _candidate(row)
            if candidate is not None:
                runs[candidate][row["noise"], row["noise_rate"]][row["seed"]] = 100 * row["last_accuracy"]
    return runs


def _candidate(row: Mapping) -> Candidate | None:
    """Weight and views, where nothing else is unlike the default."""
    changed = {**row["options_changed"]}
    views = changed.pop("ntd_views", OFFICIAL.ntd_views)
    weight = changed.pop("arrival_weight", OFFICIAL.arrival_weight)
    if row["sampler"] == "both-losses":
        weight = 1.0
    elif row["sampler"] != "puridiver":
        return None
    if changed != {**DEFAULT_THEN, "epochs": EPOCHS}:
        return None
    return (weight, views) if weight else TODAY_ALONE  # whose views nobody looks at


def overall_gain(runs: Mapping, default: Mapping, name: str) -> tuple[float, float] | None:
    """The mean gain over the noises and its standard error, printed on the way; None where runs are missing."""
    means, variances = [], []
    for noise in NOISES:
        of_default = default.get(noise, {})
        differences = [value - of_default[seed] for seed, value in runs.get(noise, {}).items() if seed in of_default]
        line = f"{name} {noise[0]}-{100 * noise[1]:.0f}, {len(differences)} pairs:"
        if len(differences) < 2:
            print(f"{line} too few to judge")
            return None
        means.append(statistics.mean(differences))
        variances.append(statistics.variance(differences) / len(differences))
        print(f"{line} {means[-1]:+.2f} ± {math.sqrt(variances[-1]):.2f}")
    gain, error = statistics.mean(means), math.sqrt(sum(variances)) / len(NOISES)
    print(f"{name} in all: {gain:+.2f} ± {error:.2f}")
    return gain, error


if __name__ == "__main__":
    main()
