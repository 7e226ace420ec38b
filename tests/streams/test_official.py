import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from puridiver.errors import ManifestError
from puridiver.streams import find_official, from_json, from_npz, make_stream, verify
from puridiver.streams import official_json as split_files
from puridiver.streams.official import shuffled_within_tasks

from .samples import small_source
from .splits import write_json, write_npz

SOURCE = small_source()


def stream_with_equal_tasks(noise="sym-40"):
    """Published tasks are of equal size, whatever that does to their minor shares."""
    manifest = make_stream(SOURCE, noise=noise, seed=1)
    return dataclasses.replace(manifest, task_ends=(60, 120, 180, 240, 300))


STREAM = stream_with_equal_tasks()


def test_npz_and_json_give_the_same_stream(tmp_path):
    from_arrays = from_npz(write_npz(tmp_path / "small.npz", STREAM), SOURCE, "sym40", 1, listed=True)
    from_rows = from_json(write_json(tmp_path, SOURCE, STREAM), SOURCE, listed=True)
    assert from_arrays == from_rows
    assert from_arrays.order.tolist() == STREAM.order.tolist()
    assert from_arrays.labels.tolist() == STREAM.labels.tolist()
    assert from_arrays.major_classes == STREAM.major_classes
    assert from_arrays.task_ends == STREAM.task_ends
    assert (from_arrays.kind, from_arrays.realised_noise, from_arrays.minor_share) == ("official", 0.4, 0.1)
    assert verify(from_arrays, SOURCE) == []


def test_each_task_is_shuffled_and_nothing_else(tmp_path):
    """As the released program does; the order of the files is there on request."""
    npz = write_npz(tmp_path / "small.npz", STREAM)
    shuffled, listed = (find_official(f"official:sym40:1{order}", SOURCE, npz) for order in ("", ":listed"))
    assert listed.order.tolist() == STREAM.order.tolist()
    assert shuffled == from_json(write_json(tmp_path, SOURCE, STREAM), SOURCE)
    assert shuffled == find_official("official:sym40:1", SOURCE, npz)  # its seed decides
    label_of = dict(zip(listed.order.tolist(), listed.labels.tolist(), strict=True))
    assert [label_of[i] for i in shuffled.order.tolist()] == shuffled.labels.tolist()
    for task in range(5):
        part = listed.task_slice(task)
        assert sorted(shuffled.order[part].tolist()) == sorted(listed.order[part].tolist())
        moved = shuffled.order[part] != listed.order[part]
        assert moved.mean() > 0.8
    assert verify(shuffled, SOURCE) == []


def test_streams_of_other_seeds_are_shuffled_otherwise():
    labels = np.arange(40)
    found = [shuffled_within_tasks(labels, labels, [20, 40], seed)[0].tolist() for seed in (1, 2)]
    assert found[0] != found[1]
    assert found[0][:20] != [i - 20 for i in found[0][20:]]  # nor tasks alike


def test_the_map_of_asymmetric_noise_is_read_off_the_labels(tmp_path):
    stream = stream_with_equal_tasks("asym-40")
    assert from_npz(write_npz(tmp_path / "a.npz", stream), SOURCE, "asym40", 1).noise_map == stream.noise_map


def test_find_official_takes_a_file_a_folder_with_npz_or_a_folder_of_json(tmp_path):
    folders = [tmp_path / name for name in ("npz", "json")]
    for folder in folders:
        folder.mkdir()
    npz = write_npz(folders[0] / "small.npz", STREAM)
    write_json(folders[1], SOURCE, STREAM)
    found = [find_official("official:sym40:1", SOURCE, place) for place in (npz, *folders)]
    assert found[0] == found[1] == found[2]
    assert find_official("sym-40:1", SOURCE, npz) == found[0]


@pytest.mark.parametrize(
    "spec",
    ["official:sym40", "official:sym40:x", "official:pink:1", "official:", "official:sym40:1:sorted", "sym40:1:"],
)
def test_wrong_names_of_official_streams_are_refused(spec, tmp_path):
    with pytest.raises(ValueError, match="should be"):
        find_official(spec, SOURCE, tmp_path)


def test_missing_splits_are_named(tmp_path):
    with pytest.raises(ManifestError, match="nowhere"):
        find_official("official:sym40:1", SOURCE, tmp_path / "nowhere")
    with pytest.raises(ManifestError, match=r"small\.npz or files such as .* none for small, sym40, seed 1"):
        find_official("official:sym40:1", SOURCE, tmp_path)


