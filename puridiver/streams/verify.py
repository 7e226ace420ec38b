"""Checks a manifest against the data it claims to belong to."""

from __future__ import annotations

from puridiver.data.base import DataSource
from puridiver.streams.build import CUTTERS, make_stream, realised_noise
from puridiver.streams.manifest import CUSTOM, StreamManifest
from puridiver.streams.noise import noise_kind
from puridiver.streams.stream import how_data_differ
from puridiver.streams.tasks import group_classes


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
    if manifest.kind not in CUTTERS:
        return []  # a published stream has no seed to make it from, nor has one made by hand
    if noise_kind(manifest.noise).from_file:
        return []  # nor have labels that people gave; the manifest's own hash keeps them
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
    return make_stream(
        source,
        kind=manifest.kind,
        n_tasks=manifest.n_tasks,
        minor_share=manifest.minor_share,
        noise=(manifest.noise, manifest.noise_rate),
        noise_map=manifest.noise_map,
        noise_matrix=manifest.noise_matrix,
        imbalance=manifest.imbalance,
        seed=manifest.seed,
        holdout=len(manifest.holdout),
        cut_by=manifest.cut_by,
        rest_to_last=_has_rest_in_last(manifest),
    )


def _has_rest_in_last(manifest: StreamManifest) -> bool:
    """Whether the classes that are left over are all the last task's, as older versions made streams."""
    if manifest.kind == "time":
        return False  # it has no groups of classes
    sizes = [len(group) for group in manifest.major_classes]
    return sizes == [len(group) for group in group_classes(range(manifest.n_classes), len(sizes), rest_to_last=True)]
