"""Writes split files in the published formats, for the tests of their import."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from puridiver.data.base import DataSource
from puridiver.streams import StreamManifest


def class_order(manifest: StreamManifest) -> list[int]:
    """Class ids in the order in which a published split would number them."""
    return [c for group in manifest.major_classes for c in group]


def write_npz(path: Path, manifest: StreamManifest) -> Path:
    prefix = f"{manifest.noise}{round(100 * manifest.noise_rate)}_seed{manifest.seed}_"
    arrays = {"index": manifest.order, "label": manifest.labels, "order": np.array(class_order(manifest))}
    np.savez(path, **{prefix + key: value.astype(np.uint16) for key, value in arrays.items()})
    return path


def write_json(folder: Path, source: DataSource, manifest: StreamManifest) -> list[Path]:
    """One file a task. Files of web images have their names; others are train/class/NUMBER.png, numbered by class."""
    true, seen = source.train.labels.tolist(), [0] * len(source.class_names)
    names = [name.split("/", 1)[1] for name in source.train.names or ()]
    for label in () if names else true:
        seen[label] += 1
        names.append(f"train/{source.class_names[label]}/{seen[label]:04d}.png")
    number = {c: place for place, c in enumerate(class_order(manifest))}
    prefix, noise = source.name, f"{manifest.noise}N{round(100 * manifest.noise_rate)}_"
    if source.train.names is not None:
        prefix, noise = "WebVision-V1-2", ""
    paths = []
    for task in range(manifest.n_tasks):
        part = manifest.task_slice(task)
        rows = [
            {"file_name": names[i], "label": number[given], "true_label": number[true[i]]}
            for i, given in zip(manifest.order[part].tolist(), manifest.labels[part].tolist(), strict=True)
        ]
        if source.train.names is not None:
            rows = [{"file_name": row["file_name"], "label": row["label"]} for row in rows]
        classes = manifest.n_classes // manifest.n_tasks
        paths.append(folder / f"{prefix}_train_blurry10_{noise}rand{manifest.seed}_cls{classes}_task{task}.json")
        paths[-1].write_text(json.dumps(rows))
    return paths
