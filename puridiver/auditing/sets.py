"""What an audit takes of a data source, and what its labels.csv takes over from it."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import torch

from puridiver.auditing.passes import LabelledSet
from puridiver.data.base import DataSource
from puridiver.streams.noise import plant


def choose_set(
    source: DataSource, split: str, limit: int | None, noise: str | None, seed: int
) -> tuple[LabelledSet, np.ndarray, np.ndarray | None]:
    """The set to audit, its rows in the part `split`, and its true labels, None where none is known.

    `limit` chooses so many samples at random, and `noise` ("sym-20") puts labels wrong first.
    """
    part = getattr(source, split)
    rows = np.sort(np.random.default_rng(seed).permutation(len(part))[:limit])
    chosen, shortened = torch.from_numpy(rows), len(rows) < len(part)
    given, true = part.labels[chosen].numpy(), None
    if noise is not None:
        true = part.best_labels[chosen].numpy()
        given = plant(true, source, noise, np.random.default_rng(seed))
        if not 0 < (wrong := int((given != true).sum())) < len(true):
            raise ValueError(f"noise should put some labels wrong, but {noise} puts {wrong} of {len(true)} wrong")
    elif part.true is not None and part.truth_known:
        true = part.true[chosen].numpy()
    names = None
    if part.names or shortened:
        names = [part.names[row] if part.names else f"{split} {row}" for row in rows.tolist()]
    images = part.images[chosen] if shortened else part.images
    return LabelledSet(images, given, list(source.class_names), names), rows, true


def data_table(source: DataSource, split: str, rows: np.ndarray, images: str) -> pd.DataFrame | None:
    """What the data say of the audited `rows` of a part, and after them, if these are all, of the other part.

    `images` is the folder of the image files, as seen from that of the table. None for data that are no files.
    """
    if getattr(source, split).names is None:
        return None
    parts = {split: rows}
    other = "test" if split == "train" else "train"
    if len(rows) == len(getattr(source, split)) and len(getattr(source, other)):
        parts[other] = np.arange(len(getattr(source, other)))
    classes, frames = np.array([*source.class_names, ""], dtype=object), []  # an unknown class is -1, the last
    for name, chosen in parts.items():
        part = getattr(source, name)
        files, labels = [part.names[row] for row in chosen.tolist()], classes[part.labels.numpy()[chosen]]
        paths = [os.path.join(images, file) for file in files]
        frame = pd.DataFrame({"name": files, "label": labels, "original_label": labels, "path": paths})
        if part.true is not None and part.truth_known:
            frame["true_label"] = classes[part.true.numpy()[chosen]]
        if part.times is not None:
            frame["timestamp"] = part.times.numpy()[chosen]
        frames.append(frame.assign(split=name) if len(parts) > 1 else frame)
    return pd.concat(frames, ignore_index=True)
