"""`puridiver.audit`: which labels of a set look wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from puridiver.auditing.passes import Advance, AuditSettings, LabelledSet, Pass
from puridiver.auditing.report import AuditReport, judge
from puridiver.data.base import DataSource
from puridiver.learner.inputs import Label, as_classes, as_images, as_labels
from puridiver.streams.noise import plant


def audit(
    images: Any,
    labels: Any,
    *,
    classes: int | Iterable[Label] | None = None,
    names: Sequence[str] | None = None,
    advance: Advance = None,
    **settings: Any,
) -> AuditReport:
    """Judge every label of a set: learners see it as a stream, then say which labels do not fit.

    Parameters
    ----------
    images
        uint8 (N, H, W, C), C being 1 or 3, or floats in [0, 1]; (N, H, W) for grey images.
    labels
        One for each image, all integers or all strings.
    classes
        All class labels; by default those that appear, sorted.
    names
        A name or path for each image, to be shown in lists.
    advance
        Called with an amount of work done and a text, for a progress bar.
    settings
        Fields of `AuditSettings`, or options of the learners: `passes=5, seed=1`.

    Examples
    --------
    >>> import numpy as np, puridiver
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(60) % 2
    >>> images = (rng.integers(60, size=(60, 8, 8)) + 150 * labels[:, None, None]).astype(np.uint8)
    >>> labels[7] = 0  # it shows a 1
    >>> report = puridiver.audit(images, labels, passes=1, memory=20, flip=False, epochs=3)
    >>> int(report.ranking()[0])
    7
    """
    return audit_set(as_labelled_set(images, labels, classes, names), AuditSettings.of(**settings), advance)


def audit_set(labelled: LabelledSet, settings: AuditSettings, advance: Advance = None) -> AuditReport:
    """Judge every label of a checked set."""
    settings = settings.resolved(labelled)
    with settings.threads():
        passes = [Pass(labelled, settings, number, advance) for number in range(settings.passes)]
        return judge([each.predict(each.run()) for each in passes], labelled, settings)


def as_labelled_set(
    images: Any, labels: Any, classes: int | Iterable[Label] | None, names: Sequence[str] | None
) -> LabelledSet:
    """Check what a user hands over."""
    shape = (*np.shape(images), 1)[:4]
    if len(shape) != 4 or shape[3] not in (1, 3):
        raise ValueError(f"images should have the shape (N, H, W) or (N, H, W, 1 or 3), but got {np.shape(images)}")
    pixels = as_images(images, (shape[1], shape[2], shape[3]))
    given = as_labels(labels, len(pixels))
    if names is not None and len(names) != len(given):
        raise ValueError(f"names should have one entry for each of the {len(given)} images, but got {len(names)}")
    found = as_classes(classes if classes is not None else sorted(set(given)))
    ids = {label: i for i, label in enumerate(found)}
    if unknown := [label for label in given if label not in ids]:
        raise ValueError(f"labels should be among the classes {found!r:.200}, but got {unknown[0]!r}")
    return LabelledSet(pixels, np.array([ids[label] for label in given]), found, list(names) if names else None)


def choose_set(
    source: DataSource, split: str, limit: int | None, noise: str | None, seed: int
) -> tuple[LabelledSet, np.ndarray, np.ndarray | None]:
    """The set to audit, its rows in the part `split`, and its true labels, None where none is known.

    `limit` draws so many samples at random. `noise` ("sym-20") puts labels wrong first.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split should be train or test, but got {split!r:.40}")
    part = getattr(source, split)
    rows = np.sort(np.random.default_rng(seed).permutation(len(part))[:limit])
    chosen = torch.from_numpy(rows)
    given, true = part.labels[chosen].numpy(), None
    if noise is not None:
        true = part.best_labels[chosen].numpy()
        given = plant(true, source, noise, np.random.default_rng(seed))
        if not 0 < (wrong := int((given != true).sum())) < len(true):
            raise ValueError(f"noise should put some labels wrong, but {noise} puts {wrong} of {len(true)} wrong")
    elif part.true is not None and part.truth_known:
        true = part.true[chosen].numpy()
    shortened = len(rows) < len(part)
    names = [part.names[row] if part.names else f"{split} {row}" for row in rows.tolist()]
    images = part.images[chosen] if shortened else part.images
    named = names if part.names or shortened else None
    return LabelledSet(images, given, list(source.class_names), named), rows, true
