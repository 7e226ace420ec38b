"""The tools: the results page is what the ledgers give, and measurements run at a small size."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from puridiver.grid.spec import cells, find_grid
from tests.grid.samples import row

ROOT = Path(__file__).parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results() -> ModuleType:
    return tool("results")


def test_the_committed_pages_are_what_the_ledgers_give(results: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert results.main(["--check"]) == 0, capsys.readouterr().err


def test_a_page_that_is_outdated_is_named_and_written(
    results: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "experiments" / "one").mkdir(parents=True)
    ledger = "".join(json.dumps(row(seed, 0.6)) + "\n" for seed in (1, 2))
    (tmp_path / "experiments" / "one" / "ledger.jsonl").write_text(ledger)
    for page in ("README.md", "advice.md"):
        (tmp_path / page).write_text(f"before\n{results.BEGIN}old\n{results.END}\nafter\n")
    (tmp_path / "page.jinja").write_text("{{ results.runs }} runs\n{{ results.table('table1', data='cifar10') }}\n")
    places = {"ROOT": "", "README": "README.md", "PAGE": "page.md", "TEMPLATE": "page.jinja", "ADVICE": "advice.md"}
    for name, place in places.items():
        monkeypatch.setattr(results, name, tmp_path / place)
    assert results.main(["--check"]) == 1
    assert "page.md is not up to date" in capsys.readouterr().err
    assert results.main([]) == results.main(["--check"]) == 0
    page = (tmp_path / "page.md").read_text()
    assert page.startswith("2 runs")
    assert "|60.0±0.0(2) [59.2±0.3]|" in page
    assert (tmp_path / "tasks-cifar10.png").read_bytes().startswith(b"\x89PNG")
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before\n")
    assert readme.endswith("after\n")
    assert "|60.0±0.0 (2)|" in readme


def test_steps_are_measured_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = tool("bench")
    size = bench.Size("tiny", (8, 8, 1), 2, 20, "small")
    monkeypatch.setitem(bench.SIZES, "digits", size)
    monkeypatch.setitem(bench.PARTS, "steps", lambda size, args: [bench.measure("nothing", lambda: None, 1, 10)])
    assert bench.main(["--size", "digits", "--device", "cpu", "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/tiny-*.json")
    (figure,) = json.loads(path.read_text())["figures"]
    assert figure["low"] <= figure["median"] <= figure["high"]
    learner = bench.filled_learner(size, device="cpu")
    assert len(learner.memory) == 20
    args, measure = bench.parsed(["--device", "cpu", "--recipe", "puridiver"]), bench.measure
    few = {"warmup": 0, "repeats": 2}
    monkeypatch.setattr(bench, "measure", lambda *words, **settings: measure(*words, **{**settings, **few}))
    alone, shared, ratio = bench.PARTS["single"](size, args)
    assert ratio.median == alone.median / shared.median > 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_runs_at_full_size_are_measured_on_made_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Food-101N tells of each label whether it is right, so that the memory has a purity; WebVision tells nothing."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    words = "webvision food101n --train 303 --test 101 --recipe official --network small --epochs 1 --image-size 16"
    quick = "--memory 40 --stream-limit 16 --test-limit 20 --anytime-points 0 --device cpu --quiet --out"
    assert tool("full_size").main([*words.split(), *quick.split(), str(tmp_path)]) == 0
    webvision, food = (json.loads(next(tmp_path.glob(f"*/{name}*.json")).read_text()) for name in ("webvision", "food"))
    assert (webvision["train_files"], webvision["test_files"], webvision["image_size"]) == (303, 101, 16)
    assert (webvision["stream_noise"], webvision["task_purity"]) == (None, [None] * 10)
    assert 0.1 < food["stream_noise"] < 0.3
    assert len(food["task_purity"]) == 5
    assert all(0.5 < purity < 1 for purity in food["task_purity"])
    figures = {figure["what"]: figure["median"] for figure in food["figures"]}
    assert {"decode", "observe", "evaluate", "consolidate"} <= figures.keys()
    assert 0 < figures["run: observe"] < figures["run, start to end"]
    assert 0.05 < figures["host memory of its own, highest"] < 5


def test_the_grid_of_every_study_can_be_read() -> None:
    for path in (ROOT / "experiments").glob("*/*.toml"):
        if path.parent.name != "ntd-program":  # needs its plugin
            assert cells(find_grid(path))


def test_no_result_is_too_large_or_names_a_place_of_a_machine() -> None:
    for path in (ROOT / "experiments").rglob("*.json*"):
        text = path.read_text()
        assert len(text) < 2**20, path
        assert not re.search(r"[\s\"=:]/(home|root|tmp|work)/", text), path
