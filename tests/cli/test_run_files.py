"""Every loader of image files and every kind of real noise, from the files to the end of `puridiver run`."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from puridiver.cli import main
from puridiver.data import FileOptions, load
from puridiver.errors import DataError
from puridiver.learner.learner import Learner
from puridiver.report import gallery
from puridiver.report.figures import draw
from puridiver.report.reading import read_run
from puridiver.report.table import HEADINGS, summarise
from puridiver.runs.config import RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runs.folder import read_ledger
from puridiver.streams import StreamManifest
from tests.web_samples import write_food101n, write_splits, write_webvision
from tests.wild import write_bad_kinds, write_classes, write_good_kinds, write_oddly_named

TINY = (
    "--memory", "12", "--network", "small", "--device", "cpu", "--epochs", "1", "--image-size", "8", "--quiet",
)  # fmt: skip
NOT_KNOWN = ("memory_purity", "stream_noise", "memory_per_true_class", "clean_precision")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Two parts, with every good and every bad kind of file among the images to train on."""
    folder = tmp_path / "pictures"
    write_classes(folder / "train", 12)
    write_classes(folder / "test", 4, first_seed=500)
    write_good_kinds(folder / "train" / "kinds")
    write_oddly_named(folder / "train" / "kinds")
    write_bad_kinds(folder / "train" / "red")
    return folder


def run(root: Path, *words: object, out: str = "run") -> dict:
    """A run to its end; its summary."""
    command = ["run", "--data-root", str(root), "--out", str(root / out), *TINY, *map(str, words)]
    assert main(command) == 0
    return json.loads((root / out / "summary.json").read_text())


def test_a_folder_of_wild_files_without_true_labels(pictures, tmp_path, capsys):
    summary = run(tmp_path, "--data", pictures, "--bad-files", "skip", "--ledger", tmp_path / "ledger.jsonl")
    assert summary["last_accuracy"] > 0.5
    assert {summary[name] for name in NOT_KNOWN} == {None}
    assert summary["task_purity"] == [None] * 4  # as many tasks as classes
    assert (summary["data"], summary["noise"]) == ("pictures", "none")
    printed = capsys.readouterr().out
    assert "true labels not known" in printed
    assert "by the labels that they came with, be they right or not" in " ".join(printed.replace("│", " ").split())
    assert "given label right" not in printed  # of the sets of which nobody knows it
    assert "not known" in printed.split("memory purity")[1].splitlines()[0]
    rows = read_ledger(tmp_path / "ledger.jsonl")
    assert dict(zip(HEADINGS, summarise(rows)[0], strict=True))["purity %"] == "-"
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for event in events:
        assert event.get("memory_purity") is None
        assert event.get("stream_per_true_class") is None
        assert set(event.get("right", [])) <= {None}
    assert str(tmp_path) not in summary["command"]


def test_bad_files_stop_a_run_with_their_names(pictures, tmp_path, capsys):
    assert main(["run", "--data", str(pictures), "--data-root", str(tmp_path), *TINY]) == 2
    told = capsys.readouterr().err
    assert "7 of 67 files" in told
    assert "red/empty.jpg: the file is empty" in told
    assert "--bad-files skip" in told


def test_a_report_of_a_run_without_true_labels_fakes_nothing(pictures, tmp_path):
    run(tmp_path, "--data", pictures, "--bad-files", "skip", "--tasks", 2)
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "how many labels are wrong is not known" in page
    assert "are named as labelled after the whole stream" in page
    assert "by the labels that they came with, be they right or not. This is the headline." in page
    assert "named rightly" not in page
    assert '100.0 %</div><div class="meaning">of the 12 labels kept are right' not in page
    assert "the true labels of these data are not known" in page
    assert "by true label" not in page
    assert "truth not known" in page
    for name in ("tasks", "stream", "sets", "balance"):
        assert draw(name, [tmp_path / "run"], tmp_path / f"{name}.png").exists()
    with pytest.raises(DataError, match="the data have no true labels"):
        draw("memory", [tmp_path / "run"], tmp_path / "memory.png")


