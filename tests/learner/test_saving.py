"""Learners that are saved and loaded, also amid a consolidation, and what damaged saves give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from puridiver import Learner, NoiseHint
from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.runs import folder as runs
from tests.learner.test_learner import IMAGES, LABELS, NAMES, fed
from tests.learner_samples import differing, tensors_of, tiny_learner


def test_load_restores_every_setting(tmp_path):
    hint = NoiseHint("asym", 0.3)
    learner = tiny_learner(list(NAMES), trainer="coteaching", sampler="rm", hint=hint, seed=7, grow=True)
    loaded = Learner.load(fed(learner, 16, NAMES[LABELS]).save(tmp_path), device="cpu")
    for name in ("classes", "input_shape", "options", "hint", "seed", "grow", "network", "seen", "consolidations"):
        assert getattr(loaded, name) == getattr(learner, name), name
    assert (loaded.sampler.name, loaded.trainer.name, loaded.memory.capacity) == ("rm", "coteaching", 12)


def test_the_learner_of_a_run_is_loaded_by_the_run_s_folder(tmp_path):
    learner = fed(tiny_learner())
    learner.save(tmp_path / runs.LEARNER)
    assert differing(tensors_of(learner), tensors_of(Learner.load(tmp_path, device="cpu"))) == []
    with pytest.raises(DataError, match=r"the folder of a run, whose learner is one of its results: save to a folder"):
        learner.save(tmp_path)  # commands and Learner.load would have two to choose from


def test_a_saved_learner_may_get_another_memory(tmp_path):
    fed(tiny_learner()).save(tmp_path)
    same, larger = (Learner.load(tmp_path, device="cpu", memory=memory) for memory in (12, 20))
    assert differing(tensors_of(same), tensors_of(Learner.load(tmp_path, device="cpu"))) == []
    assert len(larger.memory) == 12
    fed(larger)
    assert len(larger.memory) == larger.capacity == 20
    larger.consolidate(epochs=1)
    assert Learner.load(larger.save(tmp_path), device="cpu").capacity == 20
    smaller = Learner.load(tmp_path, device="cpu", memory=6)
    assert len(smaller.memory) == smaller.capacity == 6
    for memory in (0, 12.5):
        with pytest.raises(ValueError, match=rf"at least 1 sample.* but got {memory}"):
            Learner.load(tmp_path, device="cpu", memory=memory)


ODD_TENSORS: dict[str, Any] = {
    "memory.samples.labels": [torch.zeros(3, dtype=torch.int64), torch.full((12,), 3), torch.zeros(12)],
    "memory.samples.images": [torch.zeros(12, 1, 8, 9, dtype=torch.uint8), torch.zeros(12, 1, 8, 8)],
    "memory.samples.arrivals": [torch.arange(12) + 1000],
    "memory.samples.came_with": [torch.full((12,), 3), torch.full((12,), -2), torch.zeros(12, dtype=torch.bool)],
    "trainer.network0.head.linear.weight": [torch.zeros(3, 64, dtype=torch.float64), torch.zeros(2, 2)],
    "generator.trainer": [torch.zeros(3, dtype=torch.uint8)],
    "trainer.online_plans": [torch.zeros((), dtype=torch.int64), torch.zeros(3)],
    "predictor.held_jointly": [torch.zeros(2, dtype=torch.bool)],
    "predictor.taught": [torch.zeros(2), torch.zeros(3, 3)],
    "predictor.kept0.0.head.linear.weight": [torch.zeros(3, 2)],
    "predictor.kept0.0.head.norm.running_var": [torch.zeros(1), torch.zeros(0)],
    "predictor.kept0.0.body.0.norm.running_var": [torch.zeros(0), torch.zeros(1)],
}
ODD_SETTINGS: dict[str, Any] = {
    "classes": [["a", 3, None]], "input_shape": [[8, 8], "8x8", [8.5, 8, 1]], "memory": ["12", 3, -1],
    "sampler": [7, "gone"], "options": [[], {"no such option": 1}, {"lr": "high"}], "seen": ["many", None, -1, 2**63],
    "seen_of": [3, ["a", 1, 2]], "consolidation": [[], {"epochs": 3}], "hint": ["sym", {"kind": "odd"}],
    "ids": [[3]], "plugins": [[]], "precision": [3],
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Settings and tensors of a save."""
    learner = fed(tiny_learner())
    learner.consolidate()
    return storage.load(learner.save(tmp_path_factory.mktemp("saved")))


@pytest.mark.parametrize("name", [*ODD_TENSORS, *ODD_SETTINGS])
def test_what_does_not_fit_is_told_at_once(name: str, saved: tuple[dict, dict], tmp_path: Path) -> None:
    """The checksums are right and the content is not."""
    for value in ODD_TENSORS.get(name, []):
        storage.save(tmp_path, saved[0], {**saved[1], name: value})
        with pytest.raises(DataError, match=f"{tmp_path}.*{'memory' if name.startswith('memory') else ''}"):
            Learner.load(tmp_path, device="cpu")
    for value in ODD_SETTINGS.get(name, []):
        storage.save(tmp_path, {**saved[0], name: value}, saved[1])
        with pytest.raises(DataError, match=str(tmp_path)):
            Learner.load(tmp_path, device="cpu")


def saved_amid_a_consolidation(folder, epochs: int = 5) -> Learner:
    """It goes on to the end itself."""
    learner = fed(tiny_learner(online_lr=0.003, lr=0.05))
    for epoch in learner.consolidation(epochs):
        if epoch == 1:
            learner.save(folder)
    return learner


def test_a_learner_saved_amid_a_consolidation_goes_on_with_it(tmp_path):
    whole = saved_amid_a_consolidation(tmp_path)
    loaded = Learner.load(tmp_path, device="cpu")
    assert list(loaded.consolidation()) == [2, 3, 4]
    assert differing(tensors_of(whole), tensors_of(loaded)) == []
    assert loaded.consolidations == 1


def test_observing_instead_leaves_the_consolidation_early(tmp_path):
    saved_amid_a_consolidation(tmp_path)
    loaded, left = Learner.load(tmp_path, device="cpu"), fed(tiny_learner(online_lr=0.003, lr=0.05))
    for epoch in left.consolidation(5):
        if epoch == 1:
            break
    for learner in (loaded, left):
        learner.observe(IMAGES[16:24], LABELS[16:24])
    assert differing(tensors_of(left), tensors_of(loaded)) == []
    assert float(loaded.trainer.models[0].rate) == pytest.approx(0.003)
    assert list(loaded.consolidation(1)) == [0]


def test_a_learner_is_not_saved_among_other_files(tmp_path):
    learner, pictures = tiny_learner(), tmp_path / "pictures"
    (pictures / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match=r"pictures has other files and no learner \(cat\): name a new folder"):
        learner.save(pictures)
    assert [path.name for path in pictures.iterdir()] == ["cat"]
    file = tmp_path / "mine.py"
    file.write_text("1")
    with pytest.raises(DataError, match=r"mine\.py is a file: a learner is saved to a folder"):
        learner.save(file)
    assert file.read_text() == "1"


def test_a_learner_is_saved_over_an_older_one_and_over_what_a_crash_left_of_it(tmp_path):
    learner, folder = tiny_learner(), tmp_path / "mine"
    folder.mkdir()
    (folder / f".{storage.FILE}.7-7.tmp").write_bytes(b"half of it")
    (folder / ".DS_Store").write_bytes(b"")
    for _ in range(2):
        learner.save(folder)
        assert Learner.load(folder).classes == learner.classes
