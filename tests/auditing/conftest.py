"""One audit of a small set, which most tests look at."""

from __future__ import annotations

import pytest
import torch

from puridiver.auditing.audit import audit_set
from puridiver.auditing.passes import AuditSettings, LabelledSet
from puridiver.auditing.report import AuditReport
from tests.auditing.samples import CLASSES, QUICK, planted


@pytest.fixture(scope="session")
def labelled() -> LabelledSet:
    images, given, _ = planted()
    return LabelledSet(torch.from_numpy(images), given, CLASSES, [f"-img/{row}.png" for row in range(150)])


@pytest.fixture(scope="session")
def report(labelled: LabelledSet) -> AuditReport:
    return audit_set(labelled, AuditSettings(**QUICK))
