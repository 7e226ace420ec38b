"""What the learner sees of a stream (`Stream`), and what only the metrics see (`TrueLabels`)."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from puridiver.data.base import DataSource
from puridiver.errors import ManifestError
from puridiver.streams.checks import require
from puridiver.streams.manifest import StreamManifest


class Batch(NamedTuple):
    """Samples that arrive together."""

    images: Tensor  # uint8, (B, H, W, C)
    labels: Tensor  # int64, (B,): given labels, possibly wrong
    positions: Tensor  # int64, (B,): arrival numbers
    task: int
    names: list[str] | None = None  # where each image came from, if the data tell it


class Stream:
    """The images of a source with the labels and the order of a manifest. It holds no true labels."""

    def __init__(self, source: DataSource, manifest: StreamManifest) -> None:
        check_belongs(source, manifest)
        self.manifest, self.n_tasks = manifest, manifest.n_tasks
        self._images, self._names = source.train.images, source.train.names
        self._order, self._labels = torch.tensor(manifest.order), torch.tensor(manifest.labels)

    def __len__(self) -> int:
        return len(self._order)

    def batches(self, batch_size: int, task: int | None = None) -> Iterator[Batch]:
        """Batches in arrival order, of one task or of all; none crosses the end of a task."""
        require(batch_size >= 1, "batch_size", "at least 1", batch_size)
        for number in range(self.n_tasks) if task is None else (task,):
            part = self.manifest.task_slice(number)
            for start in range(part.start, part.stop, batch_size):
                yield self.read(number, start, min(start + batch_size, part.stop))

    def read(self, task: int, start: int, stop: int) -> Batch:
        """The arrivals from `start` to `stop`, all of one task. Images are read now: a large set stays in its file."""
        rows = self._order[start:stop]
        names = None if self._names is None else [self._names[row] for row in rows.tolist()]
        return Batch(self._images[rows], self._labels[start:stop], torch.arange(start, stop), task, names)


class TrueLabels(NamedTuple):
    """What only the metrics may know of each arrival, never a learner; (N,) each, on the CPU."""

    true: Tensor  # class ids, UNKNOWN where nobody knows
    given: Tensor  # class ids, as they arrived

    @classmethod
    def of(cls, source: DataSource, manifest: StreamManifest) -> "TrueLabels":
        """The true labels of a stream."""
        check_belongs(source, manifest)
        rows = torch.tensor(manifest.order)
        return cls(source.train.true_labels[rows], torch.tensor(manifest.labels))


def check_belongs(source: DataSource, manifest: StreamManifest) -> None:
    """Refuse a manifest that was made for other data."""
    if manifest.source_fingerprint != source.fingerprint:
        raise ManifestError(
            f"the manifest belongs to {manifest.source!r}, but {source.name!r} is other data or was read otherwise: "
            "say the same --data, --image-size, --test-share, --bad-files and --trust-labels as then"
        )
    if max(manifest.order.max(initial=-1), manifest.holdout.max(initial=-1)) >= len(source.train):
        raise ManifestError(
            f"order and holdout should name samples below {len(source.train)}, as many as the data have"
        )
