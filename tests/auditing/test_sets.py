"""What of a data source is audited, and what labels.csv takes over from it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from puridiver.auditing.report import AuditReport
from puridiver.auditing.sets import choose_set, data_table
from puridiver.auditing.tables import labels_table
from puridiver.data.base import DataSource, ImageSet
from tests.auditing.samples import CLASSES, planted

IMAGES, GIVEN, TRUE = planted()


def part(rows: slice, prefix: str) -> ImageSet:
    given, true = torch.from_numpy(GIVEN[rows]), torch.from_numpy(TRUE[rows]).clone()
    true[5:] = -1
    names = [f"{prefix}{row}.png" for row in range(len(given))]
    return ImageSet(torch.from_numpy(IMAGES[rows]), given, true, torch.arange(len(given)).double(), names)


SOURCE = DataSource("mine", tuple(CLASSES), part(slice(150), "a"), part(slice(10), "t"))


def test_a_part_is_chosen_with_its_names_and_known_truth() -> None:
    labelled, rows, true = choose_set(SOURCE, "train", 20, None, seed=3)
    assert len(rows) == 20
    assert (np.diff(rows) > 0).all()
    assert labelled.original.tolist() == GIVEN[rows].tolist()
    assert labelled.names == [f"a{row}.png" for row in rows]
    assert true is not None
    assert ((true == TRUE[rows]) | (true == -1)).all()
    assert choose_set(SOURCE, "test", None, None, seed=0)[0].names == SOURCE.test.names


def test_planted_noise_has_its_rate_and_must_leave_something_to_find() -> None:
    labelled, _, true = choose_set(SOURCE, "train", None, "sym-20", seed=0)
    assert (labelled.original != true).sum() == 30
    with pytest.raises(ValueError, match="puts 0 of 150 wrong"):
        choose_set(SOURCE, "train", None, "sym-0", seed=0)


def test_labels_csv_says_what_was_changed_and_takes_over_what_the_data_say(report: AuditReport) -> None:
    given = report.given.copy()
    given[0] = (given[0] + 1) % 3
    changed = dataclasses.replace(
        report, given=given, checked=np.arange(150) == 0, names=list(SOURCE.train.names or ())
    )
    table = labels_table(changed, data_table(SOURCE, "train", np.arange(150), "../images"))
    first, last = table.iloc[0], table.iloc[-1]
    assert len(table) == 160
    assert (first.label, first.original_label, first.checked) == (CLASSES[given[0]], CLASSES[GIVEN[0]], True)
    assert (first.path, first.timestamp, first.split) == ("../images/a0.png", 0, "train")
    assert (first.true_label, table.true_label[9]) == (CLASSES[TRUE[0]], "")
    assert (last["name"], last.label, last.timestamp, last.split) == ("t9.png", CLASSES[GIVEN[9]], 9, "test")
    assert last.row == last.checked == ""
    assert "split" not in data_table(SOURCE, "train", np.arange(9), "x")  # of some rows: no data set of its own
