"""Names of published streams: what a user asks for, and what a record means."""

from __future__ import annotations

import pytest

from puridiver.runs.config import RunConfig
from puridiver.streams.names import (
    Published,
    as_recorded,
    has_order,
    is_published,
    kind_in_record,
    parse_published,
    without_seed,
)


def test_who_asks_for_a_stream_gets_it_shuffled_unless_they_say() -> None:
    for spec in ("official:sym40:1", "sym40:1", "official:sym40:1:shuffled"):
        assert parse_published(spec) == Published("sym40", 1, "shuffled")
    assert parse_published("official:asym20:3:listed") == Published("asym20", 3, "listed")
    assert str(parse_published("official:sym-40:1")) == "official:sym40:1:shuffled"


@pytest.mark.parametrize("spec", ["official:", "official:sym40", "official:sym40:x", "sym40:1:", "sym40:1:sorted"])
def test_other_names_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match='should be named like "official:sym40:1"'):
        parse_published(spec)


def test_a_config_names_the_stream_in_full() -> None:
    assert RunConfig(stream="official:sym40:1").stream == "official:sym40:1:shuffled"
    assert RunConfig(stream="official:sym40:1:listed").stream == "official:sym40:1:listed"
    assert RunConfig(stream="blurry-10").stream == "blurry-10"


def test_a_record_without_an_order_is_from_before_there_was_a_choice() -> None:
    assert as_recorded("official:sym40:1") == "official:sym40:1:listed"
    assert as_recorded("official:sym40:1:shuffled") == "official:sym40:1:shuffled"
    names = ("official:sym40:1", "official:sym40:2:listed", "official:sym40:1:shuffled", "mine.json")
    assert [kind_in_record(name) for name in names] == ["official:listed", "official:listed", "official", "mine.json"]
    assert [without_seed(name) for name in names] == [
        "official:sym40:listed", "official:sym40:listed", "official:sym40:shuffled", "mine.json",
    ]  # fmt: skip
    assert [is_published(name) for name in names] == [True, True, True, False]
    assert [has_order(name, "listed") for name in names] == [True, True, False, True]
    assert [has_order(name, "shuffled") for name in names] == [False, False, True, True]
