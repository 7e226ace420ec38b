"""CIFAR-10N and CIFAR-100N label files, made here in the published form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from puridiver.errors import DataError
from puridiver.streams import StreamManifest, make_stream, verify
from puridiver.streams.human import HUMAN_SETS

from .samples import small_source

SOURCE = small_source()
TRUE = SOURCE.train.labels.numpy()


def label_sets() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    keys = [one.key for one in HUMAN_SETS.values()]
    wrong = {
        key: np.where(rng.random(len(TRUE)) < 0.1 * (i + 1), (TRUE + 1 + i) % 10, TRUE) for i, key in enumerate(keys)
    }
    return {"clean_label": TRUE.copy(), **wrong}


def write(path: Path, content: dict[str, np.ndarray]) -> Path:
    if path.suffix == ".pt":
        torch.save(content, path)
    else:
        np.savez(path, **content)
    return path


@pytest.mark.parametrize("kind", ["pt", "npz"])
@pytest.mark.parametrize("name", HUMAN_SETS)
def test_the_labels_are_those_of_the_file_in_the_order_of_the_train_set(name, kind, tmp_path):
    content = label_sets()
    file = write(tmp_path / f"labels.{kind}", content)
    manifest = make_stream(SOURCE, noise=f"human:{name}", noise_file=file, holdout=20, seed=2)
    given = content[HUMAN_SETS[name].key]
    assert manifest.labels.tolist() == given[manifest.order].tolist()
    assert manifest.realised_noise == np.mean(given[manifest.order] != TRUE[manifest.order])
    assert (manifest.noise, manifest.noise_rate) == (f"human:{name}", 0)
    manifest.save(tmp_path / "stream.json")
    assert verify(StreamManifest.load(tmp_path / "stream.json"), SOURCE) == []


def test_files_of_tensors_and_plain_arrays_do_as_well(tmp_path):
    content = label_sets()
    torch.save({key: torch.from_numpy(value) for key, value in content.items()}, tmp_path / "tensors.pt")
    np.save(tmp_path / "worst.npy", content["worse_label"])
    wanted = make_stream(SOURCE, noise="human:worst", noise_file=write(tmp_path / "labels.npz", content))
    for name in ("tensors.pt", "worst.npy"):
        assert make_stream(SOURCE, noise="human:worst", noise_file=tmp_path / name) == wanted


class Evil:
    def __reduce__(self):
        return (eval, ("1/0",))


def test_files_that_would_run_code_are_refused(tmp_path):
    torch.save({"clean_label": Evil()}, tmp_path / "evil.pt")
    np.save(tmp_path / "evil.npy", np.array(label_sets(), dtype=object), allow_pickle=True)
    for name in ("evil.pt", "evil.npy"):
        with pytest.raises(DataError, match="cannot be read"):
            make_stream(SOURCE, noise="human:worst", noise_file=tmp_path / name)


def test_a_file_in_another_order_is_refused(tmp_path):
    content = {key: value[::-1].copy() for key, value in label_sets().items()}
    with pytest.raises(DataError, match=r"% of its clean labels are not those of the data"):
        make_stream(SOURCE, noise="human:worst", noise_file=write(tmp_path / "labels.pt", content))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worse_label": None}, "should hold worse_label, but holds aggre_label"),
        ({"worse_label": TRUE[:-1]}, "one for each of the train images"),
        ({"worse_label": TRUE.astype(float)}, "should be integers"),
        ({"worse_label": TRUE + 1}, "labels should lie in 0 to 9"),
    ],
)
def test_faults_of_files_are_told(change, message, tmp_path):
    content = {key: value for key, value in {**label_sets(), **change}.items() if value is not None}
    with pytest.raises(DataError, match=message):
        make_stream(SOURCE, noise="human:worst", noise_file=write(tmp_path / "labels.npz", content))


def test_what_is_missing_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"needs the published label file: say --noise-file"):
        make_stream(SOURCE, noise="human:worst")
    with pytest.raises(ValueError, match="aggregate, random1"):
        make_stream(SOURCE, noise="human:best", noise_file=tmp_path / "x.pt")
    for name in ("x.pt", "x.npz"):
        with pytest.raises(DataError, match="there is no file"):
            make_stream(SOURCE, noise="human:worst", noise_file=tmp_path / name)
    (tmp_path / "x.pt").write_bytes(b"damaged")
    with pytest.raises(DataError, match="or is damaged"):
        make_stream(SOURCE, noise="human:worst", noise_file=tmp_path / "x.pt")
