"""The names a user may rely on."""

from __future__ import annotations

import ast
import inspect
import re

import puridiver
from puridiver import errors


def test_public_names_are_sorted_exist_and_are_known_to_type_checkers():
    assert dir(puridiver) == puridiver.__all__ == sorted([*puridiver._HOMES, "__version__"])
    assert all(getattr(puridiver, name) for name in puridiver._HOMES)
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(puridiver))) if isinstance(node, ast.ImportFrom)]
    typed = {alias.name: node.module for node in imports for alias in node.names if node.col_offset}
    assert typed == puridiver._HOMES


def test_the_tree_of_errors_is_that_of_its_docstring():
    drawn = re.findall(r"(\w+Error)\b {2,}", errors.__doc__ or "")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert sorted(drawn) == sorted(kind.__name__ for kind in kinds if kind is not errors.PuridiverError)
    assert all(issubclass(kind, errors.PuridiverError) for kind in kinds)
    assert issubclass(errors.ConsolidatingError, ValueError)
    assert issubclass(errors.BusyError, errors.DataError)