def test_a_stream_that_the_npz_does_not_hold_is_named_with_what_it_holds(tmp_path):
    path = write_npz(tmp_path / "small.npz", STREAM)
    with pytest.raises(ManifestError, match=r"sym20_seed1_index.*but holds sym40:1"):
        from_npz(path, SOURCE, "sym20", 1)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 torn"])
def test_files_that_are_no_npz_are_refused(content, tmp_path):
    (tmp_path / "small.npz").write_bytes(content)
    with pytest.raises(ManifestError, match="damaged one"):
        from_npz(tmp_path / "small.npz", SOURCE)


def test_a_single_array_and_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "array.npy", np.arange(3))
    with pytest.raises(ManifestError, match=r"not an \.npz file"):
        from_npz(tmp_path / "array.npy", SOURCE)
    objects = {f"sym40_seed1_{key}": np.array([{}]) for key in ("index", "label", "order")}
    np.savez(tmp_path / "objects.npz", **objects)
    with pytest.raises(ManifestError, match=r"not an \.npz file"):
        from_npz(tmp_path / "objects.npz", SOURCE)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("index", np.arange(300) + 1, "indices should lie in 0 to 299, but got 1 to 300"),
        ("index", np.zeros(300, int), "each sample once|should be wrong"),
        ("index", np.arange(299), "one label an index"),
        ("index", np.arange(300.0), "should be integers"),
        ("label", np.full(300, 10), "labels should lie in 0 to 9"),
        (
            "label",
            SOURCE.train.labels.numpy()[STREAM.order],
            "40.0% of the labels should be wrong, but 0.0% are",
        ),
        ("order", np.zeros(10, int), "each class id below 10 once"),
    ],
)
def test_damaged_arrays_are_refused(key, value, message, tmp_path):
    arrays = {"index": STREAM.order, "label": STREAM.labels, "order": np.arange(10), key: value}
    np.savez(tmp_path / "small.npz", **{f"sym40_seed1_{name}": array for name, array in arrays.items()})
    with pytest.raises(ManifestError, match=message):
        from_npz(tmp_path / "small.npz", SOURCE)


@pytest.fixture(scope="module")
def published():
    data, splits = os.environ.get("PURIDIVER_TEST_DATA"), os.environ.get("PURIDIVER_TEST_SPLITS")
    if not data or not splits:
        pytest.skip("PURIDIVER_TEST_DATA and PURIDIVER_TEST_SPLITS are not set")
    from puridiver.data import load

    return load("cifar10", Path(data)), Path(splits)


@pytest.mark.parametrize("noise", ["sym20", "sym40", "sym60", "asym20", "asym40"])
def test_the_published_cifar10_streams_are_as_described(noise, published):
    source, splits = published
    manifest = find_official(f"official:{noise}:1", source, splits)
    assert manifest.task_ends == (10_000, 20_000, 30_000, 40_000, 50_000)
    assert manifest.realised_noise == manifest.noise_rate
    counts = manifest.counts()
    major = [counts[list(group), task].sum() / 10_000 for task, group in enumerate(manifest.major_classes)]
    assert major[:3] == [0.9] * 3
    assert 0.80 < major[4] < 0.83


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("noise", ["sym20", "sym40", "sym60", "asym20", "asym40"])
def test_most_published_tasks_list_their_major_classes_first(noise, seed, published):
    """What the documents say of the files, and that a stream as the released program has it is mixed."""
    source, splits = published

    def last_is_major(order: str) -> float:
        manifest = find_official(f"official:{noise}:{seed}{order}", source, splits)
        return float(np.isin(manifest.labels[9_000:10_000], manifest.major_classes[0]).mean())

    assert 0.87 < last_is_major("") < 0.93
    if (noise[:3], seed) == ("sym", 1):
        assert 0.87 < last_is_major(":listed") < 0.93
    else:
        assert last_is_major(":listed") == 0


def test_the_published_json_agrees_with_the_npz(published):
    source, splits = published
    manifest = find_official("official:sym40:1:listed", source, splits)
    index, labels = split_files.read_task(splits / "cifar10_train_blurry10_symN40_rand1_cls2_task0.json", source)
    assert index.tolist() == manifest.order[:10_000].tolist()
    assert labels.tolist() == manifest.labels[:10_000].tolist()
    test = split_files.test_order_from_json(splits / "cifar10_test_rand1_cls2_task0.json", source)
    assert set(source.test.labels[test.tolist()].tolist()) == set(manifest.major_classes[0])
