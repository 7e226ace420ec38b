"""Samplers and trainers from outside the package."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import puridiver
from puridiver import data, plugins
from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.memory import SAMPLERS
from puridiver.method_check import find_faults
from puridiver.runs.config import RunConfig
from puridiver.runs.provenance import Identity, all_code, code_hash, command_for, identify, plugin_files
from puridiver.runtime.device import Runtime

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_methods.py"
NEWEST = """
import puridiver, torch

@puridiver.register
class Newest(puridiver.Sampler):
    '''Keeps what came last.'''
    name = "newest"
    def choose(self, pool, n_old, capacity, moment):
        return {rows}
"""
GOOD = "torch.arange(len(pool))[-capacity:]"
QUICK = ["--stream-limit", "20", "--test-limit", "50", "--epochs", "1", "--quiet"]


pytestmark = pytest.mark.usefixtures("forgotten_plugins")


def newest(folder: Path, rows: str = GOOD, name: str = "newest.py") -> Path:
    path = folder / name
    path.write_text(NEWEST.format(rows=rows))
    return path


def test_the_example_is_chosen_by_name_and_recorded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(EXAMPLE.parents[1])
    assert (
        main(["run", "--plugin", str(EXAMPLE), "--sampler", "low-loss", "--trainer", "smooth", "--json", *QUICK]) == 0
    )
    row = json.loads(capsys.readouterr().out)
    assert set(row["plugins"]) == {"sampler low-loss", "trainer smooth"}
    assert row["code_hash"] == code_hash()
    assert row["command"].endswith("--plugin examples/own_methods.py")
    assert main(["methods", "--plugin", str(EXAMPLE), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["samplers"]["low-loss"].startswith("Drops what the network finds hardest")


def test_the_example_behaves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--plugin", str(EXAMPLE), "--check"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sampler low-loss: no fault found",
        "trainer smooth: no fault found",
        "trainer smooth: options smooth.share=0.1",
        "trainer taylor: no fault found",
        "trainer taylor: options taylor.online=True, taylor.terms=2",
        "network patches: no fault found",
    ]


def identity_of(sampler: str) -> Identity:
    source, runtime = data.load("digits"), Runtime(torch.device("cpu"))
    return identify(RunConfig(sampler=sampler), source, "stream", runtime)


def test_code_of_a_plugin_is_part_of_its_runs_settings_and_of_no_others(tmp_path: Path) -> None:
    before = identity_of("rsv")
    plugins.add(str(newest(tmp_path)))
    found = identity_of("newest")
    plugins._loaded.clear()
    plugins.add(str(newest(tmp_path, GOOD + ".clone()")))
    edited = identity_of("newest")
    assert edited.cell != found.cell
    assert edited.settings_hash != found.settings_hash
    assert edited.code_hash == found.code_hash == code_hash()  # so that it stands in one table with other methods
    assert identity_of("rsv") == before
    assert all_code(RunConfig(sampler="newest")) != all_code(RunConfig(sampler="rsv")) == code_hash()
    assert "--plugin" not in command_for(RunConfig(sampler="rsv"))


def test_a_run_keeps_its_plugins_as_they_were_loaded_and_can_be_repeated_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    path = newest(tmp_path / "mine")
    words = ["run", "--sampler", "newest", "--trainer", "plain", "--json", *QUICK]
    assert main([*words, "--plugin", "mine/newest.py", "--out", "run"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["command"].endswith("--plugin mine/newest.py")
    kept = tmp_path / "run" / "plugins" / "newest.py"
    assert kept.read_bytes() == path.read_bytes()
    assert row["plugin_files"] == {"plugins/newest.py": hashlib.sha256(path.read_bytes()).hexdigest()}
    path.unlink()
    plugins._loaded.clear()
    plugins._origins.clear()
    os.environ.pop(plugins.ENVIRONMENT)
    assert main([*words, "--plugin", str(kept), "--out", "again"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["cell"], again["last_accuracy"]) == (row["cell"], row["last_accuracy"])


def test_plugins_of_one_name_are_both_kept(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plugins.add(str(newest(tmp_path / "a")))
    other = newest(tmp_path / "b")
    other.write_text(
        "import puridiver\nfrom puridiver.trainers.plain import Plain\n\n@puridiver.register\n"
        'class Own(Plain):\n    name = "own"\n'
    )
    plugins.add(str(other))
    files = plugin_files(RunConfig(sampler="newest", trainer="own"))
    assert list(files) == ["plugins/newest.py", "plugins/2/newest.py"]
    assert files["plugins/2/newest.py"] == other.read_bytes()
    assert plugin_files(RunConfig(sampler="rsv")) == {}


def test_worker_processes_have_the_plugins_too(tmp_path: Path) -> None:
    grid = tmp_path / "mine.toml"
    grid.write_text(
        '[grid]\nmethods = ["newest+plain", "rsv+plain"]\ndata = ["digits"]\nstreams = ["blurry-10"]\n'
        "seeds = [0]\nepochs = 1\nstream_limit = 20\ntest_limit = 50\n"
    )
    words = ["--plugin", str(newest(tmp_path)), "--out", str(tmp_path / "out")]
    assert main(["grid", str(grid), *words, "--engine", "processes", "--processes", "1", "--quiet"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
    assert {row["sampler"]: "plugins" in row for row in rows} == {"newest": True, "rsv": False}
    assert main(["table", str(grid), str(tmp_path / "out"), "--plugin", str(tmp_path / "newest.py"), "--any-code"]) == 0
    assert main(["grid", str(grid), *words, "--dry-run"]) == 0


def test_a_table_says_which_runs_are_of_another_state_of_a_plugin(tmp_path: Path, capsys) -> None:
    """And that --any-code would not bring them: a plugin's code is one of the settings."""
    grid, out = tmp_path / "mine.toml", tmp_path / "out"
    grid.write_text(
        '[grid]\ndata = ["digits"]\nnoises = ["sym-40"]\nstreams = ["blurry-10"]\nseeds = [1]\nepochs = 1\n'
        'methods = ["newest+plain", "rsv+plain"]\n'
    )
    plugin = str(newest(tmp_path))
    assert (
        main(["grid", str(grid), "--plugin", plugin, "--out", str(out), "--quiet", "--engine", "lanes", "--lanes", "1"])
        == 0
    )
    plugins._loaded.clear()
    newest(tmp_path, GOOD + ".clone()")
    capsys.readouterr()
    assert main(["table", str(grid), str(out), "--plugin", plugin]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "1 digits run is of another state of a plugin's file (newest) and not shown; the grid runs again" in told
    assert "--any-code" not in told


def test_the_environment_is_enough_for_other_programs(tmp_path: Path) -> None:
    code = "import puridiver; print(puridiver.Learner(sampler='newest', image_shape=(8, 8, 1)).sampler.title)"
    environment = {**os.environ, plugins.ENVIRONMENT: str(newest(tmp_path)), "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "newest\n"


class Oldest(puridiver.Sampler):
    """Keeps what came first."""

    name = "oldest"

    def choose(self, pool, n_old, capacity, moment):
        return torch.arange(min(len(pool), capacity))


def test_a_learner_takes_a_class_and_can_be_saved(tmp_path: Path) -> None:
    learner = puridiver.Learner(image_shape=(8, 8, 1), sampler=Oldest, trainer="plain", memory=5, seed=1)
    images = np.zeros((9, 8, 8, 1), np.uint8)
    learner.observe(images, list("abcabcabc"))
    assert learner.memory.samples.arrivals.tolist() == [0, 1, 2, 3, 4]
    assert SAMPLERS["oldest"].summary == "Keeps what came first."
    assert puridiver.Learner.load(learner.save(tmp_path / "saved")).sampler.name == "oldest"
    del SAMPLERS["oldest"]
    with pytest.raises(ValueError, match="one of your own needs its plugin"):
        puridiver.Learner.load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ("list(range(len(pool)))[-capacity:]", "but returns a list"),
        ("torch.arange(len(pool)).float()[-capacity:]", "a tensor of torch.float32"),
        ("torch.arange(len(pool))", "keeps more samples than the memory holds: 24 instead of at most 20"),
        ("torch.zeros(min(2, capacity), dtype=torch.int64)", "keeps a sample twice"),
        ("torch.randperm(len(pool))[:capacity]", "global random generator"),
        ("(pool.labels.zero_(), torch.arange(len(pool))[-capacity:])[1]", "changes the samples"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        (
            "(setattr(self, 'n', getattr(self, 'n', 0) + 1), torch.arange(len(pool))[self.n % 3:][:capacity])[1]",
            "keeps something that is not saved",
        ),
    ],
)
def test_faults_are_found_and_named(rows: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--plugin", str(newest(tmp_path, rows)), "--check"]) == 1
    assert fault in capsys.readouterr().out


DIVERGES = """
import puridiver

@puridiver.register
class Wild(puridiver.Trainer):
    "Its rate is far too high."
    name = "wild"
    n_networks = 2
    def memory_epoch(self, memory, epoch):
        self.trainees[{network}].set_rate(1e30)
        self.plain_epoch(memory, network={network})
"""


@pytest.mark.parametrize("network", [0, 1])
def test_a_trainer_that_diverges_is_found(network: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wild.py").write_text(DIVERGES.format(network=network))
    assert main(["methods", "--plugin", str(tmp_path / "wild.py"), "--check"]) == 1
    assert "trainer wild: the network predicts nan after its training" in capsys.readouterr().out


COUNTS = """
import puridiver, torch

@puridiver.register
class Counting(puridiver.Trainer):
    "Smooths labels more and more."
    name = "counting"
    epochs = 0
    def memory_epoch(self, memory, epoch):
        self.epochs += 1
        share = min(0.1 * self.epochs, 0.9)
        self.plain_epoch(memory, self.one_hot(memory.labels) * (1 - share) + share / self.n_classes)
"""
KEPT = """
    def state(self):
        return {**super().state(), "epochs": torch.tensor(self.epochs)}
    def load_state(self, tensors):
        super().load_state(tensors)
        self.epochs = int(tensors["epochs"])
"""


def test_a_trainer_that_forgets_what_it_counted_is_found_and_one_that_saves_it_is_right(tmp_path, capsys):
    words = ["methods", "--plugin", str(tmp_path / "counting.py"), "--check"]
    (tmp_path / "counting.py").write_text(COUNTS)
    assert main(words) == 1
    assert "trainer counting: a saved and loaded learner goes on otherwise" in capsys.readouterr().out
    plugins._loaded.clear()
    (tmp_path / "counting.py").write_text(COUNTS + KEPT)
    assert main(words) == 0


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("sampler", "rsv"),
        ("sampler", "puridiver"),
        ("trainer", "puridiver"),
        ("trainer", "coteaching"),
        ("network", "small"),
    ],
)
def test_the_package_s_own_methods_have_none(family: str, name: str) -> None:
    assert find_faults(family, name) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1", "registers no sampler, trainer or network"),
        ("import nothing_of_the_kind", "could not be loaded: ModuleNotFoundError"),
        ("raise SystemExit(3)", "could not be loaded: SystemExit"),
        ("def broken(:", "could not be loaded: SyntaxError"),
        (NEWEST.format(rows=GOOD).replace('"newest"', '"rsv"'), "the name 'rsv' is taken by a sampler of the package"),
        (NEWEST.format(rows=GOOD).replace('"newest"', '"New est"'), "should have a name of lower-case letters"),
        (NEWEST.format(rows=GOOD).replace('"newest"', '"auto"'), "the name 'auto' leaves the sampler to the package"),
        (NEWEST.format(rows=GOOD).replace("choose", "chose"), "sampler 'newest' should have choose"),
        (NEWEST.format(rows=GOOD).replace("puridiver.Sampler", "object"), "should be a subclass of puridiver.Sampler"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error_that_says_why(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert main(["run", "--plugin", str(path), *QUICK]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--plugin", "nowhere.py"]) == 2
    assert "plugin nowhere.py should be a Python file or a module, but there is no such file" in capsys.readouterr().err


def test_check_without_a_plugin_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods", "--check"]) == 2
    assert "--plugin FILE" in capsys.readouterr().err


def test_a_package_is_hashed_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "own_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    newest(package)
    (package / "helper.py").write_text("a = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load("own_package.newest")
    before = plugins.origins(("sampler", "newest"))["sampler newest"]
    assert before.place == "own_package.newest"
    (package / "helper.py").write_text("a = 2\n")
    assert plugins._origin(SAMPLERS["newest"]).code != before.code


def test_files_beside_a_plugin_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "beside_the_plugin.py").write_text("LAST = 3\n")
    path = tmp_path / "mine.py"
    path.write_text("import beside_the_plugin\n" + NEWEST.format(rows=GOOD))
    plugins.add(str(path))
    assert "newest" in SAMPLERS
    sys.modules.pop("beside_the_plugin")


def test_installed_packages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest(tmp_path, name="installed_method.py")
    info = tmp_path / "installed_method-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-method\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[puridiver.plugins]\nmine = installed_method\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.load_all()
    assert "newest" in SAMPLERS


def test_unknown_methods_are_still_refused() -> None:
    with pytest.raises(ValueError, match="sampler should be one of"):
        puridiver.Learner(image_shape=(8, 8, 1), sampler="newst")
    assert data.load("digits").name == "digits"
    with pytest.raises(DataError, match="no such file"):
        plugins.add("missing.py")


@pytest.mark.parametrize("fault", ["ValueError('too few')", "KeyError('too few')", "RuntimeError('too few')"])
def test_an_error_of_a_plugin_names_its_file_and_shows_where(
    tmp_path: Path, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = newest(tmp_path)
    code = path.read_text()
    head, _, rest = code.rpartition("        return ")
    path.write_text(f"{head}        raise {fault}\n        return {rest}")
    assert main(["run", "--plugin", str(path), "--sampler", "newest", "--quiet", *QUICK]) == 1
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert f"the plugin {path} raised {fault.partition('(')[0]}: " in told.splitlines()[-1]
    assert "too few" in told.splitlines()[-1]


def test_a_name_may_come_from_a_base_that_is_no_method_itself():
    class Named(puridiver.Sampler):
        """ """

        name = "of-a-base"

    class Whole(Named):
        """ """

        def choose(self, pool, n_old, capacity, moment):
            return torch.arange(len(pool))[:capacity]

    assert puridiver.register(Whole).summary == "of-a-base"
