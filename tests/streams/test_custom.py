"""Streams made by hand: written, verified, run; and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import puridiver
from puridiver import data
from puridiver.cli import main
from puridiver.streams import StreamManifest, custom_stream, make_stream, verify

from .samples import small_source

SOURCE = small_source(counts=(30,) * 4)
TRUE = SOURCE.train.labels.numpy()
ORDER = np.argsort(TRUE, kind="stable")


def test_order_and_labels_are_what_was_given(tmp_path: Path) -> None:
    given = TRUE[ORDER].copy()
    given[:12] = 3
    made = puridiver.write_manifest(tmp_path / "mine.json", SOURCE, ORDER, given, task_ends=[60, 120], holdout=[])
    found = StreamManifest.load(tmp_path / "mine.json")
    assert found == made
    assert (found.kind, found.noise, found.n_tasks, found.task_ends) == ("custom", "custom", 2, (60, 120))
    assert found.order.tolist() == ORDER.tolist()
    assert found.labels.tolist() == given.tolist()
    assert found.realised_noise == 0.1
    assert found.major_classes == ((0, 1), (2, 3))
    assert verify(found, SOURCE) == []


def test_a_part_of_the_data_in_one_task_with_its_own_labels() -> None:
    made = custom_stream(SOURCE, ORDER[:50], holdout=ORDER[50:60])
    assert (made.noise, made.realised_noise, made.task_ends, len(made.holdout)) == ("none", 0.0, (50,), 10)
    assert verify(made, SOURCE) == []


def test_labels_may_be_class_names() -> None:
    names = [SOURCE.class_names[label] for label in TRUE[ORDER].tolist()]
    assert custom_stream(SOURCE, ORDER, names) == custom_stream(SOURCE, ORDER)


@pytest.mark.parametrize("labels", [TRUE[ORDER], np.array(SOURCE.class_names)[TRUE[ORDER]]])
def test_labels_may_be_a_column_of_a_table(labels: np.ndarray) -> None:
    """Which pandas gives as an array of objects."""
    assert custom_stream(SOURCE, ORDER, labels.astype(object)) == custom_stream(SOURCE, ORDER)


def test_the_classes_of_tasks_may_be_said() -> None:
    assert custom_stream(SOURCE, ORDER, task_ends=(60, 120), major_classes=[[3], []]).major_classes == ((3,), ())


def test_where_nobody_knows_the_truth_the_noise_is_not_known() -> None:
    source = dataclasses.replace(SOURCE, train=dataclasses.replace(SOURCE.train, true=torch.full((120,), -1)))
    assert custom_stream(source, ORDER, TRUE[ORDER][::-1]).realised_noise is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"labels": TRUE[ORDER][::-1], "realised_noise": 1.0}, "120 labels are not the data's own"),
        ({"labels": TRUE[ORDER][::-1]}, "the realised noise should be 0, but is 1"),
        ({"source_fingerprint": "0" * 64}, "fingerprint"),
    ],
)
def test_what_can_be_checked_is_checked(changes: dict[str, Any], problem: str) -> None:
    manifest = dataclasses.replace(custom_stream(SOURCE, ORDER), **changes)
    assert any(problem in line for line in verify(manifest, SOURCE))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": []}, "order should name at least one train image"),
        ({"order": [0, 120]}, "order should hold rows from 0 to 119, the train images of 'small', but got 0 to 120"),
        ({"order": [0.5]}, "order should be rows of train images, integers"),
        ({"order": [4, 4]}, "each sample once, but sample 4 twice"),
        ({"order": [1, 2], "holdout": [2]}, "each sample once"),
        ({"order": [1, 2], "labels": [0]}, "labels should be as many as order, 2"),
        ({"order": [1, 2], "labels": [0, 4]}, "labels should lie in 0 to 3"),
        ({"order": [1, 2], "labels": ["class-0", "cat"]}, "should be among the classes class-0, .* but got 'cat'"),
        ({"order": [1, 2], "labels": np.array(["class-0", None], object)}, "labels should be integers"),
        ({"order": [1, 2], "labels": np.array(["class-0", 1], object)}, "labels should be integers"),
        ({"order": [1, 2], "task_ends": [1.9, 2]}, r"task_ends should be a list of whole numbers, but got \[1.9, 2\]"),
        ({"order": [1, 2], "task_ends": [None, 2]}, "task_ends should be a list of whole numbers"),
        ({"order": [1, 2], "major_classes": [["class-0"]]}, "major_classes, for each task, should be a list of whole"),
        ({"order": [1, 2], "major_classes": [1, 2]}, "major_classes, for each task, should be a list of whole"),
        ({"order": [1, 2], "task_ends": [1]}, "task_ends should rise from task to task to 2"),
        ({"order": [1, 2], "task_ends": [1, 1, 2]}, r"but got \[1, 1, 2\]"),
    ],
)
def test_what_is_no_stream_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        custom_stream(SOURCE, **arguments)


def test_the_file_must_have_the_name_of_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"called \*.json"):
        puridiver.write_manifest(tmp_path / "mine", SOURCE, ORDER)


def test_custom_noise_cannot_be_planted() -> None:
    with pytest.raises(ValueError, match=r"cannot be planted.*--stream FILE.json"):
        make_stream(SOURCE, noise="custom")


def test_from_the_command_line_it_verifies_shows_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = data.load("digits")
    labels = source.train.labels.numpy()
    order = np.argsort(labels, kind="stable")[::4]
    given = labels[order].copy()
    given[::10] = 3
    file = str(tmp_path / "mine.json")
    puridiver.write_manifest(file, source, order, given, task_ends=[150, len(order)])
    assert main(["stream", "verify", file]) == 0
    assert capsys.readouterr().out == f"{file}: good\n"
    assert main(["stream", "show", file]) == 0
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown.startswith("digits, custom, 350 samples in 2 tasks, noise custom (")
    assert "seed" not in shown
    assert main(["run", "--stream", file, "--epochs", "1", "--memory", "20", "--no-diversity", "--quiet"]) == 0
    assert "custom" in capsys.readouterr().out
