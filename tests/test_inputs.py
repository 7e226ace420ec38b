"""What a user may hand to the learner, and what every refusal says."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from puridiver.learner.inputs import (
    as_arrivals,
    as_classes,
    as_corrections,
    as_epochs,
    as_image_shape,
    as_images,
    as_labels,
    as_memory,
    as_seconds,
    as_seed,
    as_source_ids,
    new_classes,
)

SHAPE = (4, 5, 3)
PIXELS = np.random.default_rng(0).integers(256, size=(2, *SHAPE), dtype=np.uint8)


@pytest.mark.parametrize(
    "images",
    [
        PIXELS,
        torch.from_numpy(PIXELS),
        list(PIXELS),
        PIXELS / 255,
        (PIXELS / 255).astype(np.float32),
        torch.from_numpy(PIXELS) / 255,
        (torch.from_numpy(PIXELS) / 255).half(),
        PIXELS.astype(np.longdouble) / 255,
        (torch.from_numpy(PIXELS) / 255).tolist(),
        (torch.from_numpy(PIXELS) / 255).requires_grad_(),
        list((torch.from_numpy(PIXELS) / 255).requires_grad_()),
        np.asfortranarray(PIXELS),
        PIXELS[::-1][::-1],
    ],
    ids=[
        "uint8",
        "tensor",
        "list",
        "float64",
        "float32",
        "float-tensor",
        "half",
        "longdouble",
        "nested",
        "with-gradient",
        "list-with-gradient",
        "fortran",
        "strided",
    ],
)
def test_images_of_every_kind_become_the_same_bytes(images):
    found = as_images(images, SHAPE)
    assert found.dtype == torch.uint8
    assert torch.equal(found, torch.from_numpy(PIXELS))


def test_read_only_arrays_are_as_good_as_others():
    """Arrays from a memory map or from another library are often read-only; torch warns of them, once."""
    frozen = PIXELS.copy()
    frozen.setflags(write=False)
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        assert torch.equal(as_images(frozen, SHAPE), as_images(PIXELS, SHAPE))
    finally:
        torch.set_warn_always(before)


def test_grey_images_may_leave_out_the_channel_axis():
    grey = PIXELS[..., :1]
    assert torch.equal(as_images(grey[..., 0], (4, 5, 1)), as_images(grey, (4, 5, 1)))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (PIXELS[0], r"the shape \(N, 4, 5, 3\), but got \(4, 5, 3\): a single image is a batch of one, image\[None\]"),
        ([], "the batch is empty"),
        ([PIXELS[0], PIXELS[0], PIXELS[0][:3]], r"image 0 has \(4, 5, 3\) and image 2 has \(3, 5, 3\): bring them to"),
        ([PIXELS[0], PIXELS[0][..., 0]], r"image 0 has \(4, 5, 3\) and image 1 has \(4, 5\): .*one mode"),
        ([torch.zeros(SHAPE), torch.zeros(4, 6, 3)], r"image 0 has \(4, 5, 3\) and image 1 has \(4, 6, 3\)"),
        (torch.from_numpy(PIXELS).to_sparse(), "should be a dense tensor that holds its values, .* torch.sparse_coo"),
        (torch.zeros((2, *SHAPE), device="meta"), "should be a dense tensor that holds its values, .* device meta"),
        (PIXELS.transpose(0, 3, 1, 2), r"\(N, 4, 5, 3\), but got \(2, 3, 4, 5\)"),
        (PIXELS[..., :1], r"\(N, 4, 5, 3\), but got \(2, 4, 5, 1\)"),
        (PIXELS[:0], "the batch is empty"),
        (PIXELS.astype(np.int64), "should be uint8, or floats in .0, 1., but got .*int64"),
        (torch.from_numpy(PIXELS).int(), "should be uint8, or floats in .0, 1., but got .*int32"),
        (PIXELS > 3, "should be uint8, or floats in .0, 1., but got .*bool"),
        (PIXELS.astype(str), "should be uint8, or floats"),
        (None, "should be uint8, or floats"),
        (PIXELS.astype(np.float32), r"should lie in \[0, 1\], but got values from"),
        (PIXELS / -255, r"should lie in \[0, 1\], but got values from -"),
        (np.full((2, *SHAPE), np.nan), "should be finite"),
        (torch.full((2, *SHAPE), torch.inf), "should be finite"),
    ],
)
def test_images_that_cannot_be_used_are_refused(images, message):
    with pytest.raises(ValueError, match=message):
        as_images(images, SHAPE)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 2], [0, 2]),
        ((0, 2), [0, 2]),
        (np.array([0, 2], dtype=np.uint8), [0, 2]),
        (torch.tensor([0, 2]), [0, 2]),
        (torch.tensor([0, 2], dtype=torch.int32), [0, 2]),
        (["a", "bc"], ["a", "bc"]),
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array(["a", "bc"], dtype=object), ["a", "bc"]),
        (np.array([0, 2], dtype=object), [0, 2]),
    ],
)
def test_labels_become_plain_python_values(labels, expected):
    found = as_labels(labels, 2)
    assert found == expected
    assert {type(label) for label in found} in ({int}, {str})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], r"should have the shape \(2,\), one for each image, but got \(1,\)"),
        ([[0], [1]], r"\(2,\), one for each image, but got \(2, 1\)"),
        (0, r"\(2,\), one for each image, but got \(\)"),
        (None, r"\(2,\), one for each image"),
        ([0.0, 1.0], "should be integers or strings, but got float64"),
        (torch.tensor([0.0, 1.0]), "should be integers or strings, but got float32"),
        (torch.tensor([0.0, 1.0], dtype=torch.bfloat16), "should be integers or strings"),
        ([True, False], "should be integers or strings, but got bool"),
        (np.array([0, None], dtype=object), "should be integers or strings"),
        (torch.zeros(2, dtype=torch.int64, device="meta"), "labels should be a dense tensor"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        as_labels(labels, 2)


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (None, []),
        (3, [0, 1, 2]),
        (np.int64(3), [0, 1, 2]),
        ([5, 2], [5, 2]),
        (("b", "a"), ["b", "a"]),
        (np.array([5, 2]), [5, 2]),
        (np.array(["b", "a"]), ["b", "a"]),
        (iter([1, 0]), [1, 0]),
        (range(2), [0, 1]),
    ],
)
def test_classes_of_every_kind(classes, expected):
    found = as_classes(classes)
    assert found == expected
    assert {type(label) for label in found} <= {int, str}


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (0, "positive whole number or a list of labels, but got 0"),
        (-2, "positive whole number or a list of labels, but got -2"),
        (3.0, "positive whole number or a list of labels, but got 3.0"),
        (True, "positive whole number or a list of labels, but got True"),
        (np.array(3.0), "positive whole number or a list of labels"),
        (["a", " "], "should have a name"),
        ([], "at least one class"),
        ([1, 1], "twice"),
        (["a", "b", "a"], "twice"),
        ([1, "a"], "all integers or all strings, but got int, str"),
        ([1.0, 2.0], "all integers or all strings, but got float"),
        ([True, False], "all integers or all strings, but got bool"),
        ([None], "all integers or all strings"),
        ("cat", "list of labels"),
    ],
)
def test_classes_that_cannot_be_used_are_refused(classes, message):
    with pytest.raises(ValueError, match=message):
        as_classes(classes)


def test_new_classes_come_in_order_of_appearance():
    assert new_classes([7, 3, 7, 1, 3], [1], grow=True) == [7, 3]
    assert new_classes([1, 1], [1], grow=False) == []


@pytest.mark.parametrize("label", ["", "  "])
def test_a_new_class_has_a_name(label):
    with pytest.raises(ValueError, match="should have a name, but got a label of nothing or spaces"):
        new_classes(["cat", label], ["cat"], grow=True)


def test_an_unknown_label_is_refused_without_growth():
    with pytest.raises(ValueError, match=r"among the classes 'a', 'b', but got 'c'; .*grow=True"):
        new_classes(["a", "c"], ["a", "b"], grow=False)


@pytest.mark.parametrize(("labels", "classes"), [(["x", 3], [0, 1]), ([b"x"], []), ([b"x"], ["a"])])
def test_new_labels_are_integers_or_strings(labels, classes):
    with pytest.raises(ValueError, match="new labels should be all integers or all strings"):
        new_classes(labels, classes, grow=True)


@pytest.mark.parametrize(
    ("labels", "classes", "kinds"),
    [(["x"], [0, 1], "int, but got str: 'x'"), (["a", 3], ["a"], "str, but got int: 3")],
)
def test_growth_never_mixes_integers_and_strings(labels, classes, kinds):
    with pytest.raises(ValueError, match=f"labels should be of the kind of the classes, {kinds}"):
        new_classes(labels, classes, grow=True)


@pytest.mark.parametrize("arrival", ["17", 1.5, 1.0, True, np.True_, np.float64(1), None, (1,), torch.tensor(1)])
def test_a_correction_names_its_sample_by_a_whole_number(arrival):
    with pytest.raises(ValueError, match="arrivals should be whole numbers, as `audit` tells them, but got"):
        as_corrections({0: "cat", arrival: "dog"}, ["cat", "dog"], 20, False)


@pytest.mark.parametrize("shape", [(4,), (4, 5), (4, 5, 1)])
def test_a_single_grey_image_is_named_by_the_shape_it_has(shape):
    with pytest.raises(ValueError, match=rf"\(N, 4, 5, 1\), but got {re.escape(str(shape))}") as error:
        as_images(np.zeros(shape, np.uint8), (4, 5, 1))
    assert ("image[None]" in str(error.value)) == (len(shape) > 1)


@pytest.mark.parametrize(
    "shape", [(8.5, 8, 1), (8, 8.0, 1), (8, 8, True), ("8", 8, 1), (8, 8), (3, 8, 1), 8, (8, 8, 2)]
)
def test_the_shape_of_images_is_three_whole_numbers(shape):
    with pytest.raises(ValueError, match=r"image_shape should be \(height, width, channels\) with at least 4 px"):
        as_image_shape(shape)


@pytest.mark.parametrize("wrong", [True, 0, 1.5, "3", None, np.float64(3)])
def test_memory_and_seed_are_whole_numbers(wrong):
    with pytest.raises(ValueError, match="memory should be a whole number, at least 1 sample, but got"):
        as_memory(wrong)
    if wrong != 0:
        with pytest.raises(ValueError, match="seed should be a whole number, at least 0, but got"):
            as_seed(wrong)


def test_numbers_of_numpy_become_python_s_own():
    found = [as_memory(np.int64(5)), as_seed(np.uint8(0)), as_epochs(np.int32(7)), *as_image_shape((np.int64(8), 8, 1))]
    assert found == [5, 0, 7, 8, 8, 1]
    assert {type(number) for number in found} == {int}
    assert as_epochs(None) is None


@pytest.mark.parametrize("wrong", [True, 0, -1, 1.5, "3", np.float64(3)])
def test_epochs_are_a_whole_number(wrong):
    with pytest.raises(ValueError, match="epochs should be a whole number, at least 1, but got"):
        as_epochs(wrong)


@pytest.mark.parametrize("label", [True, np.True_, 1.0, [1], None, b"1", torch.tensor(1)])
def test_a_corrected_label_is_an_integer_or_a_string(label):
    with pytest.raises(ValueError, match=r"label of a correction should be an integer or a string, but got .* for 3"):
        as_corrections({3: label}, [0, 1], 20, False)


def test_before_anything_was_seen_there_is_nothing_to_correct():
    with pytest.raises(ValueError, match="nothing was observed yet"):
        as_corrections({0: 1}, [0, 1], 0, False)
    assert as_corrections({}, [0, 1], 0, False) == {}


@pytest.mark.parametrize("labels", [["dog"], [(1, "dog")], "dog", None])
def test_corrections_are_a_dict(labels):
    with pytest.raises(ValueError, match=r"a dict of arrival: label, such as \{17: 'dog'\}, but got a "):
        as_corrections(labels, ["cat", "dog"], 20, False)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8])
def test_arrivals_may_be_integers_of_any_kind(kind):
    found = as_corrections({kind(3): "dog"}, ["cat", "dog"], 20, False)
    assert found == {3: 1}
    assert [type(arrival) for arrival in found] == [int]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        ((7, "7"), [7, "7"]),
        (np.array([3, 4]), [3, 4]),
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([3, "b"], dtype=object), [3, "b"]),
        (torch.tensor([3, 4]), [3, 4]),
        (range(2), [0, 1]),
        ([np.int64(1), np.str_("x")], [1, "x"]),
    ],
)
def test_ids_become_plain_python_values(ids, expected):
    found = as_source_ids(ids, 2)
    assert found == expected
    assert [type(each) for each in found] == [type(each) for each in expected]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a"], "ids should be as many as the images, 2, but got 1"),
        (["a", "b", "c"], "ids should be as many as the images, 2, but got 3"),
        ("ab", "ids should be a list of 2, one for each image in their order, but got a str"),
        (5, "ids should be a list of 2, .* but got a int"),
        ({"a", "b"}, "ids should be a list of 2, .* but got a set"),
        (np.zeros((2, 1), dtype=int), r"ids should be a list of 2, .* but got the shape \(2, 1\)"),
        (["a", None], "ids should be strings or integers, but got a NoneType: None"),
        ([1, 2.0], "ids should be strings or integers, but got a float: 2.0"),
        ([1, True], "ids should be strings or integers, but got a bool: True"),
        (torch.tensor([0.5, 1.0]), "ids should be strings or integers, but got a float: 0.5"),
        ([b"a", b"b"], "ids should be strings or integers, but got a bytes: b'a'"),
    ],
)
def test_ids_that_cannot_be_used_are_refused(ids, message):
    with pytest.raises(ValueError, match=message):
        as_source_ids(ids, 2)


def test_corrections_by_id_are_those_of_the_samples_that_have_it():
    held = {4: "a", 7: "b", 9: "a"}
    assert as_corrections({"a": "owl", "gone": "cat"}, ["cat", "owl"], 10, False, held) == {4: 1, 9: 1}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("a", "cat")], r"a dict of id: label, such as \{'photo-17.png': 'dog'\}, but got a list"),
        ({1.5: "cat"}, "ids should be strings or integers, but got a float: 1.5"),
        ({"gone": "dog"}, "labels should be among the classes 'cat', 'owl', but got 'dog'; a correction adds no class"),
        ({"gone": None}, "the label of a correction should be an integer or a string, but got None for 'gone'"),
    ],
)
def test_corrections_by_id_that_make_no_sense_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        as_corrections(labels, ["cat", "owl"], 10, False, {})


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), True, "30", np.float64("nan")])
def test_seconds_are_a_number_above_zero(wrong):
    with pytest.raises(ValueError, match="seconds should be a number above 0, or None for as long as it takes, but"):
        as_seconds(wrong)


def test_seconds_of_numpy_become_python_s_own():
    found = [as_seconds(np.float32(2.5)), as_seconds(np.int64(3)), as_seconds(4)]
    assert found == [2.5, 3.0, 4.0]
    assert {type(each) for each in found} == {float}
    assert as_seconds(None) is None


@pytest.mark.parametrize("samples", [[4, 9], (4, 9), {4, 9}, np.array([4, 9]), torch.tensor([4, 9]), range(4, 10, 5)])
def test_arrivals_may_come_in_any_list_or_set(samples):
    found = as_arrivals(samples, 10)
    assert sorted(found) == [4, 9]
    assert {type(arrival) for arrival in found} == {int}


def test_ids_name_the_samples_that_have_them():
    assert as_arrivals(["a", "gone"], 10, {4: "a", 7: "b", 9: "a"}) == [4, 9]


@pytest.mark.parametrize(
    ("samples", "ids", "message"),
    [
        (4, None, "arrivals should be a list or set of whole numbers, as `audit` tells them, but got a int"),
        ([10], None, "arrivals should be from 0 to 9, as seen so far, but got 10"),
        ([1.0], None, "arrivals should be whole numbers, as `audit` tells them, but got 1.0"),
        ("a", {}, "ids should be a list or set of strings or integers, but got a str"),
        ([None], {}, "ids should be strings or integers, but got a NoneType: None"),
        ({"a": 1}, {}, "ids should be a list or set of strings or integers, but got a dict"),
    ],
)
def test_what_names_no_samples_is_refused(samples, ids, message):
    with pytest.raises(ValueError, match=message):
        as_arrivals(samples, 10, ids)
