"""Label noise: every kind by one contract, then what each promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from puridiver.discovery import members
from puridiver.errors import DataError
from puridiver.streams import StreamManifest, make_stream, named_map, noise_kind, noise_name
from puridiver.streams.manifest import check_belongs
from puridiver.streams.noise import PACKAGE, Noise, NoiseSetting, format_share, parse_noise, parse_share
from puridiver.streams.noises.human import HUMAN_SETS
from puridiver.streams.noises.instance import features, flip_rates, pick
from puridiver.streams.noises.matrix import matrix_name, read_matrix

from .samples import small_source

SOURCE = small_source(asymmetric_map={0: 3, 3: 0, 5: 1})
TRUE = SOURCE.train.labels.numpy()
NOISES = members(PACKAGE, Noise)
T = np.array([[0.8, 0.1, 0.1], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])


def noisy(
    kind: str, labels: np.ndarray, n_classes: int, rate: float, rng: np.random.Generator, **setting
) -> np.ndarray:
    images = setting.pop("images", torch.zeros((len(labels), 2, 2, 1), dtype=torch.uint8))
    found = NoiseSetting(n_classes, rate, np.arange(len(labels)), images, **setting)
    return noise_kind(kind).apply(rng, labels, found)


def human_file(path, **changes):
    """A label file in the published form; a change to None leaves the set out."""
    rng = np.random.default_rng(0)
    content = {"clean_label": TRUE.copy()}
    for number, key in enumerate(HUMAN_SETS.values(), start=1):
        content[key] = np.where(rng.random(len(TRUE)) < 0.1 * number, (TRUE + number) % 10, TRUE)
    content = {key: value for key, value in {**content, **changes}.items() if value is not None}
    torch.save(content, path)
    return content


@pytest.mark.parametrize("name", NOISES)
def test_every_noise_makes_streams_that_can_be_made_again(name, tmp_path):
    human_file(tmp_path / "labels.pt")
    np.savetxt(tmp_path / "T.csv", np.full((10, 10), 0.1), delimiter=",")
    specs = {"human": "human:worst", "matrix": f"matrix:{tmp_path / 'T.csv'}", "none": "none", "custom": None}
    spec = specs.get(name, f"{name}-30")
    if spec is None:
        assert NOISES[name].written == ""
        return
    file = tmp_path / "labels.pt"
    made = [make_stream(SOURCE, noise=spec, noise_file=file, seed=seed, holdout=20) for seed in (3, 3, 4)]
    assert made[0] == made[1] != made[2]
    assert made[0].noise.partition(":")[0] == name
    assert made[0].realised_noise == np.mean(made[0].labels != TRUE[made[0].order])
    made[0].save(tmp_path / "stream.json")
    check_belongs(SOURCE, StreamManifest.load(tmp_path / "stream.json"))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(0, 300), n_classes=st.integers(2, 12), rate=st.floats(0, 0.99), seed=st.integers(0, 999))
def test_symmetric_noise_flips_exactly_the_rate_and_never_to_the_true_class(n, n_classes, rate, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    before = labels.copy()
    found = noisy("sym", labels, n_classes, rate, rng)
    assert (found != labels).sum() == round(rate * n)  # a flip that kept the true class would be missing here
    assert (labels == before).all()


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.37, 0.9])
def test_asymmetric_noise_flips_exactly_the_rate_of_mapped_samples_along_the_map(rate):
    labels = np.random.default_rng(0).integers(6, size=500)
    class_map = {0: 3, 3: 0, 5: 1}
    found = noisy("asym", labels, 6, rate, np.random.default_rng(1), class_map=class_map)
    flipped = found != labels
    assert flipped.sum() == round(rate * np.isin(labels, [0, 3, 5]).sum())
    assert all(class_map[a] == b for a, b in zip(labels[flipped], found[flipped], strict=True))


def test_class_maps_by_name():
    assert named_map("spr-cifar10", 10) == {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
    assert named_map("next", 3) == {0: 1, 1: 2, 2: 0}
    pairs = named_map("pairs", 7)
    assert all(pairs[other] == one != other for one, other in pairs.items())
    assert len(pairs) == 6
    with pytest.raises(ValueError, match="noise map should be one of"):
        named_map("T.npy", 3)
    for class_map in ({1: 1}, {0: 10}, {-1: 2}):
        with pytest.raises(ValueError, match="noise map"):
            make_stream(SOURCE, noise="asym-20", noise_map=class_map)


def test_noise_of_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2"):
        noisy("sym", np.zeros(10, dtype=int), 1, 0.5, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("sym-40", ("sym", 0.4)),
        ("asym20", ("asym", 0.2)),
        ("sym-.35", ("sym", 0.35)),
        ("none", ("none", 0.0)),
        ("human:worst", ("human:worst", 0.0)),
    ],
)
def test_noise_specs_read_and_write(spec, expected):
    assert parse_noise(spec) == expected
    assert parse_noise(noise_name(*expected)) == expected


@pytest.mark.parametrize(
    "spec",
    ["", "sym", "40", "pair-40", "sym-100", "sym-1.5", "none40", "sym-40%", "human:best", "custom", "a:b"],
)
def test_bad_noise_specs_are_refused(spec):
    with pytest.raises(ValueError, match="should be"):
        parse_noise(spec)


@given(st.floats(0, 0.999999))
def test_a_share_reads_back_as_it_was_written(share):
    assert parse_share(format_share(share), "share") == share


# Instance-dependent noise ------------------------------------------------------------------------------------------

N, CLASSES = 6_000, 6


def pictures(n: int = N, side: int = 6) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_realised_rate_of_instance_noise_is_near_the_one_asked_for(rate):
    labels = np.arange(N) % CLASSES
    found = noisy("instance", labels, CLASSES, rate, np.random.default_rng(0), images=pictures())
    rates = flip_rates(100_000, rate, np.random.default_rng(1))  # the cut at 0 moves a low mean up a little
    assert rates.min() >= 0
    assert abs(rates.mean() - rate) < 0.03
    assert abs((found != labels).mean() - rates.mean()) < 4 * np.sqrt(rate * (1 - rate) / N)


def test_picks_follow_the_softmax_and_large_images_are_averaged_down():
    scores = np.tile(np.log(np.array([0.2, 1e-300, 0.8, 1e-300])), (10_000, 1))
    picks = pick(scores, np.random.default_rng(0).random(10_000))
    assert set(picks.tolist()) == {0, 2}
    assert abs((picks == 0).mean() - 0.2) < 0.02
    assert pick(np.array([[0.0, 1.0, -np.inf]]), np.array([np.nextafter(1, 0)])).tolist() == [1]
    assert features(pictures(3, side=80)).shape == (3, 32 * 32 * 3)


# Labels that people gave -------------------------------------------------------------------------------------------


def test_human_labels_are_those_of_the_file_in_the_order_of_the_train_set(tmp_path):
    content = human_file(tmp_path / "labels.pt")
    tensors = {key: torch.from_numpy(value) for key, value in content.items()}
    torch.save(tensors, tmp_path / "tensors.pt")
    for name, key in HUMAN_SETS.items():
        made = [
            make_stream(SOURCE, noise=f"human:{name}", noise_file=tmp_path / file, holdout=20)
            for file in ("labels.pt", "tensors.pt")
        ]
        assert made[0].labels.tolist() == content[key][made[0].order].tolist()
        assert made[0] == made[1]


class Evil:
    def __reduce__(self):
        return (eval, ("1/0",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clean_label": TRUE[::-1].copy()}, "clean labels are not those of the data"),
        ({"clean_label": Evil()}, "cannot be read as plain arrays"),
        ({"worse_label": None}, "a dictionary with worse_label"),
        ({"worse_label": TRUE[:-1]}, "one label for each of the train images"),
        ({"worse_label": torch.from_numpy(TRUE.astype(float))}, "whole numbers"),
        ({"worse_label": TRUE + 1}, "from 0 to 9"),
    ],
)
def test_faults_of_label_files_are_told(changes, message, tmp_path):
    human_file(tmp_path / "labels.pt", **changes)
    with pytest.raises(DataError, match=message):
        make_stream(SOURCE, noise="human:worst", noise_file=tmp_path / "labels.pt")
    (tmp_path / "labels.pt").write_bytes(b"damaged")
    with pytest.raises(DataError, match="or is damaged"):
        make_stream(SOURCE, noise="human:worst", noise_file=tmp_path / "labels.pt")
    with pytest.raises(ValueError, match="--noise-file"):
        make_stream(SOURCE, noise="human:worst")


# Transition matrices -----------------------------------------------------------------------------------------------


def test_each_class_is_given_labels_in_the_shares_of_its_row():
    labels = np.repeat([0, 1, 2], 20_000)
    found = noisy("matrix:x", labels, 3, 0.0, np.random.default_rng(0), matrix=tuple(map(tuple, T)))
    shares = np.zeros((3, 3))
    np.add.at(shares, (labels, found), 1 / 20_000)
    assert np.abs(shares - T).max() < 0.01
    assert (shares[T == 0] == 0).all()


def written(folder, matrix, name="T.csv"):
    np.savetxt(folder / name, np.asarray(matrix, dtype=float), delimiter=",")
    return folder / name


def test_a_matrix_is_known_by_its_content_and_not_by_its_file(tmp_path):
    source = small_source(counts=(30, 40, 30))
    one, other = (
        make_stream(source, n_tasks=3, noise=f"matrix:{written(tmp_path, T, name)}") for name in ("T.csv", "U.csv")
    )
    assert one == other
    assert one.noise == matrix_name(read_matrix(tmp_path / "T.csv", 3))
    signed = read_matrix(written(tmp_path, -0.0 * T + np.eye(3)), 3)
    assert matrix_name(signed) == matrix_name(read_matrix(written(tmp_path, np.eye(3)), 3))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.full((2, 3), 1 / 3), r"but got \(2, 3\)"),
        ([[1.5, -0.5], [0, 1]], "entries from -0.5"),
        ([[0.9, 0.2], [0, 1]], "to 1.1"),
        ([[0.8, 0.5], [0.2, 0.5]], "with the sum 1"),
        ([[np.nan, 1], [0, 1]], "finite"),
    ],
)
def test_what_is_no_transition_matrix_is_refused(matrix, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_matrix(written(tmp_path, matrix), 2)


def test_a_matrix_is_a_csv_file_of_numbers(tmp_path):
    (tmp_path / "T.csv").write_text("cat,dog\n1,0\n0,1\n")
    with pytest.raises(DataError, match="numbers between commas, and no heading"):
        read_matrix(tmp_path / "T.csv", 2)
    with pytest.raises(ValueError, match=r"a file that ends in \.csv"):
        make_stream(SOURCE, noise="matrix:T.npy")
    with pytest.raises(ValueError, match="the variant of noise matrix should be one of FILE"):
        make_stream(SOURCE, noise="matrix")
