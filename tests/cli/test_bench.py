from __future__ import annotations

import json
from pathlib import Path

import pytest

from puridiver import bench
from puridiver.cli import main


def test_a_measurement_is_the_median_of_its_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0, 100, 200, 201, 300, 302, 400, 409])  # one warm-up of 100 s, then 1, 2 and 9 s
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks))
    found = bench.measure("work", lambda: None, bench.torch.device("cpu"), warmup=1, repeats=3)
    assert (found.median, found.low, found.high, found.repeats) == (2000, 1000, 9000, 3)


def test_bench_prints_figures_and_writes_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--size", "digits", "--parts", "run", "--epochs", "1", "--device", "cpu", "--json"]
    assert main(["bench", *arguments, "--out", str(tmp_path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["figures"][0]["what"] == "one run, start to end"
    assert record["figures"][0]["median"] > 0
    assert record["recipe"] == "official"  # whatever the default: the goals are of it
    (written,) = tmp_path.glob("*/digits-*.json")
    assert json.loads(written.read_text()) == record


def test_the_online_step_is_measured_with_a_full_memory() -> None:
    learner = bench.filled_learner(bench.SIZES["digits"], device="cpu")
    assert learner.memory.full


def test_the_votes_of_rm_are_measured_alone() -> None:
    found = bench.rm_uncertainty(bench.SIZES["digits"], device="cpu")
    assert found.what == bench.RM_UNCERTAINTY
    assert found.median > 0
