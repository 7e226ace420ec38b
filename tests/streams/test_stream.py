import numpy as np
import pytest
import torch

from puridiver.errors import ManifestError
from puridiver.streams import Stream, TrueLabels, make_stream

from .samples import small_source

SOURCE = small_source()
MANIFEST = make_stream(SOURCE, n_tasks=3, noise="sym-30", seed=1)


def test_arrivals_are_read_in_their_order_with_given_labels():
    batch = Stream(SOURCE, MANIFEST).read(40, 250)
    assert batch.labels.tolist() == MANIFEST.labels[40:250].tolist()
    assert batch.images.dtype == torch.uint8
    assert torch.equal(batch.images, SOURCE.train.images[MANIFEST.order[40:250].tolist()])


@pytest.mark.parametrize("task", [3, -1])
def test_wrong_tasks_are_refused(task):
    with pytest.raises(ValueError, match="should be"):
        MANIFEST.task_slice(task)


def test_true_labels_are_those_of_the_arrivals():
    truth = TrueLabels.of(SOURCE, MANIFEST)
    assert truth.true.tolist() == SOURCE.train.labels[MANIFEST.order.tolist()].tolist()
    assert np.mean(truth.true.numpy() != truth.given.numpy()) == pytest.approx(0.3)


@pytest.mark.parametrize("view", [Stream, TrueLabels.of])
def test_a_manifest_of_other_data_is_refused(view):
    with pytest.raises(ManifestError, match="belongs to 'small', but 'other' is other data"):
        view(small_source(name="other", seed=5), MANIFEST)
