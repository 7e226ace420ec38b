"""Learners that are saved and loaded, also amid a consolidation, and what damaged saves give."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
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
    for name in ("classes", "image_shape", "options", "hint", "seed", "grow", "network", "seen", "consolidations"):
        assert getattr(loaded, name) == getattr(learner, name), name
    assert (loaded.sampler.name, loaded.trainer.name, loaded.memory.capacity) == ("rm", "coteaching", 12)


def test_the_learner_of_a_run_is_loaded_by_the_run_s_folder(tmp_path):
    learner = fed(tiny_learner())
    learner.save(tmp_path / runs.LEARNER)
    assert differing(tensors_of(learner), tensors_of(Learner.load(tmp_path, device="cpu"))) == []
    with pytest.raises(DataError, match=r"the folder of a run, whose learner is one of its results: save to a folder"):
        learner.save(tmp_path)  # commands and Learner.load would have two to choose from


@pytest.mark.parametrize("sampler", ["puridiver", "crsv"])
def test_a_saved_learner_may_get_a_larger_memory(sampler, tmp_path):
    fed(tiny_learner(sampler=sampler)).save(tmp_path)
    same, larger = (Learner.load(tmp_path, device="cpu", memory=memory) for memory in (12, 20))
    assert differing(tensors_of(same), tensors_of(Learner.load(tmp_path, device="cpu"))) == []
    assert len(larger.memory) == 12
    fed(larger)
    assert len(larger.memory) == larger.capacity == 20
    larger.consolidate(epochs=1)
    assert Learner.load(larger.save(tmp_path), device="cpu").capacity == 20
    for memory in (11, 12.5):
        with pytest.raises(ValueError, match=rf"at least 20 samples.* but got {memory}"):
            Learner.load(tmp_path, device="cpu", memory=memory)


def test_a_growing_learner_goes_on_growing_after_a_load(tmp_path):
    early = np.flatnonzero(LABELS != 2)[:8]
    learner = tiny_learner(None)
    learner.observe(IMAGES[early], LABELS[early])
    loaded = Learner.load(learner.save(tmp_path), device="cpu")
    assert differing(tensors_of(fed(learner)), tensors_of(fed(loaded))) == []
    assert learner.classes == loaded.classes
    assert 2 in loaded.classes


def index(folder):
    return folder / "state.json"


def tensor_file(folder):
    return next(folder.glob("*.safetensors"))


def rewrite_index(folder, changes: dict[str, Any]) -> None:
    """Put other values into the index; None takes a value out."""
    content = {**json.loads(index(folder).read_text()), **changes}
    index(folder).write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


DAMAGES = {
    "no folder": lambda folder: [path.unlink() for path in folder.iterdir()],
    "no tensors": lambda folder: tensor_file(folder).unlink(),
    "cut tensors": lambda folder: tensor_file(folder).write_bytes(tensor_file(folder).read_bytes()[:-7]),
    "flipped byte": lambda folder: tensor_file(folder).write_bytes(b"\0" + tensor_file(folder).read_bytes()[1:]),
    "cut index": lambda folder: index(folder).write_text(index(folder).read_text()[:50]),
    "index of a list": lambda folder: index(folder).write_text("[]"),
    "other format": lambda folder: rewrite_index(folder, {"format": 99}),
    "no settings": lambda folder: rewrite_index(folder, {"settings": None}),
    "other settings": lambda folder: rewrite_index(folder, {"settings": {"classes": 3}}),
    "binary index": lambda folder: index(folder).write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_save_is_a_data_error(damage, tmp_path):
    fed(tiny_learner()).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(DataError, match=str(tmp_path)):
        Learner.load(tmp_path, device="cpu")


def rewritten(folder: Path, settings: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Save what no learner would save, with checksums that are right."""
    before = storage.load(folder)
    storage.save(folder, {**before[0], **settings}, {**before[1], **tensors})


