import numpy as np
import pytest
import torch

from puridiver.errors import ManifestError
from puridiver.streams import Stream, TrueLabels, make_stream

from .samples import small_source

SOURCE = small_source()
MANIFEST = make_stream(SOURCE, n_tasks=3, noise="sym-30", seed=1)


def test_batches_bring_every_arrival_once_in_order_and_none_crosses_the_end_of_a_task():
    batches = list(Stream(SOURCE, MANIFEST).batches(16))
    assert torch.cat([batch.labels for batch in batches]).tolist() == MANIFEST.labels.tolist()
    images = torch.cat([batch.images for batch in batches])
    assert images.dtype == torch.uint8
    assert torch.equal(images, SOURCE.train.images[torch.from_numpy(MANIFEST.order.copy())])
    for task in range(3):
        part = MANIFEST.task_slice(task)
        sizes = [len(batch.labels) for batch in batches if batch.task == task]
        assert sum(sizes) == part.stop - part.start
        assert set(sizes[:-1]) == {16}


@pytest.mark.parametrize(("batch_size", "task"), [(0, None), (4, 3), (4, -1)])
def test_wrong_batch_sizes_and_tasks_are_refused(batch_size, task):
    with pytest.raises(ValueError, match="should be"):
        list(Stream(SOURCE, MANIFEST).batches(batch_size, task))


def test_true_labels_are_those_of_the_arrivals():
    truth = TrueLabels.of(SOURCE, MANIFEST)
    assert truth.true.tolist() == SOURCE.train.labels[MANIFEST.order.tolist()].tolist()
    assert np.mean(truth.true.numpy() != truth.given.numpy()) == pytest.approx(0.3)


@pytest.mark.parametrize("view", [Stream, TrueLabels.of])
def test_a_manifest_of_other_data_is_refused(view):
    with pytest.raises(ManifestError, match="belongs to 'small', but 'other' is other data"):
        view(small_source(name="other", seed=5), MANIFEST)
