"""`puridiver run` on a published stream."""

from __future__ import annotations

import json

from puridiver.cli import main
from puridiver.data import load
from puridiver.runs import folder as runs
from puridiver.streams import make_stream
from tests.cli.test_run import TINY
from tests.streams.splits import write_npz


def test_a_run_on_a_published_stream_from_before_it_was_shuffled_is_resumed_as_it_was(tmp_path, capsys):
    made = make_stream(load("digits"), n_tasks=5, noise="sym-40", seed=1)
    write_npz(tmp_path / "digits.npz", made)
    folder, stream = tmp_path / "run", ["--stream", "official:sym40:1:listed", "--splits", str(tmp_path)]
    assert main(["run", *TINY[2:], *stream, "--out", str(folder), "--quiet"]) == 0  # with its own number of tasks
    begun = json.loads((folder / "config.json").read_text())
    begun["config"]["stream"] = "official:sym40:1"  # all that versions without a choice said
    (folder / "config.json").write_text(json.dumps(begun))
    (folder / "summary.json").unlink()
    assert main(["run", "--out", str(folder), "--resume", "--quiet"]) == 0
    assert json.loads((folder / "summary.json").read_text())["stream"] == "official:sym40:1:listed"
    capsys.readouterr()
    assert main(["run", "--out", str(folder), "--resume", "--stream", "official:sym40:1"]) == 2
    assert "stream is 'official:sym40:1:listed' there and 'official:sym40:1:shuffled' here" in capsys.readouterr().err


def test_checkpoints_from_before_belong_to_their_run() -> None:
    def run_of(stream: str) -> str:
        return runs.identity_hash({"config": {"stream": stream, "seed": 1}, "resolved": {"stream_hash": "the same"}})

    assert run_of("official:sym40:1") == run_of("official:sym40:1:listed") != run_of("official:sym40:1:shuffled")
    assert run_of("mine:listed") != run_of("mine")  # no published stream
