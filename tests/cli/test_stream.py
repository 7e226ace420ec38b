import argparse
import dataclasses
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from puridiver.cli import main, stream_show
from puridiver.cli import stream as command
from puridiver.data.base import DataSource, ImageSet
from puridiver.errors import ManifestError
from puridiver.streams import StreamManifest, make_stream
from tests.wild import write_classes


def small_source() -> DataSource:
    rng = np.random.default_rng(0)
    names = ("airplane", "bird", "cat", "dog", "[odd]", "7")
    parts = []
    for n in (40, 3):
        labels = torch.from_numpy(rng.permutation(np.repeat(np.arange(6), n)))
        parts.append(ImageSet(torch.zeros(len(labels), 2, 2, 1, dtype=torch.uint8), labels))
    return DataSource("small", names, *parts)


@pytest.fixture
def source(monkeypatch):
    made = small_source()
    monkeypatch.setattr("puridiver.data.load", lambda name, root=None, *rest: {"small": made}[name])
    return made


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser(prog="puridiver")
    command.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args([str(argument) for argument in ("stream", *arguments)])
    return args.handler(args)


def make(tmp_path, *arguments: object) -> StreamManifest:
    out = tmp_path / "stream.json"
    assert run("make", "--data", "small", "--out", out, *arguments) == 0
    return StreamManifest.load(out)


def test_make_with_defaults_writes_the_default_stream(source, tmp_path, capsys):
    assert make(tmp_path) == make_stream(source)
    printed = capsys.readouterr().out
    assert "small, blurry-10, 240 samples in 5 tasks, noise sym-40 (40.00% realised), seed 0" in printed


def test_make_passes_every_option_on(source, tmp_path):
    flags = {
        "kind": "blurry",
        "tasks": 3,
        "minor": 20,
        "noise": "asym-30",
        "seed": 4,
        "holdout": 12,
        "cut-by": "true",
    }
    expected = make_stream(source, n_tasks=3, minor_share=0.2, noise="asym-30", seed=4, holdout=12, cut_by="true")
    assert make(tmp_path, *(f"--{name}={value}" for name, value in flags.items())) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"cat": "dog", "dog": "cat"}, {2: 3, 3: 2}),
        ({"0": 1, "1": 0}, {0: 1, 1: 0}),
        ({"cat": "7", "5": "dog"}, {2: 5, 5: 3}),  # "7" is the name of class 5
    ],
)
def test_make_reads_noise_maps_of_names_and_ids(content, expected, source, tmp_path):
    (tmp_path / "map.json").write_text(json.dumps(content))
    manifest = make(tmp_path, "--noise", "asym-20", "--noise-map", tmp_path / "map.json")
    assert manifest.noise_map == expected


def test_make_knows_noise_maps_by_name(source, tmp_path):
    manifest = make(tmp_path, "--noise", "asym-20", "--noise-map", "next")
    assert manifest.noise_map == {c: (c + 1) % 6 for c in range(6)}


@pytest.mark.parametrize("text", ["[1]", '{"cat": "zebra"}', '{"cat": 2.5}', "torn"])
def test_bad_noise_maps_are_refused(text, source, tmp_path):
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(ValueError, match=r"map\.json|a class should be"):
        make(tmp_path, "--noise", "asym-20", "--noise-map", tmp_path / "map.json")
    with pytest.raises(ValueError, match="should be a JSON file or next, pairs, spr-cifar10"):
        make(tmp_path, "--noise", "asym-20", "--noise-map", "nowhere")


def test_make_does_not_overwrite_without_force(source, tmp_path):
    first = make(tmp_path)
    with pytest.raises(FileExistsError, match="--force"):
        make(tmp_path, "--seed", 1)
    assert StreamManifest.load(tmp_path / "stream.json") == first
    assert make(tmp_path, "--seed", 1, "--force").seed == 1


def test_make_imports_official_streams(source, tmp_path):
    stream = make_stream(source, n_tasks=5, seed=1)
    arrays = {"index": stream.order, "label": stream.labels, "order": np.concatenate(stream.major_classes)}
    np.savez(tmp_path / "small.npz", **{f"sym40_seed1_{key}": value for key, value in arrays.items()})
    manifest = make(tmp_path, "--official", "sym40:1:listed", "--splits", tmp_path)
    assert manifest.kind == "official"
    assert manifest.order.tolist() == stream.order.tolist()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--official", "sym40:1"], "--official needs --splits"),
        (["--official", "sym40:1", "--splits", ".", "--tasks", "3"], "already made"),
        (["--kind", "disjoint", "--minor", "10"], "--minor is for blurry tasks"),
        (["--minor", "ten"], "--minor should be a whole percentage"),
        (["--noise", "pink"], "noise should be"),
    ],
)
def test_make_refuses_what_does_not_go_together(flags, message, source, tmp_path):
    with pytest.raises(ValueError, match=message):
        make(tmp_path, *flags)
    assert not (tmp_path / "stream.json").exists()


