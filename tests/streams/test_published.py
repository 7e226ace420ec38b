"""Published streams: from .npz and JSON files in the published forms, and their names."""

import dataclasses
import json

import numpy as np
import pytest

from puridiver.errors import ManifestError
from puridiver.streams import make_stream, resolve_stream
from puridiver.streams.published import find_official, parse_published

from .samples import small_source
from .splits import write_json, write_npz

SOURCE = small_source()


def stream_with_equal_tasks(noise="sym-40"):
    """Published tasks are of equal size, whatever that does to their minor shares."""
    manifest = make_stream(SOURCE, noise=noise, seed=1)
    return dataclasses.replace(manifest, task_ends=(60, 120, 180, 240, 300))


STREAM = stream_with_equal_tasks()


def test_npz_and_json_give_the_same_stream_shuffled_or_listed(tmp_path):
    npz = write_npz(tmp_path / "small.npz", STREAM)
    (tmp_path / "json").mkdir()
    write_json(tmp_path / "json", SOURCE, STREAM)
    write_json(tmp_path / "json", SOURCE, make_stream(SOURCE, noise="sym-40", seed=2))
    write_json(tmp_path / "json", SOURCE, make_stream(SOURCE, noise="asym-40", seed=1))
    places = (npz, tmp_path, tmp_path / "json")
    listed, shuffled = (
        [find_official(f"official:sym40:1{order}", SOURCE, place) for place in places] for order in (":listed", "")
    )
    assert listed[0] == listed[1] == listed[2] == resolve_stream("official:sym40:1:listed", SOURCE, npz)
    assert shuffled[0] == shuffled[1] == shuffled[2] == find_official("official:sym-40:1", SOURCE, npz)
    assert listed[0].order.tolist() == STREAM.order.tolist()
    assert listed[0].labels.tolist() == STREAM.labels.tolist()
    assert (listed[0].major_classes, listed[0].task_ends) == (STREAM.major_classes, STREAM.task_ends)
    assert (listed[0].kind, listed[0].realised_noise, listed[0].minor_share) == ("official", 0.4, 0.1)
    label_of = dict(zip(listed[0].order.tolist(), listed[0].labels.tolist(), strict=True))
    assert [label_of[i] for i in shuffled[0].order.tolist()] == shuffled[0].labels.tolist()
    for task in range(5):
        part = STREAM.task_slice(task)
        assert sorted(shuffled[0].order[part].tolist()) == sorted(listed[0].order[part].tolist())
        assert (shuffled[0].order[part] != listed[0].order[part]).mean() > 0.8


def test_the_map_of_asymmetric_noise_is_read_off_the_labels(tmp_path):
    stream = stream_with_equal_tasks("asym-40")
    npz = write_npz(tmp_path / "a.npz", stream)
    assert find_official("official:asym40:1", SOURCE, npz).noise_map == stream.noise_map


def test_names_of_published_streams():
    for spec in ("official:sym40:1", "official:sym-40:1", "official:sym40:1:shuffled"):
        assert parse_published(spec) == ("sym40", 1, "shuffled")
    assert parse_published("official:asym20:3:listed") == ("asym20", 3, "listed")


@pytest.mark.parametrize("spec", ["official:sym40", "official:sym40:x", "official:pink:1", "official:", "sym40:1"])
def test_wrong_names_of_official_streams_are_refused(spec, tmp_path):
    with pytest.raises(ValueError, match="should be"):
        find_official(spec, SOURCE, tmp_path)


def test_missing_splits_are_named(tmp_path):
    with pytest.raises(ManifestError, match="nowhere"):
        find_official("official:sym40:1", SOURCE, tmp_path / "nowhere")
    with pytest.raises(ManifestError, match="tasks none"):
        find_official("official:sym40:1", SOURCE, tmp_path)
    path = write_npz(tmp_path / "small.npz", STREAM)
    with pytest.raises(ManifestError, match=r"sym20_seed1_index.*but holds sym40_seed1_index"):
        find_official("official:sym20:1", SOURCE, path)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("index", np.arange(300) + 1, "from 0 to 299"),
        ("index", np.zeros(300, int), "each sample|wrong labels"),
        ("index", np.arange(299), "one for each index"),
        ("index", np.arange(300.0), "whole numbers"),
        ("label", np.full(300, 10), "wrong labels should be"),
        ("order", np.full(10, 10), "from 0 to 9"),
        ("label", SOURCE.train.labels.numpy()[STREAM.order], "40.0%, but got 0.0%"),
    ],
)
def test_wrong_arrays_are_refused(key, value, message, tmp_path):
    arrays = {"index": STREAM.order, "label": STREAM.labels, "order": np.arange(10), key: value}
    np.savez(tmp_path / "small.npz", **{f"sym40_seed1_{name}": array for name, array in arrays.items()})
    with pytest.raises(ManifestError, match=message):
        find_official("official:sym40:1", SOURCE, tmp_path / "small.npz")


# JSON files --------------------------------------------------------------------------------------------------------


def change_row(path, number, **changes):
    """Change one row, counted from 1; a value of None deletes the key."""
    rows = json.loads(path.read_text())
    row = {**rows[number - 1], **changes}
    rows[number - 1] = {key: value for key, value in row.items() if value is not None}
    path.write_text(json.dumps(rows))


def test_missing_tasks_and_two_files_for_a_task_are_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    paths[4].unlink()
    with pytest.raises(ManifestError, match=r"tasks \[0, 1, 2, 3\]"):
        find_official("official:sym40:1", SOURCE, tmp_path)
    (tmp_path / paths[0].name.replace("blurry10", "blurry30")).write_text(paths[0].read_text())
    with pytest.raises(ManifestError, match="one for each task, but got two"):
        find_official("official:sym40:1", SOURCE, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file_name": "train/class-0/9999.png"}, r"task2\.json.* one of the train images, but got .*9999"),
        ({"file_name": "../../secret.png"}, r"task2\.json.* one of the train images"),
        ({"file_name": None}, r"task2\.json.* one of the train images"),
        ({"true_label": None}, "number of one class"),
        ({"true_label": []}, "unhashable"),
        ({"label": "3"}, "number of one class"),
    ],
)
def test_a_damaged_row_is_refused(changes, message, tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    change_row(paths[2], 7, **changes)
    with pytest.raises(ManifestError, match=message):
        find_official("official:sym40:1", SOURCE, tmp_path)


def test_rows_that_contradict_others_are_refused(tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    change_row(paths[3], 2, **json.loads(paths[0].read_text())[0])
    with pytest.raises(ManifestError, match="each sample"):
        find_official("official:sym40:1", SOURCE, tmp_path)
    paths = write_json(tmp_path, SOURCE, STREAM)
    change_row(paths[0], 10, true_label=(json.loads(paths[0].read_text())[9]["true_label"] + 1) % 10)
    with pytest.raises(ManifestError, match="contradict others"):
        find_official("official:sym40:1", SOURCE, tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[1]", '[{"klass": ', "[" * 100_000])
def test_files_that_are_no_list_of_rows_are_refused(text, tmp_path):
    paths = write_json(tmp_path, SOURCE, STREAM)
    paths[1].write_text(text)
    with pytest.raises(ManifestError, match=r"task1\.json"):
        find_official("official:sym40:1", SOURCE, tmp_path)
