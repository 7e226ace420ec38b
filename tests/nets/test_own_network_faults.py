"""What may be wrong with a network from outside the package, and how it is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import puridiver
from puridiver import plugins
from puridiver.cli import main
from puridiver.errors import DataError
from puridiver.grid.spec import read_grid
from puridiver.grid.table import make_table
from puridiver.method_check import find_faults
from puridiver.nets import NETWORKS, Head, Network
from tests.grid.samples import rows_of
from tests.learner_samples import SHAPE
from tests.nets.own_networks import Read, Tokens, built, learned, mine, weights


@pytest.fixture(autouse=True)
def _registered(forgotten_plugins: None) -> None:
    puridiver.register(Tokens)
    puridiver.register(Read)


@pytest.mark.parametrize(
    ("features", "fault"),
    [
        ("self.body(images)", "features should be of shape (N, d), but are float32 of shape (2, 8, 10, 10)"),
        ("[images]", "features should be of shape (N, d), but are a list"),
        ("self.body(images).mean(dim=(2, 3)).half()", "features should be float32, but are float16 of shape (2, 8)"),
        ("self.body(images).mean(dim=(2, 3))[:, :5]", "features have 5 numbers a sample, but its head takes 8"),
        ("self.body(images - images.mean(0)).mean(dim=(2, 3))", "depend on the other images of its batch"),
        ("self.body(0 * images).mean(dim=(2, 3))", "features are the same whatever the image"),
        ("self.drop(self.body(images)).mean(dim=(2, 3))", "global random generator"),
        (
            "(setattr(self, 'n', self.n + 1), self.body(images).mean(dim=(2, 3)) * (1 + self.n))[1]",
            "the same images have other features the second time",
        ),
        ("self.body(images.mul_(0.5)).mean(dim=(2, 3))", "features changes the images that it is given"),
        ("self.body(images).mean(dim=(2, 3)) / 0", "features are not finite"),
        ("self.body(images).mean(dim=(2, 3)).detach()", "no gradient reaches body.weight, body.bias"),
        ("1 / 0", "ZeroDivisionError"),
        ("images.no_such_thing", "AttributeError: 'Tensor' object has no attribute 'no_such_thing'"),
    ],
)
def test_faults_are_found_and_named(features: str, fault: str, tmp_path: Path, capsys) -> None:
    path = mine(tmp_path, features)
    del NETWORKS["tokens"], NETWORKS["read"]
    assert main(["methods", "--plugin", str(path), "--check"]) == 1
    assert fault in capsys.readouterr().out


@pytest.mark.parametrize(("old", "new"), [("8, 3)", "8, 20)"), ("image_shape[2], 8", "1, 8")])
def test_a_network_for_larger_or_for_grey_images_is_tried_on_such(old: str, new: str, tmp_path: Path) -> None:
    path = mine(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    plugins.add(str(path))
    assert find_faults("network", "mine") == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "self.head = ",
            "self.other = ",
            "network 'mine' should set self.head = puridiver.Head(width, n_classes, settin",
        ),
        ("Head(8, n_classes", "Head(8, 7", "its head is for 7 classes instead of the 10 that it was asked for"),
        ("Head(8", "Head(9", "network 'mine': features have 8 numbers a sample, but its head takes 9"),
        (
            "self, n_classes, image_shape, settings",
            "self, n_classes",
            "should be made as Mine(n_classes, image_shape, ",
        ),
        ('name = "mine"', 'name = "small"', "the name 'small' is taken by a network of the package"),
    ],
)
def test_a_network_that_cannot_be_used_says_why(old: str, new: str, told: str, tmp_path: Path, capsys) -> None:
    path = mine(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    assert main(["run", "--plugin", str(path), "--network", "mine", "--quiet"]) == 2
    assert told in capsys.readouterr().err


def test_a_tensor_that_is_no_buffer_is_found(tmp_path: Path) -> None:
    plugins.add(str(mine(tmp_path, **{"self.n = 0": "self.n = torch.ones(8)"})))
    assert [fault for fault in find_faults("network", "mine") if "n: a tensor that is no parameter" in fault]


def test_neither_a_name_nor_a_class_is_told() -> None:
    with pytest.raises(ValueError, match="network should be a name or a class, but got None"):
        puridiver.Learner(3, SHAPE, 12, network=None)  # type: ignore[arg-type]


def test_dropout_is_warned_of(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    plugins.add(str(mine(tmp_path)))
    for _ in range(3):
        built("mine")
    assert caplog.text.count("has dropout") == 1
    assert "network 'mine' has dropout (drop), whose draws are not the seed's" in caplog.text


def test_what_is_derived_from_a_network_of_the_package_begins_as_that_does() -> None:
    class Same(NETWORKS["small"]):  # type: ignore[misc,name-defined]
        """Nothing else."""

        name = "same"

    puridiver.register(Same)
    assert torch.equal(weights(built("same")), weights(built("small")))
    assert (Same.title, Same.summary) == ("same", "Nothing else.")  # not those of what it is derived from
    Same.keeps_weights = True
    assert not torch.allclose(weights(built("same")), weights(built("small")))
    with pytest.raises(
        ValueError, match="Nameless should have a name of its own: 'same' is that of what it is made of"
    ):
        puridiver.register(type("Nameless", (Same,), {}))


def test_of_two_classes_of_one_name_a_learner_takes_the_one_it_is_given() -> None:
    def of_width(width: int) -> type[Network]:
        class Sized(Tokens):
            name = "sized"

            def __init__(self, n_classes: int, *rest: Any) -> None:
                super().__init__(n_classes, *rest)
                self.more = nn.Linear(16, width)
                self.head = Head(width, n_classes, rest[1])

            def features(self, images: Tensor) -> Tensor:
                return self.more(super().features(images))

        return Sized

    narrow, wide = of_width(4), of_width(9)
    learners = [puridiver.Learner(3, SHAPE, 12, network=kind, device="cpu") for kind in (narrow, wide, narrow)]
    assert [learner.trainer.trainees[0].network.head.linear.in_features for learner in learners] == [4, 9, 4]


def test_two_files_do_not_share_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.py").write_text(mine(tmp_path).read_text())
    assert main(["methods", "--plugin", str(tmp_path / "mine.py"), "--plugin", str(tmp_path / "other.py")]) == 2
    told = capsys.readouterr().err
    assert f"the name 'mine' is taken by a network of {tmp_path / 'mine.py'}: choose another in" in told


def test_one_file_may_be_reached_by_two_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine(tmp_path)
    (tmp_path / "derived.py").write_text(
        "import puridiver\nfrom mine import Mine\n@puridiver.register\nclass Other(Mine):\n    name = 'other'\n"
    )
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    for name in ("derived.py", "mine.py"):
        plugins.add(str(tmp_path / name))
    assert {"mine", "other"} <= NETWORKS.keys()
    monkeypatch.delitem(sys.modules, "mine")


@pytest.mark.parametrize(
    ("said", "fault"), [("None", ""), ("3", ""), ("'w.pt'", "a list of names"), ("[1]", "a list of n")]
)
def test_what_is_no_list_of_files_is_refused_or_nothing_to_the_package(said: str, fault: str, tmp_path: Path) -> None:
    path = mine(tmp_path, **{'name = "mine"': f'name = "mine"; files = {said}'})
    if fault:
        with pytest.raises(DataError, match=fault):
            plugins.load(str(path))
        return
    codes = []
    for edit in ("", "# edited"):
        path.write_text(path.read_text() + edit)
        plugins._loaded.clear()
        plugins.load(str(path))
        codes.append(plugins.codes(("network", "mine"))["network mine"])
    assert codes[0] != codes[1]


def test_files_that_a_network_names_count_as_its_code(tmp_path: Path) -> None:
    path = mine(tmp_path, **{'name = "mine"': 'name = "mine"; files = ["weights.pt"]'})
    with pytest.raises(DataError, match=r"Mine names a file that is not there: .*weights.pt"):
        plugins.add(str(path))
    codes = []
    for content in ("one", "two", "one"):
        (tmp_path / "weights.pt").write_text(content)
        plugins._loaded.clear()
        plugins.load(str(path))
        codes.append(plugins.codes(("network", "mine"))["network mine"])
    assert codes[0] == codes[2] != codes[1]


def test_a_learner_that_was_saved_with_other_code_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = mine(tmp_path)
    plugins.load(str(path))
    learned(network="mine").save(tmp_path / "saved")
    caplog.clear()
    puridiver.Learner.load(tmp_path / "saved")
    assert "another state" not in caplog.text
    plugins._loaded.clear()
    path.write_text(path.read_text() + "# edited")
    plugins.load(str(path))
    puridiver.Learner.load(tmp_path / "saved")
    assert "was saved with another state of network mine" in caplog.text


def test_a_grid_that_needs_a_plugin_says_so_before_it_begins(tmp_path: Path, capsys) -> None:
    grid, plugin = tmp_path / "grid.toml", mine(tmp_path)
    head = "[grid]\nstream_limit = 16\ntest_limit = 40\nepochs = 1\ndiversity = false\n"
    own = '{sampler = "rsv", trainer = "plain", network = "mine"}'
    for text in ('methods = ["rsv+plain"]\nnetwork = "mine"\n', f'methods = ["rsv+plain", {own}]\n'):
        grid.write_text(head + text)
        assert main(["grid", str(grid), "--out", str(tmp_path / "out")]) == 2
        assert "network should be one of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    words = ["--plugin", str(plugin), "--quiet", "--engine", "lanes", "--lanes", "1"]
    assert main(["grid", str(grid), "--out", str(tmp_path / "out"), *words]) == 0


def test_a_table_says_which_plugin_was_not_named(tmp_path: Path) -> None:
    puridiver.register(Tokens)
    path = tmp_path / "mine.toml"
    path.write_text('[grid]\nmethods = ["rsv+plain"]\ndiversity = false\n')
    grid = read_grid(path)
    rows = rows_of(grid, changes={"network": "tokens"})
    del NETWORKS["tokens"]
    notes = make_table(grid, rows).notes
    assert "1 digits run is of a plugin that was not named and not shown (--plugin FILE, with network tokens)" in notes
