"""Grid files: what they may say, and what is said about their mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.grid.cells import cells
from puridiver.grid.define import read_grid
from puridiver.grid.plan import Sources
from puridiver.runs.folder import read_ledger
from tests.wild import write_classes

DOCUMENT = Path(__file__).parents[2] / "docs" / "GRIDS.md"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.usefixtures("quick_diversity")
def test_the_documents_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    path = written(tmp_path, example)
    wanted = cells(read_grid(path))
    assert len(wanted) == 18
    assert {cell.config.options.get("eta") for cell in wanted} == {0.5, 2.0}
    assert {cell.config.recipe for cell in wanted} == {"official", "puridiver"}
    out = tmp_path / "out"
    quick = ["--limit", "1", "--epochs", "1", "--stream-limit", "16", "--test-limit", "40", "--engine", "lanes"]
    assert main(["grid", str(path), "--out", str(out), "--quiet", *quick]) == 0
    assert len(read_ledger(out / "ledger.jsonl")) == 1


def test_lists_multiply_and_one_value_counts_as_a_list(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '[grid]\nmethods = ["rsv+plain", {sampler = "rm", trainer = "plain", title = "RM", options = {lr = 0.1}}]\n'
        'streams = ["blurry-10", "disjoint"]\nnoises = "sym-20"\nseeds = [0, 1, 2]\nepochs = 2\n'
        "[grid.options]\neta = 0.5\n",
    )
    grid = read_grid(path)
    assert [method.title for method in grid.methods] == ["rsv + plain", "RM"]
    wanted = cells(grid, {"epochs": 1})
    assert len(wanted) == 2 * 2 * 3
    assert {cell.config.stream for cell in wanted} == {"blurry-10", "disjoint"}
    assert {cell.config.epochs for cell in wanted} == {1}
    assert wanted[-1].config.options == {"eta": 0.5, "lr": 0.1}
    assert [cell.config.seed for cell in wanted] == [0] * 4 + [1] * 4 + [2] * 4
    assert {cell.config.data for cell in cells(read_grid(path, ["cifar10"], [7]))} == {"cifar10"}


def test_a_methods_own_recipe_and_knowledge_go_before_the_files_and_the_command_lines(tmp_path: Path) -> None:
    text = (
        '[grid]\nrecipe = "paper"\nmethods = ["rsv+plain", {sampler = "rsv", trainer = "plain", recipe = "official"}, '
        '{sampler = "rsv", trainer = "coteaching", tell_noise = true}]\n'
    )
    grid = read_grid(written(tmp_path, text))
    titles = ["rsv + plain", "rsv + plain, recipe=official", "rsv + coteaching, tell_noise=True"]
    assert [method.title for method in grid.methods] == titles
    found = [(cell.config.recipe, cell.config.tell_noise) for cell in cells(grid)]
    assert found == [("paper", False), ("official", False), ("paper", True)]
    found = [(cell.config.recipe, cell.config.tell_noise) for cell in cells(grid, {"recipe": "puridiver"})]
    assert found == [("puridiver", False), ("official", False), ("puridiver", True)]


METHODS = 'methods = ["rsv+plain"]\n'
OWN = "[grid]\nmethods = [{sampler = 'rsv', trainer = 'plain', KEY}]\n"


def test_a_whole_number_does_where_a_float_is_wanted(tmp_path: Path) -> None:
    (column,) = read_grid(written(tmp_path, f"[grid]\n{METHODS}test_share = 0\nmemory = 9\n")).columns
    assert (column.settings["test_share"], column.settings["memory"]) == (0.0, 9)
    assert [type(column.settings[key]) for key in ("test_share", "memory")] == [float, int]  # one identity: 0 and 0.0


def test_data_without_a_test_part_say_what_a_grid_file_is_to_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_classes(tmp_path / "own", 4)
    whole = f'[grid]\n{METHODS}data = ["{folder}"]\ndata_root = "{tmp_path}"\n'
    for text in (whole, whole + "test_share = 0\n"):
        assert main(["grid", str(written(tmp_path, text)), "--out", str(tmp_path / "out"), "--quiet"]) > 0
        told = capsys.readouterr().err + "".join(path.read_text() for path in tmp_path.glob("out/failures.jsonl"))
        assert "--test-share 0.2 (in a grid file test_share = 0.2)" in told


def test_paths_of_a_file_are_taken_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_classes(tmp_path / "here" / "own", 4)
    (tmp_path / "grids").mkdir()
    path = written(tmp_path / "grids", f'[grid]\n{METHODS}data = ["own"]\ntest_share = 0.2\n')
    monkeypatch.chdir(tmp_path / "here")
    (cell,) = cells(read_grid(path), {"data_root": str(tmp_path)})
    assert Sources().of(cell.config).name == "own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[grid]\n{METHODS}epoch = 3\n", r"no key 'epoch'.*methods.*epochs"),
        (f"[grid]\n{METHODS}sampler = 'rsv'\n", "no key 'sampler'"),
        (f"[grid]\n{METHODS}seeds = ['one']\n", "seeds should be a list of int"),
        (f"[grid]\n{METHODS}seeds = []\n", "seeds should be a list of int"),
        (f"[grid]\n{METHODS}seeds = 3\n", r"seeds should be a list: \[3\] for the seed 3 alone, or \[0, 1, 2\]"),
        (f"[grid]\n{METHODS}noises = ['sym-40', 'sym40']\n", "noises has 'sym-40' and 'sym40', which are one"),
        ("[grid]\nmethods = ['rsv+plain', 'rsv + plain']\n", "methods has .* twice, which are one"),
        ("[grid]\nseeds = [1]\n", "methods is missing from \\[grid\\]"),
        ("[grid]\nmethods = ['rsv']\n", "sampler\\+trainer"),
        ("[grid]\nmethods = ['best+plain']\n", "sampler should be one of .*rsv.*but got 'best'"),
        ("[grid]\nmethods = [{sampler = 'rsv'}]\n", "should have sampler and trainer"),
        (f"[grid]\n{METHODS}[grid.options]\nzeta = 1\n", "no option 'zeta'"),
        (f"[grid]\n{METHODS}options = 3\n", "options should be a table"),
        (f'[grid]\n{METHODS}epochs = "3"\n', "epochs should be int, but got '3'"),
        (f"[grid]\n{METHODS}memory = 1.5\n", "memory should be int, but got 1.5"),
        (f"[grid]\n{METHODS}test_share = true\n", "test_share should be float, but got True"),
        (f"[grid]\n{METHODS}memory = true\n", "memory should be int, but got True"),
        (f"[grid]\n{METHODS}memory = 0\n", "memory should be at least 1, but got 0"),
        (f"[grid]\n{METHODS}tell_noise = 1\n", "tell_noise should be bool, but got 1"),
        (f"[grid]\n{METHODS}recipe = ['paper']\n", "recipe should be str"),
        (f"[grid]\n{METHODS}recipe = 'best'\n", "recipe should be one of .*official.*, but got 'best'"),
        (f"[grid]\n{METHODS}evaluate_on = 'train'\n", "evaluate_on should be one of test, validation"),
        ("[grid]\nmethods = [{sampler = 'rsv', trainer = ['plain']}]\n", "trainer of a method should be text"),
        ("[grid]\nmethods = [{sampler = 'rsv', trainer = 'plain', title = 3}]\n", "title of a method should be text"),
        (OWN.replace("KEY", "recipe = 3"), "recipe of a method should be str, but got 3"),
        (OWN.replace("KEY", "recipe = 'best'"), "recipe of a method should be one of .*official.*, but got 'best'"),
        (OWN.replace("KEY", "tell_noise = 1"), "tell_noise of a method should be bool, but got 1"),
        (OWN.replace("KEY", "memory = 0"), "memory should be at least 1, but got 0"),
        (OWN.replace("KEY", "device = 'cpu'"), "may have title, options, recipe, memory, network, tell_noise, but got"),
        ("[grids]\n", "one table, \\[grid\\], but holds grids"),
        ("[grid\n", "is not TOML"),
    ],
)
def test_a_mistake_is_told_with_what_is_allowed(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_grid(written(tmp_path, text))


def test_a_file_that_names_no_noise_gets_what_suits_the_data(tmp_path):
    (tmp_path / "pictures" / "cat").mkdir(parents=True)
    path = tmp_path / "mine.toml"
    path.write_text(f'[grid]\nmethods = ["rsv+plain"]\ndata = ["digits", "{tmp_path}/pictures", "webvision"]\n')
    assert [column.noise for column in read_grid(path).columns] == ["sym-40", "none", "none"]
