"""`puridiver audit --out` costs nobody a file."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from PIL import Image

from puridiver.cli import main

QUICK = ["--image-size", "8", "--epochs", "1", "--passes", "1", "--parts", "1", "--network", "small", "--quiet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a user's own beside folders of pictures; two people labelled the first picture."""
    folder = tmp_path_factory.mktemp("made") / "ds"
    rows = ["path,label,annotator,split"]
    for number in range(24):
        name = f"pics/{'light' if number % 2 else 'dark'}/{number}.png"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 200 if number % 2 else 30).save(folder / name)
        rows.append(f"{name},{'light' if number % 2 else 'dark'},kim,train")
    rows.append("pics/dark/0.png,light,lee,train")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def ds(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "ds")
    monkeypatch.chdir(tmp_path / "ds")
    return tmp_path / "ds"


def audit(*words: str) -> int:
    return main(["audit", *words, *QUICK, "--data-root", "../cache"])


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("words", [(), ("--force",), ("--resume",)])
def test_a_table_of_ones_own_is_not_written_over(words, ds, capsys):
    before = listing(ds)
    assert audit("labels.csv", "--out", ".", *words) == 2
    told = capsys.readouterr().err
    assert "has files that an audit would write over (labels.csv), and holds no audit (audit.json)" in told
    assert listing(ds) == before


@pytest.mark.parametrize(
    "name", ["suspects.csv", "summary.json", "audit.html", "corrections.csv", "cleanlab/x", "pass-1/x"]
)
def test_nor_is_anything_else_that_no_audit_wrote(name, ds, capsys):
    (ds / "out" / name).parent.mkdir(parents=True)
    (ds / "out" / name).write_text("mine")
    assert audit("labels.csv", "--out", "out", "--force") == 2
    assert f"would write over ({name.partition('/')[0]})" in capsys.readouterr().err
    assert (ds / "out" / name).read_text() == "mine"


def test_other_files_do_not_matter(ds):
    (ds / "out").mkdir()
    (ds / "out" / "notes.txt").write_text("mine")
    assert audit("labels.csv", "--out", "out") == 0
    assert (ds / "out" / "notes.txt").read_text() == "mine"


def test_an_audit_does_not_write_over_what_it_is_of(ds, capsys):
    """Nor over the corrected labels of another, if these are what is audited."""
    assert audit("labels.csv", "--out", "out") == 0
    before = listing(ds)
    (ds / "link.csv").symlink_to("out/labels.csv")
    for data in ("out/labels.csv", "link.csv"):
        assert audit(data, "--out", "out", "--force") == 2
        assert "belongs to the audit in out, which would write over it" in capsys.readouterr().err
    (ds / "link.csv").unlink()
    assert listing(ds) == before
    assert audit("out/labels.csv", "--out", "second") == 0


def test_an_audit_does_not_go_into_the_folder_of_its_data(ds, capsys):
    assert audit("pics", "--out", "pics/audit") == 2
    assert "--out pics/audit lies in the folder of the data (pics)" in capsys.readouterr().err
    assert not (ds / "pics" / "audit").exists()
    assert audit("pics", "--out", "pics-audit") == 0
    assert audit("--out", "pics-audit", "--resume") == 0
    shutil.move("pics-audit", "pics/audit")  # the data are not named, but known
    assert audit("--out", "pics/audit", "--resume") == 2
    assert "to go on with what pics/audit holds, move it there first" in capsys.readouterr().err


@pytest.mark.parametrize("row", [0, 24])
def test_of_two_labels_of_one_picture_the_right_one_is_corrected(row, ds):
    label = "light" if row == 0 else "dark"
    (ds / "right.csv").write_text(f"row,name,corrected_label\n{row},pics/dark/0.png,{label}\n")
    assert audit("labels.csv", "--out", "out", "--corrections", "right.csv") == 0
    with (ds / "out" / "labels.csv").open(newline="") as file:
        found = [line for line in csv.DictReader(file) if line["checked"] == "True"]
    assert [(line["row"], line["label"]) for line in found] == [(str(row), label)]
