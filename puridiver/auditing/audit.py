"""`puridiver.audit`: which labels of a set look wrong."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from puridiver.auditing.passes import INFER_AT_ONCE, Advance, AuditSettings, LabelledSet, run_pass, silent
from puridiver.auditing.report import AuditReport, judge
from puridiver.data.base import DataSource
from puridiver.learner.datasets import KEYS, collected
from puridiver.learner.inputs import Label, as_batch, as_classes, as_labels, channels_first, shape_of
from puridiver.nets import as_backbone, is_backbone
from puridiver.runtime.device import choose_runtime, steady_threads
from puridiver.streams.noise import plant


def audit(
    images: Any,
    labels: Any = None,
    *,
    classes: int | Iterable[Label] | None = None,
    names: Sequence[str] | None = None,
    keys: Sequence[str] = KEYS,
    advance: Advance = silent,
    **settings: Any,
) -> AuditReport:
    """Judge every label of a set: learners see it as a stream, then say which labels do not fit.

    Parameters
    ----------
    images
        uint8 (N, H, W, C) or (N, C, H, W), C being 1 or 3, or floats in [0, 1]; (N, H, W) for grey images. Or vectors,
        floats (N, d). Or a torch Dataset or DataLoader or a Hugging Face Dataset, which brings the labels.
    labels
        One for each image, all integers or all strings; None where the source brings them.
    classes
        All class labels; by default those that appear, sorted.
    names
        A name or path for each image, to be shown in lists.
    keys
        Names of image and label in the items of a source that are dicts.
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
    if labels is None:
        images, labels = collected(images, keys)
    labelled = as_labelled_set(images, labels, classes, names)
    own = {name: settings.pop(name) for name in list(settings) if name not in AuditSettings.__dataclass_fields__}
    return audit_set(labelled, AuditSettings(**{**settings, "options": settings.get("options", {}) | own}), advance)


def audit_set(labelled: LabelledSet, settings: AuditSettings, advance: Advance = silent) -> AuditReport:
    """Judge every label of a checked set."""
    if is_backbone(settings.network):
        labelled, settings = _features(labelled, settings), replace(settings, network="auto")
    settings = settings.resolved(labelled)
    with steady_threads(choose_runtime(settings.device).device, settings.network):  # the same figures everywhere
        return judge([run_pass(labelled, settings, n, advance) for n in range(settings.passes)], labelled, settings)


def _features(labelled: LabelledSet, settings: AuditSettings) -> LabelledSet:
    """The set as features of a frozen backbone."""
    backbone, runtime = as_backbone(settings.network), choose_runtime(settings.device)
    if backbone is None or not backbone.is_frozen:
        raise ValueError("an audit takes a frozen backbone: leave its rate out")
    runtime.place(backbone.module)
    backbone.width(tuple(labelled.images.shape[1:]))  # can it take these images?
    parts = (runtime.move(channels_first(part)) for part in labelled.images.split(INFER_AT_ONCE))
    return replace(labelled, images=torch.cat([backbone.features(part).cpu() for part in parts]))


def as_labelled_set(
    images: Any, labels: Any, classes: int | Iterable[Label] | None, names: Sequence[str] | None
) -> LabelledSet:
    """Check a user's images and labels."""
    pixels = as_batch(images, shape_of(images))
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
) -> tuple[LabelledSet, np.ndarray | None]:
    """The part `split` of a source as the set to audit, and its true labels, None where none is known.

    `limit` draws so many samples at random. `noise` ("sym-20") puts labels wrong first.
    """
    part, true = getattr(source, split), None
    rows = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(part))[:limit]))
    given, shortened = part.labels[rows].numpy(), len(rows) < len(part)
    if noise is not None:
        true = part.best_labels[rows].numpy()
        given = plant(true, source, noise, np.random.default_rng(seed))
        if not 0 < (wrong := int((given != true).sum())) < len(true):
            raise ValueError(f"noise should put some labels wrong, but {noise} puts {wrong} of {len(true)} wrong")
    elif part.true is not None and part.truth_known:
        true = part.true[rows].numpy()
    names = None
    if part.names or shortened:
        names = [part.names[row] if part.names else f"{split} {row}" for row in rows.tolist()]
    return LabelledSet(part.images[rows] if shortened else part.images, given, list(source.class_names), names), true