def test_a_noise_that_nobody_knows_cannot_be_told(tmp_path, capsys):
    write_classes(tmp_path / "one", 5)
    words = ["--data", str(tmp_path / "one"), "--data-root", str(tmp_path), "--test-share", "0.2", "--tell-noise"]
    assert main(["run", *words, *TINY]) == 2
    assert "the noise of these is not known" in capsys.readouterr().err


def test_of_a_table_with_gaps_the_noise_among_the_known_is_told(tmp_path):
    """Two of the known ten labels of `red` to train on are wrong, and nobody knows of the others."""
    write_classes(tmp_path / "one", 20)
    lines = ["path,label,true_label,split"]
    for path in sorted((tmp_path / "one").glob("*/*")):
        label, number = path.parent.name, int(path.stem)
        true = "" if number >= 10 or label != "red" else "blue" if number < 2 else label
        lines.append(f"{path},{label},{true},{'test' if number >= 18 else 'train'}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words = {"data": str(tmp_path / "t.csv"), "data_root": str(tmp_path), "image_size": 8, "tasks": 2}
    hint = Experiment(RunConfig(**words, tell_noise=True, network="small", memory=12)).learner.hint
    assert (hint.kind, hint.rate) == ("none", 0.2)


def test_noise_is_planted_only_in_labels_that_are_known_or_trusted(tmp_path, capsys):
    write_classes(tmp_path / "one", 5)
    words = ["--data", str(tmp_path / "one"), "--data-root", str(tmp_path), "--test-share", "0.2", "--noise", "sym-40"]
    assert main(["run", *words, *TINY]) == 2
    assert "true labels are not known: the noise should be none, or say --trust-labels" in capsys.readouterr().err


def test_one_task_and_one_class_need_no_stream_to_be_named(tmp_path):
    write_classes(tmp_path / "three", 5)
    words = ("--data", tmp_path / "three", "--test-share", 0.2)
    assert len(run(tmp_path, *words, "--tasks", 1)["task_purity"]) == 1
    (tmp_path / "lone").mkdir()
    os.rename(tmp_path / "three" / "red", tmp_path / "lone" / "red")
    assert run(tmp_path, "--data", tmp_path / "lone", "--test-share", 0.2, out="lone-run")["last_accuracy"] == 1


def test_a_share_of_one_folder_is_kept_for_testing(tmp_path):
    write_classes(tmp_path / "one", 15)
    summary = run(tmp_path, "--data", tmp_path / "one", "--test-share", 0.2, "--tasks", 3)
    manifest = StreamManifest.load(tmp_path / "run" / "manifest.json")
    assert len(manifest) == 36
    assert summary["last_accuracy"] > 0.5
    planted = ("--trust-labels", "--noise", "sym-40")
    known = run(tmp_path, "--data", tmp_path / "one", "--test-share", 0.2, "--tasks", 3, *planted, out="known")
    assert known["stream_noise"] == pytest.approx(0.4, abs=0.02)
    assert known["memory_purity"] is not None


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_tables_with_true_labels_in_the_order_of_time(kind, tmp_path):
    write_classes(tmp_path / "p" / "train", 10)
    names = sorted(os.listdir(tmp_path / "p" / "train" / "red"))
    rows = [
        {"path": f"p/train/{c}/{name}", "label": "red" if i == 9 else c, "true_label": c, "timestamp": 10 * i + k,
         "split": "test" if i % 5 == 4 else "train"}
        for k, c in enumerate(("red", "green", "blue"))
        for i, name in enumerate(names)
    ]  # fmt: skip
    file = tmp_path / f"list.{kind}"
    if kind == "csv":
        with file.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif kind == "jsonl":
        file.write_text("\n".join(map(json.dumps, rows)))
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), file)
    summary = run(tmp_path, "--data", file, "--stream", "time", "--tasks", 4)
    assert summary["stream_noise"] == 0  # the wrong ones are all in the test part, which is judged by true labels
    assert summary["memory_purity"] == 1
    manifest = StreamManifest.load(tmp_path / "run" / "manifest.json")
    assert np.diff([0, *manifest.task_ends]).tolist() == [6, 6, 6, 6]
    source = load(str(file), tmp_path)
    assert (np.diff(source.train.times.numpy()[manifest.order]) > 0).all()


