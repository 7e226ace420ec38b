"""Data sets and loaders of torch and of Hugging Face as sources of a learner, an audit and a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, TensorDataset

import puridiver
from puridiver import Learner, RunConfig
from puridiver.data import from_dataset
from puridiver.runs.experiment import Experiment
from tests.learner_samples import SHAPE, differing, feed, patterns, tensors_of

IMAGES, LABELS = patterns(40)
TENSORS = TensorDataset(torch.from_numpy(IMAGES).permute(0, 3, 1, 2), torch.from_numpy(LABELS))


class Pictures(Dataset):
    """Items as a folder of torchvision has them: a Pillow picture and a number."""

    classes = ("a", "b", "c")

    def __init__(self, sides=(8,), mode: str = "L") -> None:
        self.sides, self.mode = sides, mode

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, row: int):
        side = self.sides[row % len(self.sides)]
        return Image.fromarray(IMAGES[row, ..., 0]).convert(self.mode).resize((side, side)), int(LABELS[row])


class Stream(IterableDataset):
    def __iter__(self):
        return iter({"img": image, "fine_label": label} for image, label in zip(IMAGES, LABELS, strict=True))


def learner() -> Learner:
    return Learner(3, SHAPE, 20, epochs=2, stream_batch=8)


def hugging_face():
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])})
    pictures = [Image.fromarray(image[..., 0]) for image in IMAGES]
    return datasets.Dataset.from_dict({"image": pictures, "label": LABELS.tolist()}, features=features)


SOURCES = {
    "dataset of tensors": lambda: TENSORS,
    "loader": lambda: DataLoader(TENSORS, batch_size=8),
    "loader of chosen batches": lambda: DataLoader(TENSORS, batch_sampler=BatchSampler(range(40), 8, False)),
    "loader without batches": lambda: DataLoader(TENSORS, batch_size=None),
    "pictures": Pictures,
    "hugging face": hugging_face,
    "pairs": lambda: zip(IMAGES, LABELS, strict=True),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_source_teaches_what_its_arrays_teach(make) -> None:
    found, expected = learner(), feed(learner(), IMAGES, LABELS)
    assert found.observe_all(make()) == range(40)
    assert not differing(tensors_of(found), tensors_of(expected))


def test_dicts_have_keys_of_any_name() -> None:
    found = learner()
    assert found.observe_all(Stream(), keys=("img", "fine_label")) == range(40)
    with pytest.raises(ValueError, match="but image is not among img, fine_label: say keys="):
        found.observe_all(Stream())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (IMAGES, "a Hugging Face Dataset or an iterable of .* but got a ndarray"),
        (Pictures((8, 9)), r"all of one kind and shape, but got \(8, 8\), \(9, 9\): resize them first"),
        (Pictures(mode="P"), "should be grey .* but is P: convert it first"),
        (iter([1, 2]), "should be .image, label. or a dict of them, but is a int"),
        (Pictures((9,)), r"images should have the shape \(N, 8, 8, 1\)"),
    ],
)
def test_sources_that_cannot_be_used_are_refused(source, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learner().observe_all(source)


@pytest.mark.parametrize("make", [lambda: TENSORS, Pictures, hugging_face, lambda: DataLoader(TENSORS, 16)])
def test_an_audit_of_a_source_is_that_of_its_arrays(make) -> None:
    settings = {"passes": 1, "memory": 20, "epochs": 1, "flip": False}
    found = puridiver.audit(make(), **settings)
    assert np.array_equal(found.p_correct, puridiver.audit(IMAGES, LABELS, **settings).p_correct)


def test_an_audit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="the source is empty"):
        puridiver.audit(iter([]))


@pytest.mark.parametrize("make", [Pictures, hugging_face])
def test_a_run_on_a_source_keeps_grey_images_grey_and_their_size_unless_asked(make) -> None:
    source = from_dataset(make(), DataLoader(TENSORS, 16), name="mine")
    assert source.input_shape == SHAPE
    assert source.class_names == ("a", "b", "c")
    assert np.array_equal(source.train.images.numpy(), IMAGES)
    summary = Experiment(RunConfig(tasks=1, memory=20, epochs=1, diversity=False), source=source).run()
    assert summary["data"] == "mine"
    asked = from_dataset(Pictures((8, 20)), TENSORS, input_shape=(16, 16, 3))
    assert asked.input_shape == (16, 16, 3)
