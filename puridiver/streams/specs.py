"""Streams by a short text: "blurry-10:sym-40", "disjoint", "time", "official:sym40:1", or the path of a manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from puridiver.data.base import DataSource
from puridiver.streams.build import make_stream
from puridiver.streams.checks import parse_share
from puridiver.streams.manifest import StreamManifest
from puridiver.streams.matrix import PREFIX
from puridiver.streams.names import is_published
from puridiver.streams.noise import parse_noise
from puridiver.streams.official import find_official


def resolve_stream(spec: str, source: DataSource, splits: Path | str | None = None, **options: Any) -> StreamManifest:
    """The stream that a spec names.

    Parameters
    ----------
    spec
        "blurry-10", "blurry-10:sym-40", "disjoint", "disjoint:asym-40", "time": made here; "official:sym40:1":
        published, read from `splits`, each task shuffled ("official:sym40:1:listed": in the files' order); anything
        that ends in .json: the path of a manifest.
    splits
        Where the published split files lie (see `find_official`).
    options
        Those of `make_stream`, for streams that are made here. What the spec says goes before them, and the
        other streams are already made, so that options do not touch them.
    """
    if spec.endswith(".json"):
        return StreamManifest.load(spec)
    if is_published(spec):
        if splits is None:
            raise ValueError(f"{spec!r} is read from the published split files: say where they lie (splits)")
        return find_official(spec, source, splits)
    return make_stream(source, **{**options, **parse_stream(spec)})


def parse_stream(spec: str) -> dict[str, Any]:
    """Read "blurry-10:sym-40" or "disjoint" as options of `make_stream`."""
    tasks, colon, noise = spec.partition(":")
    match = re.fullmatch(r"blurry-?([\d.]+)", tasks)
    if match is None and tasks not in ("disjoint", "time"):
        raise ValueError(
            'a stream should be "blurry-10", "blurry-10:sym-40", "disjoint", "time", "official:sym40:1", '
            f'"official:sym40:1:listed" or the path of a manifest (.json), but got {spec!r}'
        )
    if noise.startswith(PREFIX):
        raise ValueError(
            f"a noise matrix has no place in the name of a stream: say --noise {noise} and --stream {tasks}"
        )
    options: dict[str, Any] = {"kind": tasks}
    if match:
        options = {"kind": "blurry", "minor_share": parse_share(match[1], f"the minor share of {spec!r}")}
    return {**options, "noise": parse_noise(noise)} if colon else options
