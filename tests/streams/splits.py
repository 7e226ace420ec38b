"""Writes split files in the published formats, for the tests of their import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from puridiver.data.base import DataSource
from puridiver.streams import StreamManifest

FILE_NAME = "{source}_train_blurry10_{kind}N{percent}_rand{seed}_cls{classes}_task{task}.json"


def class_order(manifest: StreamManifest) -> list[int]:
    """Class ids in the order in which a published split would number them."""
    return [c for group in manifest.major_classes for c in group]


def write_npz(path: Path, manifest: StreamManifest) -> Path:
    prefix = f"{manifest.noise}{round(100 * manifest.noise_rate)}_seed{manifest.seed}_"
    arrays = {"index": manifest.order, "label": manifest.labels, "order": np.array(class_order(manifest))}
    np.savez(path, **{prefix + key: value.astype(np.uint16) for key, value in arrays.items()})
    return path


def image_names(source: DataSource, part: str) -> list[str]:
    """part/class/NUMBER.png for each image, numbered within its class from 1."""
    seen = dict.fromkeys(source.class_names, 0)
    names = []
    for label in getattr(source, part).labels.tolist():
        name = source.class_names[label]
        seen[name] += 1
        names.append(f"{part}/{name}/{seen[name]:04d}.png")
    return names


def train_rows(source: DataSource, manifest: StreamManifest, task: int) -> list[dict[str, Any]]:
    names, true = image_names(source, "train"), source.train.labels.tolist()
    split_id = {c: number for number, c in enumerate(class_order(manifest))}
    part = manifest.task_slice(task)
    return [
        {
            "klass": source.class_names[true[index]],
            "file_name": names[index],
            "label": split_id[given],
            "true_label": split_id[true[index]],
        }
        for index, given in zip(manifest.order[part].tolist(), manifest.labels[part].tolist(), strict=True)
    ]


def write_json(folder: Path, source: DataSource, manifest: StreamManifest) -> list[Path]:
    paths = []
    for task in range(manifest.n_tasks):
        name = FILE_NAME.format(
            source=source.name,
            kind=manifest.noise,
            percent=round(100 * manifest.noise_rate),
            seed=manifest.seed,
            classes=manifest.n_classes // manifest.n_tasks,
            task=task,
        )
        paths.append(folder / name)
        paths[-1].write_text(json.dumps(train_rows(source, manifest, task)))
    return paths
