"""What became of each sample: a traced run on digits, and what pandas tells of it (docs/methods.md).

python examples/sample_history.py runs/history
"""

import argparse
from pathlib import Path

import pandas as pd

import puridiver


def main():
    parser = argparse.ArgumentParser(description="How long right and wrong labels stay in the memory.")
    parser.add_argument("folder", type=Path, help="where the run goes")
    parser.add_argument("--epochs", type=int, default=15, help="memory epochs a task")
    args = parser.parse_args()

    experiment = puridiver.Experiment(puridiver.RunConfig(data="digits", noise="asym-40", epochs=args.epochs))
    experiment.listeners.append(tell)
    experiment.run(args.folder, trace=args.folder / "samples.csv")

    trace = pd.read_csv(args.folder / "samples.csv")
    end = pd.read_json(args.folder / "metrics.jsonl", lines=True).seen.max()
    wrong = trace.given_label != trace.true_label
    stay = trace.evicted_at.fillna(end) - trace.entered_at
    for name, rows in (("right", ~wrong), ("wrong", wrong)):
        kept = trace.evicted_at[rows].isna().mean()
        print(
            f"of {name} labels that entered ({rows.sum()}) {kept:.0%} were kept; median stay {stay[rows].median():.0f}"
        )
    last = max((name for name in trace if name.startswith("set_")), key=lambda name: int(name.removeprefix("set_")))
    print(wrong.groupby(trace[last]).mean().rename(f"share of wrong labels by {last}"))


def tell(event):
    """A listener: called with every event of the run as it happens."""
    if event["event"] == "task":
        print(f"after task {event['task'] + 1}: accuracy {event['accuracy']:.1%}, purity {event['memory_purity']:.1%}")


if __name__ == "__main__":
    main()
