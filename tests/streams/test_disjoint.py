import numpy as np

from puridiver.streams.disjoint import disjoint_tasks


def test_each_class_arrives_in_one_task_and_every_sample_once():
    labels = np.random.default_rng(0).integers(10, size=400)
    tasks = disjoint_tasks(labels, 10, 5, np.random.default_rng(1))
    assert sorted(tasks.order.tolist()) == list(range(400))
    assert [len(group) for group in tasks.major_classes] == [2] * 5
    for indices, major in zip(tasks.indices, tasks.major_classes, strict=True):
        assert set(labels[indices]) == set(major)
        assert (np.diff(indices) < 0).any()
