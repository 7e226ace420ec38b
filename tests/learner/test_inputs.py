"""What a user may hand to the learner, and what every refusal says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from puridiver.learner import inputs
from puridiver.learner.inputs import as_arrivals, as_classes, as_corrections, as_images, as_labels, as_source_ids

SHAPE = (4, 5, 3)
PIXELS = np.random.default_rng(0).integers(256, size=(2, *SHAPE), dtype=np.uint8)
FLOATS = torch.from_numpy(PIXELS) / 255
KNOWN = {"cat": 0, "dog": 1}


@pytest.mark.parametrize(
    "images",
    [
        PIXELS, torch.from_numpy(PIXELS), list(PIXELS), PIXELS / 255, (PIXELS / 255).astype(np.float32), FLOATS,
        FLOATS.half(), PIXELS.astype(np.longdouble) / 255, FLOATS.tolist(), FLOATS.clone().requires_grad_(),
        list(FLOATS), np.asfortranarray(PIXELS), PIXELS[::-1][::-1],
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
        (PIXELS[0], r"\(N, 4, 5, 3\), but got \(4, 5, 3\): a single image is a batch of one"),
        ([], "the batch is empty"),
        ([PIXELS[0], PIXELS[0][:3]], r"one shape.* but got \(3, 5, 3\), \(4, 5, 3\)"),
        ([torch.zeros(SHAPE), torch.zeros(4, 6, 3)], r"one shape.* but got \(4, 5, 3\), \(4, 6, 3\)"),
        (torch.from_numpy(PIXELS).to_sparse(), "dense tensor"),
        (torch.zeros((2, *SHAPE), device="meta"), "device meta"),
        (PIXELS.transpose(0, 3, 1, 2), r"but got \(2, 3, 4, 5\)"),
        (PIXELS.astype(np.int64), "uint8, or floats"),
        (torch.from_numpy(PIXELS).int(), "uint8, or floats"),
        (PIXELS > 3, "uint8, or floats"),
        (PIXELS.astype(str), "uint8, or floats"),
        (None, "uint8, or floats"),
        (PIXELS.astype(np.float32), r"lie in \[0, 1\]"),
        (np.full((2, *SHAPE), np.nan), "should be finite"),
    ],
)
def test_images_that_cannot_be_used_are_refused(images, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_images(images, SHAPE)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 2], [0, 2]),
        ((np.int64(0), 2), [0, 2]),
        (np.array([0, 2], dtype=np.uint8), [0, 2]),
        (torch.tensor([0, 2], dtype=torch.int32), [0, 2]),
        (["a", np.str_("bc")], ["a", "bc"]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array(["a", "bc"], dtype=object), ["a", "bc"]),
        ([2**53 + 1, -1], [2**53 + 1, -1]),
        ([-1, 2**63], [-1, 2**63]),
        (np.array([0, 2**63], dtype=np.uint64), [0, 2**63]),
        (["a\0", "a"], ["a\0", "a"]),
    ],
)
def test_labels_become_plain_python_values_and_none_changes(labels, expected: list) -> None:
    found = as_labels(labels, 2)
    assert found == expected
    assert {type(label) for label in found} in ({int}, {str})


@pytest.mark.parametrize(
    "labels",
    [
        [0], [[0], [1]], 0, None, [0.0, 1.0], torch.tensor([0.0, 1.0]), [True, False],
        np.array([0, None], dtype=object),
        torch.zeros(2, dtype=torch.int64, device="meta"), ["a", 1], [b"a", b"b"], np.array([b"a", b"b"]),
        np.ma.masked_array([0, 1], mask=[True, False]), np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]"),
        np.array([1, 2], dtype="timedelta64[s]"), [None, None], [float("nan"), "a"],
    ],
)  # fmt: skip
def test_labels_that_cannot_be_used_are_refused(labels) -> None:
    with pytest.raises(ValueError, match="labels should"):
        as_labels(labels, 2)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (None, []), (3, [0, 1, 2]), (np.int64(3), [0, 1, 2]), ([5, 2], [5, 2]), (np.array(["b", "a"]), ["b", "a"]),
        (iter([1, 0]), [1, 0]), (range(2), [0, 1]),
    ],
)  # fmt: skip
def test_classes_of_every_kind(classes, expected: list) -> None:
    found = as_classes(classes)
    assert found == expected
    assert {type(label) for label in found} <= {int, str}


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (0, "positive whole number"), (3.0, "positive whole number"), (True, "positive whole number"),
        (np.array(3.0), "positive whole number"), (["a", " "], "should have a name"), ([], "at least one class"),
        ([1, 1], "twice"), ([1, "a"], "all integers or all strings"), ([True, False], "all integers or all strings"),
        ("cat", "list of labels"), (10**9, "at most 100,000 classes"), (["a" * 1_000_000], "at most 1,000 characters"),
    ],
)  # fmt: skip
def test_classes_that_cannot_be_used_are_refused(classes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_classes(classes)


def test_class_ids_count_new_classes_in_order_of_appearance() -> None:
    ids, new = inputs.class_ids([7, 3, 7, 1, 3], {1: 0}, grow=True)
    assert (ids.tolist(), new) == ([1, 2, 1, 0, 2], [7, 3])
    assert inputs.class_ids(["b", "a"], {"a": 0, "b": 1}, grow=False)[0].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "known", "grow", "message"),
    [
        (["a", "c"], ["a", "b"], False, r"among the classes 'a', 'b', but got 'c'; .*grow=True"),
        (["x"], [0, 1], True, "kind of the classes, int, but got str"),
        (["cat", " "], ["cat"], True, "should have a name"),
        (["a" * 1_001], [], True, "at most 1,000 characters"),
        (list(range(100_001)), [], True, "at most 100,000 classes"),
    ],
)
def test_labels_that_make_no_class_are_refused(labels: list, known: list, grow: bool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inputs.class_ids(labels, {label: i for i, label in enumerate(known)}, grow)


@pytest.mark.parametrize("classes", [[1, 5], ["a", "bc"], ["a\0", "a"], [-1, 2**63], [2**53 + 1, 2**70], []])
def test_predicted_labels_are_the_labels_exactly(classes: list) -> None:
    assert inputs.label_array(classes).tolist() == classes


def test_numbers_of_numpy_become_python_s_own_and_others_are_refused() -> None:
    found = [inputs.as_whole(np.int64(5), "memory", 1), inputs.as_seconds(np.float32(2.5)), inputs.as_seconds(None)]
    assert found == [5, 2.5, None]
    assert type(found[0]) is int
    assert inputs.as_image_shape((np.int64(8), 8, 1)) == (8, 8, 1)
    for wrong in (True, 0, 1.5, "3", None, np.float64(3)):
        with pytest.raises(ValueError, match="memory should be a whole number, at least 1 sample, but got"):
            inputs.as_whole(wrong, "memory", 1, " sample")
    for wrong in (0, -1.0, float("nan"), float("inf"), True, "30"):
        with pytest.raises(ValueError, match="seconds should be a number above 0"):
            inputs.as_seconds(wrong)
    for shape in [(8.5, 8, 1), (8, 8, True), ("8", 8, 1), (8, 8), (3, 8, 1), 8, (8, 8, 2)]:
        with pytest.raises(ValueError, match="image_shape should be"):
            inputs.as_image_shape(shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "b"], ["a", "b"]), ((7, "7"), [7, "7"]), (np.array([3, 4]), [3, 4]),
        (np.array([3, "b"], dtype=object), [3, "b"]), (torch.tensor([3, 4]), [3, 4]), (range(2), [0, 1]),
        ([np.int64(1), np.str_("x")], [1, "x"]),
    ],
)  # fmt: skip
def test_ids_become_plain_python_values(ids, expected: list) -> None:
    found = as_source_ids(ids, 2)
    assert found == expected
    assert [type(each) for each in found] == [type(each) for each in expected]


@pytest.mark.parametrize(
    "ids", [["a"], ["a", "b", "c"], "ab", 5, {"a", "b"}, np.zeros((2, 1), dtype=int), ["a", None], [1, 2.0], [1, True]]
)
def test_ids_that_cannot_be_used_are_refused(ids) -> None:
    with pytest.raises(ValueError, match="ids should be"):
        as_source_ids(ids, 2)


def test_corrections_are_class_ids_by_arrival() -> None:
    assert as_corrections({np.int64(3): "dog"}, KNOWN, 20) == {3: 1}
    held = {4: "a", 7: "b", 9: "a"}
    assert as_corrections({"a": "dog", "gone": "cat"}, KNOWN, 10, held) == {4: 1, 9: 1}
    assert as_corrections({}, KNOWN, 0) == {}
    assert as_arrivals(["a", "gone"], 10, held) == [4, 9]
    for samples in ([4, 9], (4, 9), {4, 9}, np.array([4, 9]), torch.tensor([4, 9]), range(4, 10, 5)):
        assert sorted(as_arrivals(samples, 10)) == [4, 9]


@pytest.mark.parametrize(
    ("labels", "seen", "ids", "message"),
    [
        ({"17": "dog"}, 20, None, "whole numbers"), ({1.0: "dog"}, 20, None, "whole numbers"),
        ({20: "dog"}, 20, None, "from 0 to 19"), ({0: "dog"}, 0, None, "nothing was observed yet"),
        (["dog"], 20, None, "a dict of arrival"), ({3: True}, 20, None, "integer or a string"),
        ({3: None}, 20, None, "integer or a string"), ({3: "owl"}, 20, None, "a correction adds no class"),
        ([("a", "cat")], 20, {}, "a dict of id"), ({1.5: "cat"}, 20, {}, "ids should be strings or integers"),
    ],
)  # fmt: skip
def test_corrections_that_make_no_sense_are_refused(labels, seen: int, ids, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_corrections(labels, KNOWN, seen, ids)


@pytest.mark.parametrize(("samples", "ids"), [(4, None), ([10], None), ([1.0], None), ("a", {}), ([None], {})])
def test_what_names_no_samples_is_refused(samples, ids) -> None:
    with pytest.raises(ValueError, match=r"(arrivals|ids) should be"):
        as_arrivals(samples, 10, ids)
