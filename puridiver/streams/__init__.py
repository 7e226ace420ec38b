"""Streams: seeded, hashed plans of which sample arrives when, with which (possibly wrong) label."""

from puridiver.streams.build import make_stream, resolve_stream
from puridiver.streams.manifest import Batch, Stream, StreamManifest, TrueLabels
from puridiver.streams.noise import named_map, noise_kind, noise_name

__all__ = [
    "Batch", "Stream", "StreamManifest", "TrueLabels", "make_stream", "named_map", "noise_kind", "noise_name",
    "resolve_stream",
]  # fmt: skip
