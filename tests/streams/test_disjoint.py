import numpy as np
import pytest

from puridiver.streams.disjoint import disjoint_tasks


def test_each_class_arrives_in_one_task_and_every_sample_once():
    labels = np.random.default_rng(0).integers(10, size=400)
    tasks = disjoint_tasks(labels, 10, 5, np.random.default_rng(1))
    assert sorted(tasks.order.tolist()) == list(range(400))
    assert [len(group) for group in tasks.major_classes] == [2] * 5
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        assert set(labels[indices]) == set(major)
        assert (np.diff(indices) < 0).any()


def test_a_number_of_classes_per_task_takes_the_largest_classes_only():
    labels = np.repeat(np.arange(6), [5, 40, 30, 7, 20, 25])
    tasks = disjoint_tasks(labels, 6, 2, np.random.default_rng(0), classes_per_task=2)
    assert sorted(c for group in tasks.major_classes for c in group) == [1, 2, 4, 5]
    assert [len(group) for group in tasks.major_classes] == [2, 2]
    assert len(tasks.order) == 40 + 30 + 20 + 25


@pytest.mark.parametrize("classes_per_task", [0, 4])
def test_more_classes_than_there_are_are_refused(classes_per_task):
    with pytest.raises(ValueError, match=f"number of classes, 6, but got {2 * classes_per_task}"):
        disjoint_tasks(np.arange(12) % 6, 6, 2, np.random.default_rng(0), classes_per_task)
