"""Noise by a transition matrix: what it does to labels, what it is known by, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from puridiver.errors import DataError
from puridiver.streams import StreamManifest, make_stream, parse_noise, rebuild, verify
from puridiver.streams.matrix import as_matrix, by_matrix, matrix_name, read_matrix

from .samples import small_source

SOURCE = small_source(counts=(30, 40, 30))
TRUE = SOURCE.train.labels.numpy()
T = np.array([[0.8, 0.1, 0.1], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])


def save(folder: Path, matrix: np.ndarray = T, name: str = "T.npy") -> str:
    np.save(folder / name, matrix)
    return f"matrix:{folder / name}"


def test_each_class_is_given_labels_in_the_shares_of_its_row(tmp_path: Path) -> None:
    manifest = make_stream(SOURCE, n_tasks=3, noise=save(tmp_path))
    counts = np.zeros((3, 3), int)
    np.add.at(counts, (TRUE[manifest.order], manifest.labels), 1)
    assert counts.tolist() == [[24, 3, 3], [10, 20, 10], [0, 0, 30]]
    assert manifest.realised_noise == 0.26


def test_shares_that_are_no_whole_numbers_are_rounded_and_every_sample_keeps_a_label() -> None:
    labels = np.repeat(np.arange(3), 7)
    noisy = by_matrix(labels, as_matrix(np.full((3, 3), 1 / 3)), np.random.default_rng(0))
    for label in range(3):
        assert sorted(np.bincount(noisy[labels == label], minlength=3).tolist()) == [2, 2, 3]


def test_rounding_prefers_no_label_where_classes_are_small() -> None:
    labels, matrix = np.repeat(np.arange(20), 5), np.full((20, 20), 0.4 / 19)
    np.fill_diagonal(matrix, 0.6)  # two wrong labels in each class, of 19 that are as likely
    given = np.zeros(20, int)
    for seed in range(100):
        noisy = by_matrix(labels, as_matrix(matrix), np.random.default_rng(seed))
        assert (np.bincount(labels[noisy != labels], minlength=20) == 2).all()
        given += np.bincount(noisy[noisy != labels], minlength=20)
    assert given.min() > 140  # 200 each; by a rule the first two would have had nearly all 4,000
    assert given.max() < 260


def test_a_label_is_rounded_up_as_often_as_its_rest_says_and_never_where_it_has_no_chance() -> None:
    row = (0.62, 0.25, 0.13, 0.0)
    counts = [
        np.bincount(by_matrix(np.zeros(6, int), (row,) * 4, np.random.default_rng(seed)), minlength=4)
        for seed in range(2_000)
    ]
    assert np.abs(np.mean(counts, axis=0) - 6 * np.array(row)).max() < 0.05
    assert (np.abs(counts - 6 * np.array(row)) < 1).all()
    assert np.max(counts, axis=0)[3] == 0


def test_which_labels_are_wrong_is_the_seeds(tmp_path: Path) -> None:
    one, same, other = (make_stream(SOURCE, n_tasks=3, noise=save(tmp_path), seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert dict(zip(one.order, one.labels, strict=True)) != dict(zip(other.order, other.labels, strict=True))


def test_the_manifest_keeps_the_matrix_and_makes_the_stream_again_without_the_file(tmp_path: Path) -> None:
    spec = save(tmp_path)
    manifest = make_stream(SOURCE, n_tasks=3, noise=spec, holdout=10)
    (tmp_path / "T.npy").unlink()
    manifest.save(tmp_path / "stream.json")
    loaded = StreamManifest.load(tmp_path / "stream.json")
    assert loaded == manifest
    assert loaded.noise_matrix == tuple(map(tuple, T.tolist()))
    assert rebuild(loaded, SOURCE) == manifest
    assert verify(loaded, SOURCE) == []


def test_an_array_in_a_program_is_the_same_as_a_file(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "T.csv", T, delimiter=",")
    of_array = make_stream(SOURCE, n_tasks=3, noise="matrix", noise_matrix=T)
    assert of_array == make_stream(SOURCE, n_tasks=3, noise=save(tmp_path))
    assert of_array == make_stream(SOURCE, n_tasks=3, noise=f"matrix:{tmp_path / 'T.csv'}")


def test_a_matrix_is_known_by_its_content_and_not_by_its_files_name(tmp_path: Path) -> None:
    name, rate = parse_noise(save(tmp_path))
    assert (name, rate) == (matrix_name(as_matrix(T)), 0.0)
    assert parse_noise(save(tmp_path, name="renamed.npy"))[0] == name
    assert parse_noise(save(tmp_path, np.eye(3)))[0] != name
    assert matrix_name(as_matrix(-0.0 * T + np.eye(3))) == matrix_name(as_matrix(np.eye(3)))


def test_streams_without_a_matrix_do_not_tell_of_one() -> None:
    assert "noise_matrix" not in make_stream(SOURCE, n_tasks=3).to_dict()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.full((2, 3), 1 / 3), r"shape \(classes, classes\), but has \(2, 3\)"),
        (np.full(4, 0.25), r"but has \(4,\)"),
        ([[1.5, -0.5], [0, 1]], "no negative numbers, but row 0, column 1 is -0.5"),
        ([[1.1, -0.1], [1.5, -0.5]], "row 0, column 1 is -0.1"),
        ([[0.9, 0.2], [0, 1]], "row 0 sums to 1.1"),
        ([[0.8, 0.5], [0.2, 0.5]], "row 0 sums to 1.3; its columns do: transpose it"),
        ([[np.nan, 1], [0, 1]], "some are nan"),
        ([["a", "b"], ["c", "d"]], "should be numbers"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(matrix: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_matrix(matrix)  # type: ignore[arg-type]


def test_a_matrix_for_other_classes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is for 2 classes, but the data have 3"):
        make_stream(SOURCE, noise=save(tmp_path, np.eye(2)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("T.csv", "cat,dog\n0.5,0.5\n", "numbers between commas, and no heading"),
        ("T.npy", "no array", "should hold an array of numbers"),
        ("T.txt", "1", "ends in .npy or .csv"),
        ("T.npy", None, "there is no file"),
    ],
)
def test_files_that_hold_no_matrix_are_refused(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises((ValueError, DataError), match=message):
        read_matrix(tmp_path / name)


def test_texts_are_no_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "T.npy", np.array([["a"]]))
    with pytest.raises(DataError, match="an array of numbers, but holds <U1"):
        read_matrix(tmp_path / "T.npy")


@pytest.mark.parametrize("spec", ["matrix", "matrix-40"])
def test_a_matrix_without_a_file_is_no_noise(spec: str) -> None:
    with pytest.raises(ValueError, match='"matrix:FILE"'):
        parse_noise(spec)


def test_a_matrix_and_another_noise_do_not_go_together() -> None:
    with pytest.raises(ValueError, match='noise_matrix should go with noise="matrix"'):
        make_stream(SOURCE, noise="sym-40", noise_matrix=T)
    with pytest.raises(ValueError, match="needs noise_matrix"):
        make_stream(SOURCE, noise="matrix")


def test_a_manifest_whose_matrix_is_not_the_one_it_names_is_refused() -> None:
    manifest = make_stream(SOURCE, n_tasks=3, noise="matrix", noise_matrix=T)
    with pytest.raises(ValueError, match="noise_matrix should be the matrix of"):
        dataclasses.replace(manifest, noise_matrix=as_matrix(np.eye(3)))
    with pytest.raises(ValueError, match="needs its matrix"):
        dataclasses.replace(manifest, noise_matrix=None)
    with pytest.raises(ValueError, match="should go with the noise matrix"):
        dataclasses.replace(make_stream(SOURCE, n_tasks=3), noise_matrix=as_matrix(T))
