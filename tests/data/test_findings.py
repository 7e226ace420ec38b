"""Class names that are most likely one class, written in two ways."""

from __future__ import annotations

import pytest

from puridiver.data.findings import alike


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("circle", "circel"),
        ("circle", " Circle "),
        ("circle", "cirle"),
        ("circle", "circles"),
        ("T shirt", "tshirt"),
        ("caf\u00e9", "cafe\u0301"),  # as other systems and as macOS write it
    ],
)
def test_slips_are_found(first: str, other: str) -> None:
    assert alike([first, "square", other]) == [(first, other)]


@pytest.mark.parametrize(
    "names",
    [
        ["cat", "car"],
        ["class 10001", "class 10002"],
        ["circle", "square"],
        ["triangle", "rectangle"],
        ["house", "mouse"],
    ],
)
def test_names_that_differ_are_left_alone(names: list[str]) -> None:
    assert alike(names) == []
