"""`puridiver.audit`: which labels of a set look wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from puridiver.auditing.noise_model import put_together
from puridiver.auditing.passes import Advance, run_pass, say_nothing
from puridiver.auditing.report import AuditReport, judge
from puridiver.auditing.settings import AuditSettings
from puridiver.learner.inputs import Label, as_classes, as_images, as_labels

FEWEST = 2  # samples


def audit(
    images: Any,
    labels: Any,
    *,
    classes: int | Iterable[Label] | None = None,
    names: Sequence[str] | None = None,
    settings: AuditSettings | None = None,
    advance: Advance = say_nothing,
    **changes: Any,
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
    settings, changes
        `AuditSettings`, or some of its fields by name: `passes=5, seed=1`.
    advance
        Called with an amount of work done and a text, for a progress bar.

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
    chosen = (settings or AuditSettings()).replaced(**changes)
    pixels, given, found = as_labelled_set(images, labels, classes)
    if names is not None and len(names) != len(given):
        raise ValueError(f"names should have one entry for each of the {len(given)} images, but got {len(names)}")
    chosen = chosen.with_network(tuple(pixels.shape[1:]))
    with chosen.threads():
        testimonies = [run_pass(pixels, given, found, chosen, k, advance)[1] for k in range(chosen.passes)]
    return judge(put_together(testimonies), given, found, chosen, names=list(names) if names else None)


def check_classes(classes: Sequence[Label]) -> None:
    """Raise an error where there is nothing to confuse a class with."""
    if len(classes) < 2:
        have = f"one class only, {str(classes[0])!r}" if classes else "no class"
        raise ValueError(f"an audit asks which of at least 2 classes an image shows, but the data have {have}")


def as_labelled_set(
    images: Any, labels: Any, classes: int | Iterable[Label] | None
) -> tuple[Tensor, np.ndarray, list[Label]]:
    """uint8 (N, H, W, C) images, class ids (N,) and the classes, checked."""
    shape = tuple(images.shape) if hasattr(images, "shape") else np.asarray(images).shape
    if len(shape) == 3:
        shape = (*shape, 1)
    if len(shape) != 4 or shape[3] not in (1, 3):
        raise ValueError(f"images should have the shape (N, H, W) or (N, H, W, 1 or 3), but got {shape}")
    pixels = as_images(images, (shape[1], shape[2], shape[3]))
    given = as_labels(labels, len(pixels))
    if len(given) < FEWEST:
        raise ValueError(f"an audit needs at least {FEWEST} images, but got {len(given)}")
    found = as_classes(classes if classes is not None else sorted(set(given)))
    check_classes(found)
    ids = {label: i for i, label in enumerate(found)}
    unknown = next((label for label in given if label not in ids), None)
    if unknown is not None:
        shown = ", ".join(map(repr, found[:12])) + (", ..." if len(found) > 12 else "")
        raise ValueError(f"labels should be among the classes {shown}, but got {unknown!r}")
    return pixels, np.array([ids[label] for label in given], dtype=np.int64), found
