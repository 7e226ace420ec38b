"""The code of docs/integrations.md runs as it stands, a section at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
# What a section needs beyond the package's own requirements.
LIBRARIES = {
    "river": ["river"], "Hugging Face": ["transformers", "datasets"], "Tracking": ["tensorboard"], "Optuna": ["optuna"],
}  # fmt: skip

LEARNT = {"river": "score.get() > 0.8", "scikit-learn": "model.score(X[600:], y[600:]) > 0.8"}


@pytest.mark.filterwarnings("ignore")  # of the libraries' own
@pytest.mark.parametrize("title", sorted(SECTIONS.keys() - {"Avalanche"}))  # which has a file of its own
def test_the_code_of_a_section_runs(title: str, tmp_path, monkeypatch) -> None:
    for library in LIBRARIES.get(title, []):
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code_of(title), f"docs/integrations.md, {title}", "exec"), names)
    assert eval(LEARNT.get(title, "True"), names)


def code_of(title: str) -> str:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", SECTIONS[title], re.M | re.S))
    assert code
    return code
