"""`puridiver data`: which data sets there are, fetching and verifying them."""

from __future__ import annotations

import json

import numpy as np

from puridiver.cli import main


def test_the_list_tells_what_is_here(tmp_path, capsys):
    assert main(["data", "list", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path) in shown
    assert main(["data", "list", "--root", str(tmp_path), "--json"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)["sources"]}
    assert found["digits"]["here"]
    assert not found["cifar10"]["here"]
    assert "to fetch (170 MB)" in shown
    assert all(name in shown for name in found)


def test_an_archive_that_is_damaged_leaves_nothing(tmp_path, capsys):
    (tmp_path / "wrong.tar.gz").write_bytes(b"no archive")
    url = (tmp_path / "wrong.tar.gz").as_uri()
    assert main(["data", "fetch", "cifar10", "--root", str(tmp_path / "root"), "--url", url]) == 2
    assert url in capsys.readouterr().err
    assert not [path for path in (tmp_path / "root").rglob("*") if path.is_file() and path.suffix != ".lock"]


def test_what_needs_no_fetching_and_what_cannot_be_fetched(tmp_path, capsys):
    assert main(["data", "fetch", "digits"]) == 0
    assert "needs no fetching" in capsys.readouterr().out
    assert main(["data", "fetch", "webvision", "--root", str(tmp_path)]) == 2
    assert "home page" in capsys.readouterr().err
    assert main(["data", "fetch", "cifar11"]) == 2
    assert "cifar10" in capsys.readouterr().err


def test_data_are_verified(tmp_path, capsys):
    good = tmp_path / "good.npz"
    images, labels = np.random.default_rng(0).integers(0, 255, (6, 8, 8), np.uint8), np.arange(6) % 2
    np.savez(good, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    assert main(["data", "verify", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: good\n"
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    assert main(["data", "verify", str(tmp_path / "bad.npz"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["good"]
    assert found["problems"]
    assert main(["data", "verify", "cifar10", "--root", str(tmp_path)]) == 1
    assert "1 problem" in capsys.readouterr().out
