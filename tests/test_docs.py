"""What the documents say exists, exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from puridiver.recipes import OFFICIAL, PAPER
from puridiver.runs.folder import read_ledger

ROOT = Path(__file__).parent.parent
EQUATIONS = (ROOT / "docs" / "EQUATIONS.md").read_text()
FIDELITY = (ROOT / "docs" / "FIDELITY.md").read_text()


def between_markers(page: str, name: str) -> str:
    return page.split(f"<!-- {name}:begin -->\n")[1].split(f"\n<!-- {name}:end -->")[0]


def test_all_equations_are_listed() -> None:
    for number in range(1, 13):
        assert f"| Eq. {number} |" in EQUATIONS


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(puridiver\.[\w.]+)`", EQUATIONS))))
def test_every_function_named_beside_an_equation_exists(name: str) -> None:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    pytest.fail(f"{name} does not exist")


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/.]+)`", EQUATIONS))))
def test_every_test_named_beside_an_equation_exists(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("row", range(1, 16))
def test_fidelity_gives_the_values_that_the_recipes_have(row: int) -> None:
    (line,) = (line for line in FIDELITY.splitlines() if line.startswith(f"| {row} |"))
    named = re.findall(r"`(\w+)`: ([\w.e-]+) / ([\w.e-]+)", line)
    assert named
    for option, paper, official in named:
        for text, recipe in ((paper, PAPER), (official, OFFICIAL)):
            value = getattr(recipe, option)
            assert text == str(value).lower() or float(text) == value


def test_the_tree_names_only_folders_that_are_there() -> None:
    tree = (ROOT / "CONTRIBUTING.md").read_text().split("```\npuridiver/\n")[1].split("```")[0]
    for line in tree.splitlines():
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        assert ((ROOT / "puridiver" / name) if indent else (ROOT / name)).exists(), name


PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES[2:] if f"]({page.relative_to(ROOT).as_posix()})" not in readme] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    dead = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert dead == []


def audit_comparison() -> Any:
    """The script that compares the audit with cleanlab."""
    path = ROOT / "benchmarks" / "audit_vs_cleanlab.py"
    spec = importlib.util.spec_from_file_location("audit_vs_cleanlab", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["audit_vs_cleanlab"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_audit_table_is_what_its_ledger_gives() -> None:
    page = (ROOT / "docs" / "AUDIT.md").read_text()
    assert between_markers(page, "audit") == audit_comparison().table(read_ledger(ROOT / "results" / "audit.jsonl"))


def test_every_audit_result_says_where_it_comes_from() -> None:
    for row in read_ledger(ROOT / "results" / "audit.jsonl"):
        assert row["command"] == "python benchmarks/audit_vs_cleanlab.py"
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"]), "results are made from committed code"
        assert {"seed", "samples", "device", "versions", "cpu_seconds", "true_rate", "estimated_rate"} <= set(row)
