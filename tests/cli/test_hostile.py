"""Input that nobody means: a clear error with exit code 2, and nothing lost."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.files import write_atomically
from puridiver.runs.folder import append_to_ledger, check_ledger, read_ledger

SHORT = ["--stream-limit", "16", "--test-limit", "20", "--epochs", "1", "--tasks", "2", "--no-diversity", "--quiet"]


def test_a_page_is_not_written_over_a_runs_own_files(tmp_path, capsys):
    assert main(["run", *SHORT, "--out", str(tmp_path / "run")]) == 0
    before = (tmp_path / "run" / "summary.json").read_text()
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "run" / "summary.json")]) == 2
    assert "would write over a run's own file" in capsys.readouterr().err
    assert (tmp_path / "run" / "summary.json").read_text() == before


@pytest.mark.parametrize("content", ["path,label\na.png,cat\n", "[1]\n", "\xff", "{\n"])
def test_rows_are_not_added_to_a_file_that_is_no_ledger(content, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match="holds something else than a ledger's lines"):
        check_ledger(path)


def test_rows_are_added_to_new_empty_and_real_ledgers(tmp_path):
    for name in ("new", "empty", "real"):
        ledger = tmp_path / f"{name}.jsonl"
        if name == "empty":
            ledger.write_text("\n")
        if name == "real":
            append_to_ledger(ledger, {"words": "one\u2028two"})
        check_ledger(ledger)
    assert read_ledger(tmp_path / "real.jsonl") == [{"words": "one\u2028two"}]


def test_a_ledger_that_is_no_text_is_named(tmp_path):
    (tmp_path / "bin.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"bin\.jsonl is not a ledger"):
        read_ledger(tmp_path / "bin.jsonl")


@pytest.mark.parametrize("words", [["run", "--out", ""], ["run", "--out="], ["predict", "learner", " "]])
def test_an_empty_argument_is_no_argument(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "an argument is empty: is a variable of the shell not set?" in capsys.readouterr().err


def test_a_width_of_nothing_is_not_believed(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "0")
    assert main(["methods"]) == 0
    assert "puridiver" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("twice.csv", "path,label,label\na.png,cat,dog\n", "the column 'label' stands there twice"),
        ("twice.jsonl", '{"path": "a.png", "label": "cat", "label": "dog"}\n', "it has 'label' twice"),
        ("deep.jsonl", "[" * 100_000 + "\n", "it is not JSON"),
    ],
)
def test_tables_that_say_two_things_or_nothing_are_refused(name, content, message, tmp_path, capsys):
    (tmp_path / name).write_text(content, encoding="latin-1")
    command = [
        "stream",
        "make",
        "--from",
        str(tmp_path / name),
        "--test-share",
        "0.2",
        "--out",
        str(tmp_path / "s.json"),
    ]
    assert main(command) == 2
    assert message in capsys.readouterr().err


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text('\ufeff[grid]\nmethods = ["rsv+plain"]\n', encoding="utf-8")
    assert main(["grid", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "g"), "--dry-run"]) == 0
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("\ufeff" + json.dumps({"id": "1"}) + "\n", encoding="utf-8")
    assert len(read_ledger(ledger)) == 1


def damaged_npz(path: Path, kind: str) -> Path:
    np.savez(path, train_images=np.zeros((4, 8, 8), np.uint8), train_labels=np.array([0, 1, 0, 1]))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = parts["train_images.npy"][:128]
    wrong = {
        "no literal": header[:10] + b"{'descr': (((" + header[23:],
        "huge": header.replace(b"(4, 8, 8)", b"(9999999999999,)"[:9].ljust(9)),
    }[kind]
    parts["train_images.npy"] = wrong + parts["train_images.npy"][128:]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("kind", ["no literal", "huge"])
def test_damaged_arrays_are_named(kind, tmp_path, capsys):
    path = damaged_npz(tmp_path / "mine.npz", kind)
    assert main(["stream", "make", "--data", str(path), "--test-share", "0.5", "--out", str(tmp_path / "s.json")]) == 2
    assert "mine.npz cannot be read without unpickling, or is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("largest", [3_000_000_000, 2**64 - 1])
def test_a_class_id_without_measure_is_refused_at_once(largest, tmp_path, capsys):
    labels = np.array([0, 1, 0, largest], dtype=np.uint64)
    np.savez(tmp_path / "mine.npz", train_images=np.zeros((4, 8, 8), np.uint8), train_labels=labels)
    command = ["stream", "make", "--data", str(tmp_path / "mine.npz"), "--test-share", "0.5", "--tasks", "1"]
    assert main([*command, "--out", str(tmp_path / "s.json")]) == 2
    assert f"the largest is {largest}, of 3 that occur" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes of the file system")
def test_a_pipe_is_no_table(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.csv")
    assert main(["stream", "make", "--from", str(tmp_path / "pipe.csv"), "--out", str(tmp_path / "s.json")]) == 2
    assert "is neither a file nor a folder" in capsys.readouterr().err


def test_what_is_written_goes_through_links(tmp_path):
    (tmp_path / "target.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to(tmp_path / "target.txt")
    write_atomically(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "target.txt").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced():
    write_atomically(Path(os.devnull), b"nothing")
    assert not Path(os.devnull).is_file()


def test_changed_data_are_told_when_a_run_is_to_go_on(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    (tmp_path / "run").mkdir()
    rng = np.random.default_rng(0)
    for version in range(2):
        np.savez(
            tmp_path / "mine.npz", train_images=rng.integers(0, 256, (60, 8, 8), dtype=np.uint8),
            train_labels=np.arange(60) % 3, test_images=np.zeros((6, 8, 8), np.uint8), test_labels=np.arange(6) % 3,
        )  # fmt: skip
        data = ["--data", str(tmp_path / "mine.npz"), "--tasks", "1", "--epochs", "1", "--quiet", "--network", "small"]
        if not version:
            assert main(["run", *data, *out]) == 0
            (tmp_path / "run" / "summary.json").unlink()
    assert main(["run", *data, *out, "--resume"]) == 2
    assert "on another stream: the data have changed since, or" in capsys.readouterr().err


def test_a_single_run_is_no_grid(tmp_path, capsys):
    assert main(["run", *SHORT, "--out", str(tmp_path / "run")]) == 0
    assert main(["figure", "figure-tasks", str(tmp_path / "run")]) == 2
    assert "is a single run and no grid" in capsys.readouterr().err
