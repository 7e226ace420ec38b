"""`puridiver data`: which data sets there are, fetching and verifying them."""

from __future__ import annotations

import numpy as np

from puridiver.cli import main


def test_the_list_tells_what_is_here(tmp_path, capsys):
    assert main(["data", "list", "--root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert str(tmp_path) in shown
    states = {line.split()[1]: line for line in shown.splitlines() if line.startswith("│")}
    assert "here" in states["digits"]
    assert "to fetch (170 MB)" in states["cifar10"]
    assert "from its home page" in states["webvision"]


def test_data_are_verified(tmp_path, capsys):
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    images, labels = np.random.default_rng(0).integers(0, 255, (6, 8, 8), np.uint8), np.arange(6) % 2
    np.savez(good, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    bad.write_bytes(b"nothing")
    for name, code in ((str(good), 0), (str(bad), 1), ("cifar10", 1)):
        assert main(["data", "verify", name, "--root", str(tmp_path)]) == code
        shown = capsys.readouterr().out
        assert shown.startswith(f"{name}: ")
        assert (shown == f"{name}: good\n") == (code == 0)
