"""Pages are short, their links lead somewhere, and what they say of options is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from puridiver.options import declared
from puridiver.runs.config import SETTINGS
from tests.cli.conftest import parse_command

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/**/*.md")]
COMMAND = re.compile(r"(?:^|`)(?:\$ )?(puridiver [a-z][^`\n|&]*)", re.M)  # in a block or between `, up to | or &
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FIDELITY = (ROOT / "docs" / "fidelity.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_short_and_its_links_and_commands_exist(page: Path) -> None:
    text = page.read_text()
    targets = [target for target in LINK.findall(text) if "://" not in target]
    assert not [target for target in targets if not (page.parent / target).exists()]
    for line in COMMAND.findall(text):
        parse_command(line)
    if page.name == "NOTE.md":
        assert len(text.splitlines()) <= 40
    elif page.name == "RESULTS.md":
        assert len(text.split()) <= 1_500  # its tables count
    else:
        prose = " ".join(line for line in text.splitlines() if not line.startswith("|"))  # tables do not count
        assert len(prose.split()) <= (1_000 if page.name == "README.md" and page.parent == ROOT else 1_500)


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_code_of_a_page_runs_as_it_stands(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("puridiver.auditing.passes.EPOCHS", (1,))  # what its figures are is for other tests
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    exec(code, {})


def test_security_says_what_is_trusted_and_pillow_is_a_mended_one() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert all(words in text for words in ("--plugin", "$PURIDIVER_PLUGINS", "saved learners", "Report a problem"))
    assert '"pillow>=10.3,' in (ROOT / "pyproject.toml").read_text()


def test_fidelity_names_options_that_exist() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\|([^|]*)\|$", FIDELITY, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, 30))
    for _, cell in rows:
        for name in re.findall(r"`([a-z_]+)`", cell):
            assert name in declared() or name in ("gbs", "crsv", "official", "listed", "best_epoch_accuracy"), name


def test_no_help_begins_with_a_row_of_fidelity() -> None:
    assert not [name for name, option in declared().items() if not option.help[0].isalpha()]
    assert not [name for name, setting in SETTINGS.items() if not setting.help[0].isalpha()]


def test_every_row_that_an_option_names_is_in_fidelity() -> None:
    for name, option in declared().items():
        for row in re.findall(r"\[row (\d+)\]", option.help):
            assert re.search(rf"^\| {row} \|.*`{name}`", FIDELITY, re.M), (name, row)
