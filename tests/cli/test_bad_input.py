"""What is wrong with a command line or with files is told in one line, before the work; nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from puridiver.cli import main
from tests.wild import speckled, write_classes

# Files and folders are those of `world`; RUN is a finished run on digits, LEARNER one on pictures.
COMMANDS = """
rnu: Did you mean 'run'
run --memroy 10: --memory
run --epochs many: but got 'many'
run --memory 0: should be at least 1, but got 0
run --bad-files skp: should be one of refuse, skip, but got 'skp'; did you mean skip?
run --data: requires an argument (`puridiver run --help`
run extra: unexpected extra argument
run --out=: an argument is empty: is a variable of the shell not set?
run --resume: --resume needs --out FOLDER
run --resume --out new: there is no run in
run --out RUN: holds a finished run
run --epochs 5 --set epochs=3: --epochs 5 and --set epochs=3 differ
run --sampler rvs: rsv
run --data cifar10 --data-root new: puridiver data fetch cifar10
run --ledger RUN/memory.safetensors: ledger
run --data pictures --out pictures/run: lies in the folder of the data
run --data pictures --out link/run: lies in the folder of the data
stream make --out x: should be called *.json
stream make --out old.json: is already there
stream make --out new.json --noise pink-3: noise should be
stream make --out new.json --stream official:sym40:1 --tasks 3: leave tasks out
stream make --out new.json --data twice.csv: label
stream verify nowhere.json: nowhere.json
predict LEARNER --probabilities: Missing argument 'IMAGES
predict nowhere small.npz: nowhere
predict LEARNER nowhere.png: nowhere.png does not exist
predict LEARNER empty: holds no image
predict LEARNER text.npz: text.npz is not a
predict LEARNER keys.npz: images (N, H, W, C) or vectors called images or test_images or train_images
predict LEARNER small.npz --out text.npz/p.csv: cannot be written
predict LEARNER small.npz --out small.npz: is already there
predict LEARNER small.npz --out empty: is already there
learn LEARNER pictures --out new: does not know the class grey: add --new-classes
learn LEARNER pictures --out foreign --new-classes: suspects.csv
learn LEARNER pictures --out RUN: is the folder of a run
audit: Missing argument 'DATA
audit digits --force: need --out FOLDER
audit digits --plant pink-3: noise should be
audit digits --out RUN: choose another folder
audit digits --out foreign: suspects.csv
audit pictures --out pictures/a: lies in the folder of the data
audit broken --image-size 8: dark/bad.jpg
grid: name a preset or a .toml file
grid tabel1: table1
grid table1 --data digits --methods RSW: 'RSV'
grid typo.toml: but got 'memroy'; did you mean memory?
grid table1 --data digits --seeds 1,x: but got 'x'
grid table1 --engine steam: 'steam' is not one of 'auto', 'lanes', 'processes', 'ray'
grid table1 --data digits --methods RSV --quiet --out RUN: choose another folder
table nowhere.jsonl: nowhere.jsonl
table RUN --metric beauty: beauty
table RUN --data digits: need a preset's name or a grid file
table bad.jsonl: bad.jsonl
table RUN --format pdf: 'pdf' is not one of 'text', 'markdown', 'csv', 'latex'
report empty: holds no finished run
report RUN --out empty: folder
figure accuracy empty: holds no finished run
figure acuracy RUN: did you mean accuracy?
figure accuracy: name the folders of the runs
figure accuracy RUN --out x.txt: .svg
figure figure-mixtures: runs/figure-mixtures
data fetch webvision --root new: get it from
data fetch cifar11 --root new: cifar10
methods --check: --check needs a plugin
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with good and bad files of a user."""
    monkeypatch.setenv("PURIDIVER_DATA", str(tmp_path / "cache"))
    place = tmp_path / "world"
    for folder in ("empty", "foreign", "broken/dark", "pictures/grey"):
        (place / folder).mkdir(parents=True)
    monkeypatch.chdir(place)
    write_classes(place / "pictures", 2)
    speckled((120, 120, 120), 50).save("pictures/grey/0.png")
    Path("link").symlink_to("pictures")
    np.savez("keys.npz", x=np.zeros(3))
    np.savez("small.npz", images=np.zeros((2, 4, 4, 3), np.uint8))
    for name in ("old.csv", "old.json", "text.npz", "foreign/suspects.csv", "broken/dark/bad.jpg"):
        Path(name).write_text("mine")
    Path("twice.csv").write_text("path,label,label\na.png,cat,dog\n")
    Path("typo.toml").write_text('[grid]\nmethods = ["rsv+plain"]\nmemroy = 12\n')
    Path("bad.jsonl").write_text('{"a": 1\n')
    return place


@pytest.mark.parametrize("line", COMMANDS.strip().splitlines())
@pytest.mark.usefixtures("forgotten_plugins")
def test_it_is_told_and_nothing_is_written(line, world, finished_run, picture_run, capsys):
    command, _, message = line.partition(": ")
    capsys.readouterr()  # of the fixtures
    before = [{path: path.lstat().st_mtime_ns for path in place.rglob("*")} for place in (world, finished_run)]
    words = command.replace("RUN", str(finished_run)).replace("LEARNER", str(picture_run)).split()
    assert main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    after = [{path: path.lstat().st_mtime_ns for path in place.rglob("*")} for place in (world, finished_run)]
    assert after == before