def test_stream_make_from_tells_what_it_found_and_the_run_takes_it(pictures, tmp_path, capsys):
    manifest = tmp_path / "stream.json"
    words = ["--data-root", str(tmp_path), "--image-size", "8", "--bad-files", "skip"]
    made = ["stream", "make", "--from", str(pictures), "--tasks", "2", "--out", str(manifest), *words]
    assert main(made) == 0
    told = capsys.readouterr().out
    assert "unreadable files: 7" in told
    assert "train/red/text.jpg: not an image that can be read" in told
    assert "wrong labels not known" in told
    assert main([*made, "--force", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["found"]
    assert found["per_class"] == {"blue": 12, "green": 12, "kinds": 12, "red": 12}
    assert main(["stream", "verify", str(manifest), "--data", str(pictures), *words]) == 0
    summary = run(tmp_path, "--data", pictures, "--bad-files", "skip", "--stream", manifest)
    assert summary["stream_hash"] == StreamManifest.load(manifest).content_hash


def test_a_stream_says_which_options_of_its_files_are_others_now(tmp_path, capsys):
    write_classes(tmp_path / "three", 10)
    mine, root = tmp_path / "mine.json", ("--data-root", str(tmp_path))
    made = ["--test-share", "0.2", "--image-size", "8"]
    assert main(["stream", "make", "--from", str(tmp_path / "three"), "--out", str(mine), *root, *made]) == 0
    replay = ["run", "--stream", str(mine), "--data", str(tmp_path / "three"), *root, *TINY]
    assert main([*replay, "--test-share", "0.3"]) == 2
    assert (
        "'three' had 24 train images, not 21, when the stream was made: say the same --test-share and"
        in capsys.readouterr().err
    )
    assert main([*replay, "--test-share", "0.2", "--image-size", "9"]) == 2
    assert (
        "'three' was read otherwise when the stream was made: say the same --image-size, --test-share"
        in capsys.readouterr().err
    )
    verify = ["stream", "verify", str(mine), "--data", str(tmp_path / "three"), *root]
    assert main([*verify, "--test-share", "0.3", "--image-size", "8"]) == 1
    assert "say the same --test-share and" in capsys.readouterr().out
    assert main([*replay, "--test-share", "0.2"]) == 0


def test_a_refused_folder_is_still_told_of(pictures, tmp_path, capsys):
    words = ["stream", "make", "--from", str(pictures), "--out", str(tmp_path / "s.json")]
    assert main([*words, "--data-root", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "unreadable files: 7" in captured.out
    assert "--bad-files skip" in captured.err
    assert not (tmp_path / "s.json").exists()


def test_webvision_and_food101n_and_a_published_stream(tmp_path):
    write_webvision(tmp_path, per_class=2)
    write_food101n(tmp_path)
    for name, tasks in (("webvision", 10), ("food101n", 5)):
        summary = run(tmp_path, "--data", name, "--anytime-points", 1, out=name)
        assert len(summary["task_accuracy"]) == tasks
        assert summary["memory_purity"] is None
    (tmp_path / "splits").mkdir()
    write_splits(tmp_path / "splits", load("webvision", tmp_path, FileOptions(image_size=8)))
    words = ("--stream", "official:none:1", "--splits", tmp_path / "splits", "--anytime-points", 1)
    assert run(tmp_path, "--data", "webvision", *words, out="official")["stream_noise"] is None


def test_human_and_instance_dependent_noise(tmp_path):
    digits = load("digits")
    true = digits.train.labels.numpy()
    worst = np.where(np.arange(len(true)) % 4 == 0, (true + 3) % 10, true)
    torch.save({"clean_label": true, "worse_label": worst}, tmp_path / "human.pt")
    short = ("--stream-limit", 32, "--test-limit", 50, "--tasks", 2, "--no-diversity", "--tell-noise")
    words = [word for word in TINY if word not in ("--image-size", "8")]
    for noise, extra in (("human:worst", ("--noise-file", tmp_path / "human.pt")), ("instance-30", ())):
        out = tmp_path / noise.replace(":", "-")
        command = ["run", "--data", "digits", "--noise", noise, "--out", out, *short, *extra, *words]
        assert main([str(word) for word in command]) == 0
        summary = json.loads((out / "summary.json").read_text())
        assert summary["stream_noise"] == pytest.approx(0.25 if extra else 0.3, abs=0.04)
        assert summary["noise"] == noise.partition("-")[0]


def test_a_run_over_files_goes_on_where_it_was_cut_off(tmp_path):
    """Where no truth is known, the checkpoint holds None; the resumed run must come to the same figures."""
    write_classes(tmp_path / "one", 15)
    config = RunConfig(
        data=str(tmp_path / "one"), data_root=str(tmp_path), test_share=0.2, image_size=8, tasks=2, memory=12,
        network="small", epochs=2, device="cpu",
    )  # fmt: skip
    whole = Experiment(config).run(tmp_path / "whole")
    cut = Experiment(config)
    cut.listeners.append(lambda event: cut.stop() if event["event"] == "task" else None)
    with pytest.raises(KeyboardInterrupt):
        cut.run(tmp_path / "cut")
    again = Experiment(config).run(tmp_path / "cut", resume=True)
    assert again["task_accuracy"] == whole["task_accuracy"]
    assert again["memory_per_class"] == whole["memory_per_class"]
    assert again["task_purity"] == [None, None]


def test_what_the_memory_holds_can_be_traced_to_its_files(tmp_path):
    folder = tmp_path / "pictures"
    write_classes(folder, 12)
    run(tmp_path, "--data", folder, "--test-share", "0.2", "--trace", tmp_path / "trace.csv")
    learner = Learner.load(tmp_path / "run", device="cpu")
    rows = learner.audit()
    assert rows
    assert all((folder / row.id).is_file() and row.id.split("/")[0] == row.given_label for row in rows)
    with (tmp_path / "trace.csv").open(newline="") as file:
        traced = {int(row["arrival"]): row["name"] for row in csv.DictReader(file)}
    assert traced.items() >= learner.held_ids().items()
    made = gallery.build(read_run(tmp_path / "run"), "g")
    assert {row[0]: row[7] for row in json.loads(made.data)["rows"]} == {row.arrival: row.id for row in rows}


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl", "manifest.json", "memory.safetensors"])
@pytest.mark.parametrize("words", [(), ("--force",), ("--resume",)])
def test_files_of_somebody_elses_are_not_replaced(name, words, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("mine")
    assert main(["run", "--out", str(tmp_path / "mine"), *TINY, *words]) == 2
    assert f"holds no run ({name}): choose another folder" in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "mine" / name).read_text() == "mine"


def test_neither_are_folders(tmp_path):
    for name in ("plugins", "learner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text("mine")
    with pytest.raises(DataError, match=r"holds no run \(learner, plugins\)"):
        Experiment(RunConfig(epochs=1, stream_limit=16)).run(tmp_path)
    assert (tmp_path / "plugins" / "mine.py").exists()


@pytest.mark.parametrize("words", [("run", "--trace"), ("predict", ".", ".", "--out")])
def test_tables_that_cannot_be_written_are_told_before_the_work(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    learner = Learner(["red", "blue"], (8, 8, 3), 4, device="cpu")
    learner.observe(np.zeros((2, 8, 8, 3), np.uint8), ["red", "blue"])
    learner.save(tmp_path)
    write_classes(tmp_path / "pictures", 1)
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).samefile(tmp_path / "pictures"))
    assert main([*words, "pictures/new.csv"]) == 2
    assert "pictures/new.csv cannot be written: no permission" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["run", "learn", "grid"])
def test_results_do_not_go_into_the_folder_of_the_data(command, tmp_path, capsys):
    folder = write_classes(tmp_path / "pictures", 12)
    run(tmp_path, "--data", folder, "--test-share", "0.2")
    (tmp_path / "g.toml").write_text('[grid]\nmethods = ["rsv+plain"]\ntest_share = 0.2\n')
    words = {
        "run": ["run", "--data", str(folder), "--test-share", "0.2"],
        "learn": ["learn", str(tmp_path / "run"), str(folder)],
        "grid": ["grid", str(tmp_path / "g.toml"), "--data", str(folder)],
    }
    assert main([*words[command], "--out", str(folder / "results")]) == 2
    assert "lies in the folder of the data" in " ".join(capsys.readouterr().err.split())
    assert not (folder / "results").exists()
