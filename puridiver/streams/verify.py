"""Checks a manifest against the data it claims to belong to."""

from __future__ import annotations

from puridiver.data.base import DataSource
from puridiver.streams.build import make_stream, realised_noise
from puridiver.streams.manifest import CUSTOM, StreamManifest
from puridiver.streams.noise import noise_kind
from puridiver.streams.stream import how_data_differ
from puridiver.streams.tasks import CUTTERS


def verify(manifest: StreamManifest, source: DataSource) -> list[str]:
    """What is wrong with the manifest, one line a problem; empty when all is well.

    Checks that it belongs to this data, that its realised noise is what the data say, and, for streams made
    by seed, that making it again gives the same stream. Of one made by hand (custom) order and labels are what they
    are; only labels that are said to be the data's own are compared with these. (Whether a file was changed after it
    was written, `StreamManifest.load` has checked.)
    """
    # The other checks would only repeat, in many words, that the data are others.
    return _data_problems(manifest, source) or [
        *_noise_problems(manifest, source),
        *_label_problems(manifest, source),
        *_rebuild_problems(manifest, source),
    ]


def _data_problems(manifest: StreamManifest, source: DataSource) -> list[str]:
    problems = []
    if manifest.source_fingerprint != source.fingerprint:
        cause = how_data_differ(source, manifest)
        problems.append(
            f"the data's fingerprint should be {manifest.source_fingerprint}, but {source.name!r} has "
            f"{source.fingerprint}{f': {cause}' if cause else ''}"
        )
    if manifest.class_names != tuple(source.class_names):
        problems.append(f"the classes should be {manifest.class_names}, but the data have {source.class_names}")
    largest = max((int(part.max()) for part in (manifest.order, manifest.holdout) if len(part)), default=-1)
    if largest >= len(source.train):
        problems.append(f"sample {largest} is used, but the data have only {len(source.train)}")
    return problems


def _noise_problems(manifest: StreamManifest, source: DataSource) -> list[str]:
    measured = realised_noise(manifest.labels, source.train.true_labels.numpy()[manifest.order])
    if measured == manifest.realised_noise:
        return []
    recorded, found = ("not known" if rate is None else f"{rate:.6g}" for rate in (manifest.realised_noise, measured))
    return [f"the realised noise should be {recorded}, but is {found}"]


def _label_problems(manifest: StreamManifest, source: DataSource) -> list[str]:
    """Of a stream made by hand, whose labels no seed can make again: whether those that are the data's own are."""
    if manifest.kind != CUSTOM or manifest.noise != "none":
        return []
    wrong = int((manifest.labels != source.train.labels.numpy()[manifest.order]).sum())
    return [f"{wrong} labels are not the data's own, though the noise is none; it should be custom"] if wrong else []


def _rebuild_problems(manifest: StreamManifest, source: DataSource) -> list[str]:
    # A published stream has no seed to make it from, nor has one made by hand, nor labels that people gave.
    if manifest.kind not in CUTTERS or noise_kind(manifest.noise).from_file:
        return []
    try:
        again = rebuild(manifest, source).to_dict()
    except ValueError as error:
        return [f"the stream cannot be made again from seed {manifest.seed}: {error}"]
    recorded = manifest.to_dict()
    return [
        f"making the stream again from seed {manifest.seed} gives another {name}"
        for name in recorded
        if recorded[name] != again.get(name) and name != "source"  # the same data may go by another name
    ]


def rebuild(manifest: StreamManifest, source: DataSource) -> StreamManifest:
    """Make the stream again from the options and the seed that the manifest records."""
    names = ("kind", "n_tasks", "minor_share", "noise_map", "noise_matrix", "imbalance", "seed", "cut_by")
    options = {name: getattr(manifest, name) for name in names}
    noise = (manifest.noise, manifest.noise_rate)
    return make_stream(source, noise=noise, holdout=len(manifest.holdout), **options)
