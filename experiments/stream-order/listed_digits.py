"""Writes digits streams in the form of the published split files: equal tasks, major classes first (row 23).

python experiments/stream-order/listed_digits.py runs/digits-splits/digits.npz
puridiver grid experiments/stream-order/digits.toml --splits runs/digits-splits
"""

import argparse
import itertools
from pathlib import Path

import numpy as np

from puridiver import data
from puridiver.streams import StreamManifest, make_stream

NOISES, SEEDS, TASKS = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40"), range(1, 6), 5


def major_first(manifest: StreamManifest) -> tuple[np.ndarray, np.ndarray]:
    """Index and label of the stream's samples, cut into equal tasks, those of a task's major classes first in each."""
    n = len(manifest)
    ends = [n * task // TASKS for task in range(TASKS + 1)]
    order = [
        start + np.argsort(~np.isin(manifest.labels[start:end], major), kind="stable")
        for (start, end), major in zip(itertools.pairwise(ends), manifest.major_classes, strict=True)
    ]
    return manifest.order[np.concatenate(order)], manifest.labels[np.concatenate(order)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the .npz file")
    out = parser.parse_args().out
    source, arrays = data.load("digits"), {}
    for noise in NOISES:
        for seed in SEEDS:
            manifest = make_stream(source, kind="blurry", minor_share=0.1, n_tasks=TASKS, noise=noise, seed=seed)
            name = f"{noise.replace('-', '')}_seed{seed}"
            arrays[f"{name}_index"], arrays[f"{name}_label"] = major_first(manifest)
            arrays[f"{name}_order"] = np.array([c for classes in manifest.major_classes for c in classes])
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **arrays)


if __name__ == "__main__":
    main()
