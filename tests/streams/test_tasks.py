import numpy as np
import pytest

from puridiver.streams.tasks import Tasks, group_classes, random_groups


@pytest.mark.parametrize(
    ("n_classes", "sizes"),
    [(101, [20, 20, 20, 20, 21]), (8, [1, 1, 2, 2, 2]), (10, [2] * 5), (5, [1] * 5), (9, [1, 2, 2, 2, 2]), (3, [3])],
)
def test_classes_left_over_go_to_the_last_tasks_one_each(n_classes, sizes):
    groups = group_classes(range(n_classes), len(sizes))
    assert [len(group) for group in groups] == sizes
    assert [c for group in groups for c in group] == list(range(n_classes))


def test_with_the_rest_to_the_last_that_has_all_that_are_left_over():
    assert [len(group) for group in group_classes(range(8), 5, rest_to_last=True)] == [1, 1, 1, 1, 4]
    assert group_classes(range(101), 5, rest_to_last=True) == group_classes(range(101), 5)  # of one it is the same


def test_random_groups_hold_each_class_once_and_follow_the_generator():
    groups = random_groups(10, 3, np.random.default_rng(0))
    assert sorted(c for group in groups for c in group) == list(range(10))
    assert groups == random_groups(10, 3, np.random.default_rng(0))
    assert groups != random_groups(10, 3, np.random.default_rng(1))


@pytest.mark.parametrize("n_tasks", [0, -1, 4])
def test_there_can_be_no_more_tasks_than_classes(n_tasks):
    with pytest.raises(ValueError, match=f"from 1 to that of classes, 3, but got {n_tasks}"):
        group_classes(range(3), n_tasks)


def test_order_and_ends_follow_the_tasks():
    tasks = Tasks([np.array([4, 2]), np.array([0]), np.array([3, 1])], [(0,), (1,), (2,)])
    assert tasks.order.tolist() == [4, 2, 0, 3, 1]
    assert tasks.ends == (2, 3, 5)
