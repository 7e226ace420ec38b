"""Writes digits streams in the form of the published split files, each task's major classes first: for row 23.

python scripts/listed-digits.py runs/digits-splits/digits.npz
puridiver grid scripts/stream-order-digits.toml --splits runs/digits-splits --out runs/stream-order-digits
"""

import sys
from pathlib import Path

import numpy as np

from puridiver import data
from puridiver.streams import make_stream

NOISES, SEEDS = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40"), range(1, 6)


def major_first(manifest) -> tuple[np.ndarray, np.ndarray]:
    """Index and label of the stream's samples, those of a task's major classes before the others."""
    parts, start = [], 0
    for end, major in zip(manifest.task_ends, manifest.major_classes, strict=True):
        minor = ~np.isin(manifest.labels[start:end], major)
        parts.append(start + np.argsort(minor, kind="stable"))
        start = end
    order = np.concatenate(parts)
    return manifest.order[order], manifest.labels[order]


def main(path: Path) -> None:
    source = data.load("digits")
    arrays = {}
    for noise in NOISES:
        for seed in SEEDS:
            manifest = make_stream(source, kind="blurry", minor_share=0.1, n_tasks=5, noise=noise, seed=seed)
            name = f"{noise.replace('-', '')}_seed{seed}"
            arrays[f"{name}_index"], arrays[f"{name}_label"] = major_first(manifest)
            arrays[f"{name}_order"] = np.array([c for classes in manifest.major_classes for c in classes])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)


main(Path(sys.argv[1]))