ODD_TENSORS: dict[str, Any] = {
    "memory.labels": [torch.zeros(3, dtype=torch.int64), torch.full((12,), 3), torch.full((12,), -1), torch.zeros(12)],
    "memory.images": [torch.zeros(12, 1, 8, 9, dtype=torch.uint8), torch.zeros(12, 1, 8, 8)],
    "memory.arrivals": [torch.arange(12) + 1000],
    "memory.checked": [torch.zeros(12, dtype=torch.int64), torch.zeros(11, dtype=torch.bool)],
    "trainer.network0.head.linear.weight": [torch.zeros(3, 64, dtype=torch.float64), torch.zeros(2, 2)],
    "generator.trainer": [torch.zeros(3, dtype=torch.uint8)],
    "predictor.learnt_online": [torch.zeros(2, dtype=torch.bool)],
}
ODD_SETTINGS: dict[str, Any] = {
    "classes": [3, None, ["a", 3, None]], "image_shape": [[8, 8], "8x8", [8.5, 8, 1]], "memory": ["12", 3, -1],
    "sampler": [7, "gone"], "options": [[], {"no such option": 1}, {"lr": "high"}], "seen": ["many", None],
    "seen_of": [3], "consolidation": [[], {"epochs": 3}], "hint": ["sym", {"kind": "odd"}], "ids": [{}, [3]],
    "plugins": [[]], "precision": [3],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ODD_TENSORS.items() for value in values])
def test_tensors_that_do_not_fit_are_named(name: str, value: torch.Tensor, tmp_path: Path) -> None:
    """The checksums are right and the content is not: what is wrong is told at once, and not at the next batch."""
    fed(tiny_learner()).save(tmp_path)
    rewritten(tmp_path, {}, {name: value})
    with pytest.raises(DataError, match=str(tmp_path)) as error:
        Learner.load(tmp_path, device="cpu")
    if name.startswith("memory"):
        assert name.partition(".")[0] in str(error.value)


@pytest.mark.parametrize(("name", "value"), [(n, value) for n, values in ODD_SETTINGS.items() for value in values])
def test_settings_that_do_not_fit_are_a_data_error(name: str, value: Any, tmp_path: Path) -> None:
    fed(tiny_learner()).save(tmp_path)
    rewritten(tmp_path, {name: value}, {})
    with pytest.raises(DataError, match=str(tmp_path)):
        Learner.load(tmp_path, device="cpu")


def test_a_file_of_anything_but_tensors_is_a_data_error(tmp_path: Path) -> None:
    fed(tiny_learner()).save(tmp_path)
    garbage = b"\x10\0\0\0\0\0\0\0 not a header ...."
    tensor_file(tmp_path).write_bytes(garbage)
    rewrite_index(tmp_path, {"sha256": hashlib.sha256(garbage).hexdigest()})
    with pytest.raises(DataError, match="does not hold tensors"):
        Learner.load(tmp_path, device="cpu")


def test_two_consolidations_at_a_time_are_refused():
    learner = fed(tiny_learner())
    first = learner.consolidation(5)
    next(first)
    with pytest.raises(ValueError, match="is under way"):
        learner.consolidate(1)
    assert list(first) == [1, 2, 3, 4]
    learner.consolidate(1)
    assert learner.consolidations == 2


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


def test_it_goes_on_for_the_epochs_it_was_asked_for_alone(tmp_path):
    saved_amid_a_consolidation(tmp_path)
    loaded = Learner.load(tmp_path, device="cpu")
    with pytest.raises(ValueError, match=r"epochs should be 5, or left out, .* but got 4"):
        loaded.consolidate(4)
    assert list(loaded.consolidation(5)) == [2, 3, 4]


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
    (folder / "state-0123456789abcdef.safetensors").write_bytes(b"half of it")
    (folder / ".DS_Store").write_bytes(b"")
    for _ in range(2):
        learner.save(folder)
        assert Learner.load(folder).classes == learner.classes