def test_make_prints_json(source, tmp_path, capsys):
    manifest = make(tmp_path, "--json", "--holdout", 6)
    printed = json.loads(capsys.readouterr().out)
    assert printed["file"] == str(tmp_path / "stream.json")
    assert printed["content_hash"] == manifest.content_hash
    assert (printed["samples"], printed["holdout_samples"]) == (234, 6)


def test_show_prints_classes_by_task_with_major_ones_marked(source, tmp_path, capsys):
    manifest = make(tmp_path, "--tasks", 3)
    assert run("show", tmp_path / "stream.json") == 0
    lines = capsys.readouterr().out.splitlines()
    for label, name in enumerate(source.class_names):
        (line,) = [line for line in lines if line.startswith("│") and line.split("│")[1].strip() == name]
        cells = [cell.strip() for cell in line.split("│")[2:-1]]
        assert [int(cell.rstrip("*")) for cell in cells] == manifest.counts()[label].tolist()
        assert [cell.endswith("*") for cell in cells] == [label in group for group in manifest.major_classes]
    assert any(manifest.content_hash in line for line in lines)


def test_show_prints_json(source, tmp_path, capsys):
    manifest = make(tmp_path)
    capsys.readouterr()
    assert run("show", tmp_path / "stream.json", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["counts"] == manifest.counts().tolist()
    assert printed["realised_noise"] == 0.4
    assert "order" not in printed


def test_show_tells_how_the_last_tenth_of_a_task_is_mixed(source, tmp_path, capsys):
    manifest = make(tmp_path, "--tasks", 3, "--minor", 20)
    starts = (0, *manifest.task_ends[:-1])
    major_first = np.concatenate(
        [
            start + np.argsort(~np.isin(manifest.labels[start:end], major), kind="stable")
            for start, end, major in zip(starts, manifest.task_ends, manifest.major_classes, strict=True)
        ]
    )
    listed = dataclasses.replace(manifest, order=manifest.order[major_first], labels=manifest.labels[major_first])
    listed.save(tmp_path / "listed.json")
    capsys.readouterr()
    assert run("show", tmp_path / "listed.json", tmp_path / "stream.json", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [printed["file"] for printed in found] == [str(tmp_path / name) for name in ("listed.json", "stream.json")]
    unmixed, mixed = (printed["late_minor"] for printed in found)
    assert unmixed == [1.0, 1.0, 1.0]
    assert all(share < 0.6 for share in mixed)
    assert run("show", tmp_path / "listed.json") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "of the last tenth" in line]
    assert line.count("100.0%") == 3


def test_show_draws_which_labels_come_when(source, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    make(tmp_path, "--tasks", 3)
    shutil.copy(tmp_path / "stream.json", tmp_path / "other.json")
    assert run("show", tmp_path / "stream.json", tmp_path / "other.json", "--picture", tmp_path / "mix.svg") == 0
    assert str(tmp_path / "mix.svg") in capsys.readouterr().err
    drawn = (tmp_path / "mix.svg").read_text()
    assert all(f">{text}<" in drawn for text in ("stream", "other", "samples seen", *source.class_names))
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        run("show", tmp_path / "nowhere.json", "--picture", tmp_path / "mix.txt")  # before anything is read


def test_streams_in_a_picture_are_told_apart_by_as_much_of_their_path_as_it_takes():
    paths = [Path(name) for name in ("/runs/a/stream.json", "/runs/b/stream.json")]
    assert stream_show._titles(paths) == ["a/stream", "b/stream"]
    assert stream_show._titles([paths[0], Path("other.json")]) == ["stream", "other"]
    assert stream_show._titles([paths[0], paths[0]]) == ["stream", "stream"]
    assert stream_show._titles([Path("a.json"), Path("b/a.json")]) == ["a", "b/a"]


def test_a_task_without_samples_has_no_minor_share(source, tmp_path):
    manifest = make(tmp_path, "--tasks", 3)
    empty = dataclasses.replace(manifest, task_ends=(0, *manifest.task_ends[1:]))
    for found in (stream_show.late_minor(empty), stream_show._minor_shares(empty)):
        assert found[0] is None
        assert all(share is not None for share in found[1:])


def test_show_says_what_is_no_manifest(tmp_path):
    (tmp_path / "truth.json").write_text('{"a.png": "cat", "seed": 3}')
    with pytest.raises(ManifestError, match=r"truth\.json: not a stream manifest"):
        run("show", tmp_path / "truth.json")


def test_verify_says_good_with_0_and_problems_with_1(source, tmp_path, capsys):
    make(tmp_path)
    path = tmp_path / "stream.json"
    assert run("verify", path) == 0
    assert "good" in capsys.readouterr().out
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    assert run("verify", path) == 1
    assert "content hash" in capsys.readouterr().out
    assert run("verify", path, "--json") == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["ok"] is False
    assert "content hash" in printed["problems"][0]


def test_verify_finds_other_data(source, tmp_path, capsys):
    manifest = make(tmp_path)
    source.train.labels[0] = (source.train.labels[0] + 1) % 6
    del source.__dict__["fingerprint"]
    assert source.fingerprint != manifest.source_fingerprint
    assert run("verify", tmp_path / "stream.json", "--data", "small") == 1
    assert "fingerprint" in capsys.readouterr().out


def test_a_missing_manifest_is_no_verdict(source, tmp_path):
    with pytest.raises(FileNotFoundError):
        run("verify", tmp_path / "nowhere.json")


@pytest.mark.parametrize("arguments", [(), ("make",), ("show",), ("verify",)])
def test_help_gives_examples(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        run(*arguments, "--help")
    assert caught.value.code == 0
    assert "examples:\n  puridiver stream" in capsys.readouterr().out


def test_building_the_parser_imports_neither_torch_nor_numpy():
    code = (
        "import argparse, sys; from puridiver.cli import stream; "
        "stream.add_parser(argparse.ArgumentParser().add_subparsers()); "
        "sys.exit(' '.join({'torch', 'numpy', 'rich'} & sys.modules.keys()) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_made_stream_says_how_to_learn_from_it(tmp_path, capsys):
    """With what the files were read by: the command works as it is printed."""
    pictures, made = tmp_path / "my pictures", tmp_path / "mine.json"
    for name, shade in (("dark", 40), ("light", 210)):
        (pictures / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (12, 12), (shade, shade + number, shade)).save(pictures / name / f"{number}.png")
    told = ["--from", str(pictures), "--test-share", "0.25", "--image-size", "12", "--data-root", str(tmp_path)]
    assert main(["stream", "make", *told, "--out", str(made)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("to learn from it: "))
    program, *words = shlex.split(line.removeprefix("to learn from it: "))
    assert program == "puridiver"
    assert main([*words, "--epochs", "1", "--memory", "8", "--device", "cpu", "--quiet"]) == 0


def test_a_made_stream_says_how_to_verify_it(tmp_path, capsys):
    pictures, made = write_classes(tmp_path / "my pictures"), tmp_path / "mine.json"
    told = ["--from", str(pictures), "--test-share", "0.25", "--data-root", str(tmp_path), "--trust-labels"]
    assert main(["stream", "make", *told, "--out", str(made)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("to check it later: "))
    program, *words = shlex.split(line.removeprefix("to check it later: "))
    assert program == "puridiver"
    assert main(words) == 0
    assert main(["stream", "verify", str(made), "--data", str(pictures), "--data-root", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "a manifest does not tell how image files were read: say --test-share, --image-size" in told


def test_the_manifest_of_a_run_is_verified_by_what_the_run_remembers(tmp_path, capsys, monkeypatch):
    pictures, run_folder = write_classes(tmp_path / "pictures", per_class=16), tmp_path / "run"
    words = ["--data", str(pictures), "--test-share", "0.25", "--image-size", "16", "--data-root", str(tmp_path)]
    short = ["--memory", "6", "--epochs", "1", "--device", "cpu", "--quiet", "--no-keep-learner"]
    assert main(["run", *words, *short, "--out", str(run_folder)]) == 0
    monkeypatch.chdir(tmp_path / "pictures")  # from any folder
    assert main(["stream", "verify", str(run_folder / "manifest.json")]) == 0
    assert main(["stream", "verify", str(run_folder / "manifest.json"), "--test-share", "0.5"]) == 1
    assert "say the same --test-share" in capsys.readouterr().out
    pictures.rename(tmp_path / "moved")
    assert main(["stream", "verify", str(run_folder / "manifest.json"), "--data", str(tmp_path / "moved")]) == 0


def test_a_run_of_a_made_stream_is_verified_by_the_data_that_this_names(tmp_path):
    made, short = tmp_path / "s.json", ["--epochs", "1", "--stream-limit", "16", "--test-limit", "20", "--quiet"]
    assert main(["stream", "make", "--data", "digits", "--out", str(made)]) == 0
    assert main(["run", "--stream", str(made), *short, "--no-diversity", "--out", str(tmp_path / "run")]) == 0
    assert main(["stream", "verify", str(tmp_path / "run" / "manifest.json")]) == 0


def test_a_made_stream_of_known_data_needs_no_more_than_its_file(tmp_path, capsys):
    made = tmp_path / "s.json"
    assert main(["stream", "make", "--data", "digits", "--out", str(made)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"to learn from it: puridiver run --stream {made}"


def test_own_pictures_in_a_folder_called_like_known_data_are_still_one_s_own(tmp_path, capsys):
    for name in ("cat", "dog"):
        (tmp_path / "digits" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / "digits" / name / f"{number}.png")
    told = ["--from", str(tmp_path / "digits"), "--tasks", "2", "--data-root", str(tmp_path), "--test-share", "0.25"]
    assert main(["stream", "make", *told, "--out", str(tmp_path / "s.json")]) == 0
    assert f"--data {tmp_path / 'digits'} " in capsys.readouterr().out.splitlines()[-1]


def test_a_manifest_is_called_json(tmp_path, capsys):
    assert main(["stream", "make", "--data", "digits", "--out", str(tmp_path / "stream")]) != 0
    assert "should be called *.json" in capsys.readouterr().err
