"""The OpenAPI description is true: requests made from it, good and bad, get answers that it describes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from puridiver.service.engine import Engine
from puridiver.service.intake import Policy
from tests.service.conftest import Served, batches, tiny

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    service = Served(Engine(tmp_path_factory.mktemp("service"), tiny, Policy(every=0, epochs=1), "cpu"))
    for images, labels in batches(3):
        service.engine.observe(images, labels, None, None)
    yield schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    assert not service.engine.failure
    service.stop()


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_answers_are_as_described(description: Any, mode: str) -> None:
    for found in description.get_all_operations():
        operation = found.ok()

        @given(operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode)))
        @settings(max_examples=6, suppress_health_check=list(HealthCheck))
        def check(case: Any) -> None:
            # A string that the description allows is rarely an image, an id or a class that there is.
            case.call_and_validate(excluded_checks=[positive_data_acceptance])

        with contextlib.suppress(Unsatisfiable):  # what takes nothing can get nothing wrong
            check()
