"""Where the true labels of some images alone are known, what is judged by which label is told everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from puridiver import data
from puridiver.cli import main
from puridiver.report.page import headlines
from puridiver.report.reading import read_run

SHADES = {"dark": 30, "grey": 120, "light": 220}


def labelled_pictures(folder: Path, known_every: int) -> Path:
    """Easy images of three classes in a table; every fifth label is wrong, every so-manieth has its truth beside it."""
    lines, random = ["path,label,true_label"], np.random.default_rng(0)
    for number in range(120):
        true = list(SHADES)[number % 3]
        given = list(SHADES)[(number + (number % 5 == 0)) % 3]
        pixels = np.clip(SHADES[true] + random.normal(0, 12, (12, 12, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        lines.append(f"{number}.png,{given},{true if known_every and number % known_every == 0 else ''}")
    table = folder / "mine.csv"
    table.write_text("\n".join(lines) + "\n")
    return table


@pytest.fixture
def run_of(tmp_path, capsys):
    def run(known_every: int, *words: str) -> tuple[dict, str, Path]:
        table, out = labelled_pictures(tmp_path, known_every), tmp_path / "run"
        told = ["--data", str(table), "--test-share", "0.25", "--data-root", str(tmp_path / "cache"), "--out", str(out)]
        fast = ["--memory", "24", "--epochs", "15", "--tasks", "1", "--image-size", "12", "--device", "cpu", "--quiet"]
        assert main(["run", *told, *fast, *words]) == 0
        return json.loads((out / "summary.json").read_text()), " ".join(capsys.readouterr().out.split()), out

    return run


def test_accuracy_and_purity_say_of_how_many_the_truth_is_known(run_of):
    summary, printed, out = run_of(4)
    assert summary["evaluated"] == 30
    assert 0 < summary["verified"] < 30
    assert summary["verified_accuracy"] > summary["last_accuracy"]  # wrong test labels count against the learner
    assert 0 < summary["memory_known"] < summary["memory_size"] == 24
    assert f"({summary['verified']} of 30, of these" in printed.replace("│ │ ", "")
    last, purity, *_ = headlines(read_run(out))
    assert f"by the true label where it is known ({summary['verified']} of 30, of these " in last.meaning
    assert f"of the {summary['memory_known']} labels kept whose truth is known (of 24) are right" in purity.meaning


def test_where_all_truth_is_known_nothing_is_said_of_it(run_of):
    summary, _, out = run_of(1)
    assert not {"evaluated", "verified", "verified_accuracy", "memory_known"} & summary.keys()
    last, purity, *_ = headlines(read_run(out))
    assert last.meaning.endswith("This is the headline.")
    assert "of the 24 labels kept are right" in purity.meaning


def test_validation_images_are_judged_in_the_same_way(run_of):
    summary, _, _ = run_of(4, "--holdout", "30", "--evaluate-on", "validation")
    assert summary["evaluated"] == 30
    assert 0 < summary["verified"] < 30


def test_a_test_part_tells_which_of_its_labels_are_true_for_certain(tmp_path):
    table = labelled_pictures(tmp_path, 4)
    source = data.load(str(table), tmp_path / "cache", data.FileOptions(12, 0.25))
    numbers = [int(Path(name).stem) for name in source.test.names]
    assert source.test.verified.tolist() == [number % 4 == 0 for number in numbers]
    named = [source.class_names[label] for label in source.test.labels.tolist()]
    expected = [list(SHADES)[(number + (number % 5 == 0 and number % 4 != 0)) % 3] for number in numbers]
    assert named == expected  # the true one where it is known
    assert source.test.true is None  # accuracy takes the labels for true, whoever gave them
