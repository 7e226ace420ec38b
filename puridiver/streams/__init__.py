"""Streams: seeded, hashed plans of which sample arrives when, with which (possibly wrong) label."""

from puridiver.streams.blurry import blurry_tasks
from puridiver.streams.build import make_stream
from puridiver.streams.custom import custom_stream, write_manifest
from puridiver.streams.disjoint import disjoint_tasks
from puridiver.streams.manifest import StreamManifest
from puridiver.streams.noise import (
    NAMED_MAPS,
    NOISE_KINDS,
    asymmetric,
    named_map,
    next_class_map,
    noise_kind,
    noise_name,
    parse_noise,
    spr_cifar10_map,
    symmetric,
)
from puridiver.streams.official import find_official, from_json, from_npz
from puridiver.streams.official_json import test_order_from_json
from puridiver.streams.specs import resolve_stream
from puridiver.streams.stream import Batch, Stream, TrueLabels
from puridiver.streams.tasks import Tasks
from puridiver.streams.verify import rebuild, verify

__all__ = [
    "NAMED_MAPS",
    "NOISE_KINDS",
    "Batch",
    "Stream",
    "StreamManifest",
    "Tasks",
    "TrueLabels",
    "asymmetric",
    "blurry_tasks",
    "custom_stream",
    "disjoint_tasks",
    "find_official",
    "from_json",
    "from_npz",
    "make_stream",
    "named_map",
    "next_class_map",
    "noise_kind",
    "noise_name",
    "parse_noise",
    "rebuild",
    "resolve_stream",
    "spr_cifar10_map",
    "symmetric",
    "test_order_from_json",
    "verify",
    "write_manifest",
]
