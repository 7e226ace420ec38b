import dataclasses
import json
import re

import numpy as np
import pytest

from puridiver.errors import ManifestError
from puridiver.streams import StreamManifest, make_stream

from .samples import small_source

MANIFEST = make_stream(small_source(), n_tasks=3, noise="asym-30", holdout=20, seed=4)

# Another value that is valid by itself, for every field: only the hash can tell.
TAMPERED = {
    "source": "other",
    "source_fingerprint": "0" * 64,
    "class_names": [f"name {label}" for label in range(10)],
    "kind": "disjoint",
    "seed": 5,
    "minor_share": 0.2,
    "cut_by": "true",
    "noise": "sym",
    "noise_rate": 0.31,
    "noise_map": {"0": 2},
    "realised_noise": 0.31,
    "task_ends": [1, 2, 280],
    "major_classes": [[0], [1], [2, 3, 4, 5, 6, 7, 8, 9]],
    "holdout": [],
    "order": MANIFEST.order[::-1].tolist(),
    "labels": MANIFEST.labels[::-1].tolist(),
    "content_hash": "0" * 64,
}

# A value that cannot be, for every field, and what the error should say.
DAMAGED = [
    ("format", 2, "format should be 1, but got 2"),
    ("format", True, "format should be an integer"),
    ("source", 3, "source should be a text, but got 3"),
    ("n_classes", 9, "class_names should be 9, but got 10"),
    ("n_classes", "10", "n_classes should be an integer, but got '10'"),
    ("class_names", ["a"] * 9 + [1], "class_names should be a text"),
    ("kind", "fuzzy", "kind should be one of blurry, disjoint, time, official, custom, but got 'fuzzy'"),
    ("seed", -1, "seed should be at least 0"),
    ("seed", 1.0, "seed should be an integer"),
    ("n_tasks", 4, "n_tasks = 4"),
    ("minor_share", 1.0, "minor_share should be at least 0 and below 1"),
    ("cut_by", "taste", "cut_by should be one of given, true"),
    ("noise", "pink", "noise should be one of none, sym, asym"),
    ("noise", "none", "noise_rate should be 0"),
    ("noise_rate", -0.1, "noise_rate should be at least 0"),
    ("noise_rate", True, "noise_rate should be a finite number"),
    ("noise_map", {"a": 1}, "noise_map should be null or an object"),
    ("noise_map", {"1": 1}, "class 1 to itself"),
    ("noise_map", {"1": 10}, "0 to 9, but got 1 -> 10"),
    ("realised_noise", 1.5, "realised_noise should lie in 0 to 1"),
    ("task_ends", [100, 50, 280], "task_ends should rise to 280"),
    ("task_ends", [100, 200, 281], "task_ends should rise to 280"),
    ("major_classes", [[0], [0], [1]], "major_classes should name each class below 10 at most once"),
    ("major_classes", [[0], [1], [10]], "major_classes should name each class below 10"),
    ("major_classes", [0, 1, 2], "major_classes should be a list"),
    ("holdout", MANIFEST.order[:1].tolist(), "each sample once"),
    ("order", [0] * 280, "each sample once"),
    ("order", [*range(279), -1], "indices from 0, but got -1"),
    ("order", [*range(279), 10**30], "64-bit integers"),
    ("order", "0,1,2", "order should be a list"),
    ("labels", [0] * 279, "labels should be as many as order, 280, but got 279"),
    ("labels", [10] * 280, "labels should lie in 0 to 9"),
    ("labels", [0.0] * 280, "labels should be an integer"),
]


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
    assert again.noise_map == MANIFEST.noise_map == {c: (c + 1) % 10 for c in range(10)}


def test_the_file_has_one_field_a_line_and_no_true_labels(tmp_path):
    MANIFEST.save(tmp_path / "stream.json")
    lines = (tmp_path / "stream.json").read_text().splitlines()
    assert len(lines) == len(MANIFEST.to_dict()) + 3  # the hash and two braces
    true = small_source().train.labels[MANIFEST.order.tolist()].tolist()
    assert all(value != true for value in json.loads("\n".join(lines)).values())


def test_every_field_has_a_tampered_or_damaged_value_below(content):
    assert content.keys() == TAMPERED.keys() | {name for name, _, _ in DAMAGED}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_change_of_any_field_is_detected_by_the_hash(name, content, tmp_path):
    assert content[name] != TAMPERED[name]
    content[name] = TAMPERED[name]
    with pytest.raises(ManifestError, match="content hash should be"):
        StreamManifest.load(write(tmp_path / "tampered.json", content))


@pytest.mark.parametrize(("name", "value", "message"), DAMAGED)
def test_an_impossible_value_is_named(name, value, message, content, tmp_path):
    content[name] = value
    path = write(tmp_path / "damaged.json", content)
    with pytest.raises(ManifestError, match=re.escape(message)) as caught:
        StreamManifest.load(path)
    assert str(path) in str(caught.value)


def test_missing_and_unknown_fields_are_named(content, tmp_path):
    del content["order"]
    content["ordre"] = []
    with pytest.raises(ManifestError, match=r"missing: \['order'\]; fields unknown: \['ordre'\]"):
        StreamManifest.load(write(tmp_path / "fields.json", content))


def test_a_missing_hash_is_an_error(content, tmp_path):
    del content["content_hash"]
    with pytest.raises(ManifestError, match="the file says None"):
        StreamManifest.load(write(tmp_path / "hashless.json", content))


@pytest.mark.parametrize(
    "text", [b"", b'{"format": 1, "sou', b"\xff\xfe\x00", b"[" * 100_000, b'{"format": NaN}', b"[1, 2]"]
)
def test_files_that_are_no_manifest_are_refused(text, tmp_path):
    (tmp_path / "broken.json").write_bytes(text)
    with pytest.raises(ManifestError, match=r"broken\.json"):
        StreamManifest.load(tmp_path / "broken.json")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "stream.json"
    path.write_text("old")

    def fail(*_args):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        MANIFEST.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["stream.json"]
    assert path.read_text() == "old"


def test_equality_and_hash_follow_the_content():
    same = dataclasses.replace(MANIFEST)
    other = dataclasses.replace(MANIFEST, seed=9)
    assert same == MANIFEST
    assert {same, MANIFEST, other} == {MANIFEST, other}
    assert other.content_hash != MANIFEST.content_hash


def test_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        MANIFEST.labels[0] = 1


def test_counts_and_slices_follow_the_tasks():
    counts = MANIFEST.counts()
    assert counts.shape == (10, 3)
    assert counts.sum(0).tolist() == np.diff([0, *MANIFEST.task_ends]).tolist()
    assert counts[:, 1].tolist() == np.bincount(MANIFEST.labels[MANIFEST.task_slice(1)], minlength=10).tolist()
    with pytest.raises(ValueError, match="from 0 to 2, but got 3"):
        MANIFEST.task_slice(3)
