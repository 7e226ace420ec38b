"""How runs on the published files that mix their tasks (symmetric noise, seed 1) differ from those on the others.

    python scripts/mixed-files.py results/cifar10.jsonl

Of runs in the order of the files (row 23 of docs/FIDELITY.md), in bfloat16 on the test set; without the recipe `paper`,
which does not learn. Of a seed the newest run counts, and settings are told apart as on the results page.
"""

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path

from puridiver.grid.page.tables import spelt_out
from puridiver.report.ledger import read_rows
from puridiver.stream_names import has_order, is_published


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path)
    settings: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    for row in map(spelt_out, read_rows(parser.parse_args().ledger)):
        listed = is_published(row["stream"]) and has_order(row["stream"], "listed")
        counts = row["evaluated_on"] == "test" and not row["shortened"] and row.get("precision") == "bfloat16"
        if listed and counts and row["noise"] == "sym" and row["recipe"] != "paper":
            changed = json.dumps(row["options_changed"], sort_keys=True)
            key = (row["sampler"], row["trainer"], changed, str(row["noise_rate"]))
            settings[key][row["seed"]] = 100 * row["last_accuracy"]
    both = {key: runs for key, runs in settings.items() if 1 in runs and len(runs) > 1}
    differences = [runs.pop(1) - statistics.mean(runs.values()) for runs in both.values()]
    for key, difference in zip(both, differences, strict=True):
        print(f"{difference:+6.2f}  {' '.join(key)}")
    mean, deviation = statistics.mean(differences), statistics.stdev(differences)
    print(f"{len(differences)} settings and noises: {mean:+.2f} points, standard deviation {deviation:.2f}")


if __name__ == "__main__":
    main()
