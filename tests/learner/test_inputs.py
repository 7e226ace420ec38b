"""What a user may hand to the learner, and what every refusal says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from puridiver.learner import inputs
from puridiver.learner.inputs import as_classes, as_corrections, as_images, as_keys, as_labels

SHAPE = (4, 5, 3)
PIXELS = np.random.default_rng(0).integers(256, size=(2, *SHAPE), dtype=np.uint8)
FLOATS = torch.from_numpy(PIXELS) / 255
KNOWN = {"cat": 0, "dog": 1}


@pytest.mark.parametrize(
    "images",
    [
        PIXELS, torch.from_numpy(PIXELS), list(PIXELS), PIXELS / 255, FLOATS, FLOATS.half(), FLOATS.tolist(),
        PIXELS.astype(np.longdouble) / 255, FLOATS.clone().requires_grad_(), list(FLOATS), PIXELS[::-1][::-1],
        PIXELS.transpose(0, 3, 1, 2), FLOATS.permute(0, 3, 1, 2),
        np.frombuffer(PIXELS.tobytes(), np.uint8).reshape(PIXELS.shape),
    ],
)  # fmt: skip
def test_images_of_every_kind_become_the_same_bytes(images) -> None:
    found = as_images(images, SHAPE)
    assert found.dtype == torch.uint8
    assert torch.equal(found, torch.from_numpy(PIXELS))


def test_grey_images_may_leave_out_the_channel_axis() -> None:
    grey = PIXELS[..., :1]
    assert torch.equal(as_images(grey[..., 0], (4, 5, 1)), as_images(grey, (4, 5, 1)))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (PIXELS[0], r"\(N, 4, 5, 3\) or \(N, 3, 4, 5\), but got \(4, 5, 3\): a single image is a batch of one"),
        ([], "the batch is empty"),
        ([PIXELS[0], PIXELS[0][:3]], "all of one shape"),
        ([torch.zeros(SHAPE), torch.zeros(4, 6, 3)], "all of one shape"),
        (PIXELS.transpose(0, 2, 1, 3), r"but got \(2, 5, 4, 3\)"),
        (PIXELS.astype(np.int64), "uint8, or floats"),
        (torch.from_numpy(PIXELS).int(), "uint8, or floats"),
        (PIXELS > 3, "uint8, or floats"),
        (None, "uint8, or floats"),
        (FLOATS.to_sparse(), "a dense tensor"),
        (FLOATS.to("meta"), "a dense tensor"),
        (FLOATS.to(torch.float8_e4m3fn), "uint8, or floats"),
        (FLOATS.to(torch.complex64), "uint8, or floats"),
        (PIXELS.astype(np.float32), r"in \[0, 1\]"),
        (np.full((2, *SHAPE), np.nan), "should be finite"),
    ],
)
def test_images_that_cannot_be_used_are_refused(images, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_images(images, SHAPE)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ((np.int64(0), 2), [0, 2]),
        (np.array([0, 2], dtype=np.uint8), [0, 2]),
        (torch.tensor([0, 2], dtype=torch.int32), [0, 2]),
        (["a", np.str_("bc")], ["a", "bc"]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array(["a", "bc"], dtype=object), ["a", "bc"]),
        ([2**53 + 1, 2**63], [2**53 + 1, 2**63]),
        ([-1, 2**63], [-1, 2**63]),
        (np.array([0, 2**63], dtype=np.uint64), [0, 2**63]),
        (["a\0", "a"], ["a\0", "a"]),
        (range(2), [0, 1]),
    ],
)
def test_labels_and_ids_become_plain_python_values_and_none_changes(labels, expected: list) -> None:
    found = as_labels(labels, 2)
    assert found == expected
    assert {type(label) for label in found} in ({int}, {str})


@pytest.mark.parametrize(
    "labels",
    [
        [0], [[0], [1]], 0, None, "ab", {0, 1}, [0.0, 1.0], torch.tensor([0.0, 1.0]), torch.tensor(3), [True, False],
        np.array([0, None], dtype=object), ["a", 1], [b"a", b"b"],
        np.array([b"a", b"b"]), [float("nan"), "a"],
        np.ma.masked_array([0, 1], mask=[True, False]), np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"),
        np.array([1, 2], dtype="timedelta64[s]"),
    ],
)  # fmt: skip
def test_labels_and_ids_that_cannot_be_used_are_refused(labels) -> None:
    with pytest.raises(ValueError, match="ids should be"):
        as_labels(labels, 2, "ids")


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (None, []), (np.int64(3), [0, 1, 2]), ([5, 2], [5, 2]), (np.array(["b", "a"]), ["b", "a"]),
        (iter([1, 0]), [1, 0]),
    ],
)  # fmt: skip
def test_classes_of_every_kind(classes, expected: list) -> None:
    found = as_classes(classes)
    assert found == expected
    assert {type(label) for label in found} <= {int, str}


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (0, "a whole number, 1 to 100,000, or a list"), (3.0, "a whole number"), (True, "a whole number"),
        (np.array(3.0), "a whole number"), (10**9, "a whole number"), ("cat", "list of labels"),
        ([], "at least one class"), ([1, 1], "twice"), ([1, "a"], "all integers or all strings"),
        (["a", " "], "a name of 1 to 1,000 characters"), (["a" * 1_000_000], "a name of 1 to 1,000 characters"),
        (["a", "a\0"], "none of them NUL"), ([2**63], "an integer of 64 bits"),
    ],
)  # fmt: skip
def test_classes_that_cannot_be_used_are_refused(classes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_classes(classes)


def test_class_ids_count_new_classes_in_order_of_appearance() -> None:
    ids, new = inputs.class_ids([7, 3, 7, 1, 3], {1: 0}, grow=True)
    assert (ids.tolist(), new) == ([1, 2, 1, 0, 2], [7, 3])


@pytest.mark.parametrize(
    ("labels", "known", "grow", "message"),
    [
        (["a", "c"], ["a", "b"], False, r"among the classes 'a', 'b', but got 'c'; .*grow=True"),
        (["x"], [0, 1], True, "kind of the classes, int, but got str"),
        (["cat", " "], ["cat"], True, "a name of 1 to 1,000 characters"),
        (["c" * 2**20], ["cat"], True, "a name of 1 to 1,000 characters"),
        (list(range(100_001)), [], True, "at most 100,000 classes"),
    ],
)
def test_labels_that_make_no_class_are_refused(labels: list, known: list, grow: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inputs.class_ids(labels, {label: i for i, label in enumerate(known)}, grow)


def test_numbers_of_numpy_become_python_s_own_and_others_are_refused() -> None:
    assert type(inputs.as_whole(np.int64(5), "memory", 1)) is int
    assert inputs.as_input_shape((np.int64(8), 8, 1)) == (8, 8, 1)
    for wrong in (True, 0, 1.5, "3", None, np.float64(3)):
        with pytest.raises(ValueError, match="memory should be a whole number, at least 1 sample, but got"):
            inputs.as_whole(wrong, "memory", 1, " sample")
    for shape in [(8.5, 8, 1), (8, 8, True), ("8", 8, 1), (8, 8), (3, 8, 1), 8, (8, 8, 2)]:
        with pytest.raises(ValueError, match="input_shape should be"):
            inputs.as_input_shape(shape)  # type: ignore[arg-type]


def test_corrections_are_class_ids_by_arrival_or_id() -> None:
    assert as_corrections({np.int64(3): "dog", 4: None}, KNOWN, by_id=False) == {3: 1, 4: None}
    assert as_corrections({"a": "dog", 7: "cat"}, KNOWN, by_id=True) == {"a": 1, 7: 0}


@pytest.mark.parametrize(
    ("labels", "by_id", "message"),
    [
        ({"17": "dog"}, False, "arrivals should be whole numbers from 0 on"), ({1.0: "dog"}, False, "arrivals should"),
        ({-1: "dog"}, False, "from 0 on"), (["dog"], False, "a dict of arrival"),
        ({3: True}, False, "integer, a string"), ({3: "owl"}, False, "a correction adds no class"),
        ([("a", "cat")], True, "a dict of id"),
        ({2.5: "cat"}, True, "ids should be integers or strings"),
    ],
)  # fmt: skip
def test_corrections_that_make_no_sense_are_refused(labels, by_id: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_corrections(labels, KNOWN, by_id)


@pytest.mark.parametrize(
    ("keys", "by_id"), [("photo-1.png", True), (torch.tensor(3), False), ([True], False), ([None], True)]
)
def test_samples_are_named_in_a_list(keys, by_id: bool) -> None:
    with pytest.raises(ValueError, match="should be"):
        as_keys(keys, by_id)
