"""Manifests: written, read, hashed; made by hand; hostile ones refused with the file and the field."""

import dataclasses
import json
import re

import numpy as np
import pytest

import puridiver
from puridiver.errors import ManifestError
from puridiver.streams import Stream, StreamManifest, make_stream, manifest
from puridiver.streams.build import write_manifest

from .samples import small_source

SOURCE = small_source()
MANIFEST = make_stream(SOURCE, n_tasks=3, noise="asym-30", holdout=20, seed=4)

# A value that cannot be, in a file whose hash is right.
DAMAGED = {
    "n_tasks": (4, "each of 4 tasks"),
    "realised_noise": (10**400, "realised_noise"),
    "seed": (10**400, "seed"),
    "noise": (7, "noise should be of type str"),
    "noise_map": ({"1": 10}, "noise_map should be from 0 to 9"),
    "task_ends": ([100, 50, 280], "task_ends should be rising"),
    "holdout": (MANIFEST.order[:1].tolist(), "each sample"),
    "order": ([*range(279), -1], "each sample"),
    "labels": ([10] * 280, "should be from 0 to 9"),
    "ordre": ([], "ordre"),
}


@pytest.fixture
def content(tmp_path):
    MANIFEST.save(tmp_path / "whole.json")
    return json.loads((tmp_path / "whole.json").read_text())


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_a_manifest_reads_back_as_it_was_saved(tmp_path):
    MANIFEST.save(tmp_path / "stream.json")
    again = StreamManifest.load(tmp_path / "stream.json")
    assert again == MANIFEST
    assert again.to_dict() == MANIFEST.to_dict()
    assert again.order.dtype == np.int64
    assert again != dataclasses.replace(MANIFEST, seed=9)
    with pytest.raises(ValueError, match="read-only"):
        again.labels[0] = 1
    true = SOURCE.train.labels[MANIFEST.order.tolist()].tolist()
    assert all(value != true for value in again.to_dict().values())


@pytest.mark.parametrize("name", ["seed", "order", "content_hash"])
def test_a_change_of_any_field_is_detected_by_the_hash(name, content, tmp_path):
    content[name] = content[name][::-1] if name != "seed" else 5
    with pytest.raises(ManifestError, match=r"changed\.json: it was changed after it was written"):
        StreamManifest.load(write(tmp_path / "changed.json", content))


@pytest.mark.parametrize("name", DAMAGED)
def test_an_impossible_value_is_named_with_the_file_and_the_field(name, content, tmp_path):
    content[name], message = DAMAGED[name]
    del content["content_hash"]
    path = write(tmp_path / "damaged.json", {**content, "content_hash": manifest._hash(content)})
    with pytest.raises(ManifestError, match=f"damaged.json.*: .*{re.escape(message)}"):
        StreamManifest.load(path)


@pytest.mark.parametrize(
    "text",
    [b"", b'{"format": 1, "sou', b"\xff\xfe\x00", b"[" * 100_000, b'{"format": 2}', b"[1, 2]", b"9" * 5000],
)
def test_files_that_are_no_manifest_are_refused(text, tmp_path):
    (tmp_path / "broken.json").write_bytes(text)
    with pytest.raises(ManifestError, match=r"broken\.json"):
        StreamManifest.load(tmp_path / "broken.json")


def test_an_order_beyond_the_data_is_refused(tmp_path):
    manifest = dataclasses.replace(MANIFEST, order=np.arange(100, 380), holdout=[])
    manifest.save(tmp_path / "beyond.json")
    with pytest.raises(ManifestError, match="should name samples below 300"):
        Stream(SOURCE, StreamManifest.load(tmp_path / "beyond.json"))


# Streams made by hand ----------------------------------------------------------------------------------------------

HAND = small_source(counts=(30,) * 4)
TRUE = HAND.train.labels.numpy()
ORDER = np.argsort(TRUE, kind="stable")


def test_order_and_labels_are_what_was_given(tmp_path):
    given = TRUE[ORDER].copy()
    given[:12] = 3
    made = puridiver.write_manifest(tmp_path / "mine.json", HAND, ORDER, given, task_ends=[60, 120], holdout=[])
    found = StreamManifest.load(tmp_path / "mine.json")
    assert found == made
    assert (found.kind, found.noise, found.n_tasks, found.task_ends) == ("custom", "custom", 2, (60, 120))
    assert found.order.tolist() == ORDER.tolist()
    assert found.labels.tolist() == given.tolist()
    assert found.realised_noise == 0.1
    assert found.major_classes == ((0, 1), (2, 3))
    assert len(Stream(HAND, found)) == len(ORDER)
    with pytest.raises(ValueError, match=r"called \*.json"):
        puridiver.write_manifest(tmp_path / "mine", HAND, ORDER)


def test_parts_may_be_left_out(tmp_path):
    part = write_manifest(tmp_path / "hand.json", HAND, ORDER[:50], holdout=ORDER[50:60])
    assert (part.noise, part.realised_noise, part.task_ends, len(part.holdout)) == ("none", 0.0, (50,), 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": []}, "order should be at least one row"),
        ({"order": [0, 120]}, "order should be from 0 to 119"),
        ({"order": [0.5]}, "order should be whole numbers"),
        ({"order": [4, 4]}, "each sample"),
        ({"order": [1, 2], "holdout": [2]}, "each sample"),
        ({"order": [1, 2], "labels": [0]}, "labels should be one for each"),
        ({"order": [1, 2], "labels": [0, 4]}, "labels should be from 0 to 3"),
        ({"order": [1, 2], "task_ends": [1.9, 2]}, "task_ends should be whole numbers"),
        ({"order": [1, 2], "task_ends": [2, 1]}, "task_ends should be rising"),
    ],
)
def test_what_is_no_stream_is_refused(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        write_manifest(tmp_path / "hand.json", HAND, **arguments)
