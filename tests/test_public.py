"""The names a user may rely on."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import puridiver
from puridiver import errors


def test_public_names_are_sorted_and_exist():
    assert puridiver.__all__ == sorted(puridiver.__all__)
    assert dir(puridiver) == puridiver.__all__
    assert set(puridiver._HOMES) == {*puridiver.__all__} - {"__version__"}
    for name, home in puridiver._HOMES.items():
        assert getattr(puridiver, name).__module__.startswith(home.partition(".")[0])


def test_public_names_are_the_promised_ones():
    errors = {"BusyError", "ConsolidatingError", "DataError", "DivergedError", "ManifestError", "PuridiverError"}
    audits = {"AuditReport", "AuditRow", "AuditSettings", "audit"}
    learners = {"Learner", "NoiseHint", "Options", "image_batch", "recipe", "__version__"}
    methods = {"Head", "LossTrainer", "Network", "Option", "Sampler", "Trainer", "register"}
    runs = {"Experiment", "RunConfig", "RunFrames", "read_run", "run_grid", "write_manifest"}
    assert {*audits, *learners, *methods, *runs, *errors} == set(puridiver.__all__)
    assert puridiver.Learner.__module__ == "puridiver.learner.learner"
    assert puridiver.recipe("paper") == puridiver.Options()


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Teacher'"):
        _ = puridiver.Teacher


def test_the_version_is_a_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", puridiver.__version__)


def test_importing_the_package_does_not_import_torch():
    code = "import sys, puridiver; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_tree_of_errors_is_that_of_its_docstring():
    drawn = re.findall(r"(\w+Error)\b {2,}", errors.__doc__ or "")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert sorted(drawn) == sorted(kind.__name__ for kind in kinds if kind is not errors.PuridiverError)
    assert all(issubclass(kind, errors.PuridiverError) for kind in kinds)
    assert issubclass(errors.ConsolidatingError, ValueError)
    assert issubclass(errors.BusyError, errors.DataError)
