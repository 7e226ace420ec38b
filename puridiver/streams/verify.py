"""Checks a manifest against the data it claims to belong to."""

from __future__ import annotations

from puridiver.data.base import DataSource
from puridiver.streams.build import make_stream, realised_noise
from puridiver.streams.manifest import CUSTOM, StreamManifest
from puridiver.streams.noise import noise_kind
from puridiver.streams.tasks import CUTTERS


def verify(manifest: StreamManifest, source: DataSource) -> list[str]:
    """What is wrong with the manifest, one line a problem; empty when all is well.

    Checks that it belongs to this data, that its realised noise is what the data say, and, for streams made
    by seed, that making it again gives the same stream. Of one made by hand (custom) order and labels are what they
    are; only labels that are said to be the data's own are compared with these. (Whether a file was changed after it
    was written, `StreamManifest.load` has checked.)
    """
    problems = []
    if manifest.source_fingerprint != source.fingerprint:
        told = f"the data's fingerprint should be {manifest.source_fingerprint}, but {source.name!r} has"
        problems.append(f"{told} {source.fingerprint}: these are other data, or files were read otherwise")
    if manifest.class_names != tuple(source.class_names):
        problems.append(f"the classes should be {manifest.class_names}, but the data have {source.class_names}")
    largest = max([*manifest.order.tolist(), *manifest.holdout.tolist()], default=-1)
    if largest >= len(source.train):
        problems.append(f"sample {largest} is used, but the data have only {len(source.train)}")
    if problems:  # the other checks would only repeat, in many words, that the data are others
        return problems
    measured = realised_noise(manifest.labels, source.train.true_labels.numpy()[manifest.order])
    if measured != manifest.realised_noise:
        problems.append(f"the realised noise should be {manifest.realised_noise}, but is {measured}")
    wrong = int((manifest.labels != source.train.labels.numpy()[manifest.order]).sum())
    if manifest.kind == CUSTOM and manifest.noise == "none" and wrong:
        problems.append(f"{wrong} labels are not the data's own, though the noise is none; it should be custom")
    return problems + _rebuild_problems(manifest, source)


def _rebuild_problems(manifest: StreamManifest, source: DataSource) -> list[str]:
    # A published stream has no seed to make it from, nor has one made by hand, nor labels that people gave.
    if manifest.kind not in CUTTERS or noise_kind(manifest.noise).from_file:
        return []
    try:
        again = rebuild(manifest, source).to_dict()
    except ValueError as error:
        return [f"the stream cannot be made again from seed {manifest.seed}: {error}"]
    return [
        f"making the stream again from seed {manifest.seed} gives another {name}"
        for name, recorded in manifest.to_dict().items()
        if recorded != again.get(name) and name != "source"  # the same data may go by another name
    ]


def rebuild(manifest: StreamManifest, source: DataSource) -> StreamManifest:
    """Make the stream again from the options and the seed that the manifest records."""
    names = ("kind", "n_tasks", "minor_share", "noise_map", "noise_matrix", "imbalance", "seed", "cut_by")
    options = {name: getattr(manifest, name) for name in names}
    noise = (manifest.noise, manifest.noise_rate)
    return make_stream(source, noise=noise, holdout=len(manifest.holdout), **options)
