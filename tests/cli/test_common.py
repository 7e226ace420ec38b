"""What the sub-commands share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from puridiver.cli.common import check_outside
from puridiver.errors import DataError


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "pictures"


@pytest.mark.parametrize("out", ["pictures", "pictures/audit", "pictures/cat/a/b", "elsewhere/../pictures/audit"])
def test_results_do_not_go_into_the_folder_of_the_data(out, pictures):
    for data in (pictures, Path("pictures"), Path("pictures/../pictures")):
        with pytest.raises(DataError, match="lies in the folder of the data"):
            check_outside(data, Path(out))


def test_links_do_not_lead_into_the_folder_of_the_data(pictures):
    os.symlink(pictures, "link")
    Path("far").mkdir()
    os.symlink(Path("far").resolve(), pictures / "far")
    for data, out in (("link", "pictures/audit"), ("pictures", "link/audit"), ("pictures", "pictures/far")):
        with pytest.raises(DataError, match="name a folder outside of it"):
            check_outside(Path(data), Path(out))


def test_it_is_said_where_results_may_go(pictures):
    with pytest.raises(DataError, match=f"such as {pictures.resolve()}-audit "):
        check_outside(Path("pictures"), Path("pictures/audit"))
    with pytest.raises(DataError, match=f"such as {pictures.resolve()}-out "):
        check_outside(Path("pictures"), Path("pictures"))


def test_results_may_go_beside_the_data(pictures):
    check_outside(pictures, Path("pictures-audit"))
    check_outside(pictures, Path("."))
    (pictures / "labels.csv").write_text("path,label\n")
    check_outside(pictures / "labels.csv", pictures / "audit")  # what a table does not name is no part of it
