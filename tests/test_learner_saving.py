"""Learners that are saved and loaded, also amid a consolidation, and what damaged saves give."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from puridiver import Learner, NoiseHint
from puridiver.errors import DataError
from puridiver.learner import storage
from puridiver.runs import folder as runs
from tests.learner_samples import differing, tensors_of, tiny_learner
from tests.test_learner import IMAGES, LABELS, NAMES, fed


def test_a_save_replaces_an_older_one(tmp_path):
    learner = fed(tiny_learner())
    learner.save(tmp_path)
    learner.consolidate()
    learner.save(tmp_path)
    assert differing(tensors_of(learner), tensors_of(Learner.load(tmp_path, device="cpu"))) == []
    assert len(list(tmp_path.iterdir())) == 2


def test_load_restores_every_setting(tmp_path):
    hint = NoiseHint("asym", 0.3)
    learner = tiny_learner(list(NAMES), trainer="coteaching", sampler="rm", hint=hint, seed=7, grow=True, eta=0.5)
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


@pytest.mark.parametrize("sampler", ["puridiver", "rsv", "gbs", "crsv", "rm", "ntd"])
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
        with pytest.raises(ValueError, match=rf"at least the 20 samples that .* but got {memory}"):
            Learner.load(tmp_path, device="cpu", memory=memory)


def test_a_run_that_kept_no_learner_holds_none(tmp_path):
    fed(tiny_learner()).save(tmp_path / runs.CHECKPOINT)
    with pytest.raises(DataError, match=r"holds no saved state: there is no state\.json"):
        Learner.load(tmp_path)


@pytest.mark.parametrize("classes", [None, 3])
def test_a_learner_that_has_seen_nothing_can_be_saved(classes, tmp_path):
    loaded = Learner.load(tiny_learner(classes).save(tmp_path), device="cpu")
    fresh = tiny_learner(classes)
    assert differing(tensors_of(fed(loaded)), tensors_of(fed(fresh))) == []


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


def test_no_pickle_is_written(tmp_path):
    fed(tiny_learner()).save(tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


def test_a_consolidation_left_early_counts():
    learner = fed(tiny_learner())
    epochs = learner.consolidation(5)
    next(epochs)
    epochs.close()
    assert learner.consolidations == 1


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
    assert float(loaded.trainer.trainees[0].rate) == pytest.approx(0.003)
    assert list(loaded.consolidation(1)) == [0]


def test_a_refused_batch_leaves_a_loaded_consolidation_as_it_was(tmp_path):
    saved_amid_a_consolidation(tmp_path)
    loaded = Learner.load(tmp_path, device="cpu")
    with pytest.raises(ValueError, match="among the classes"):
        loaded.observe(IMAGES[:1], [7])
    assert list(loaded.consolidation()) == [2, 3, 4]


def test_another_architecture_in_the_folder_is_named(tmp_path):
    fed(tiny_learner()).save(tmp_path)
    settings, tensors = storage.load(tmp_path)
    storage.save(tmp_path, {**settings, "network": "resnet32"}, tensors)
    with pytest.raises(DataError, match="whole learner"):
        Learner.load(tmp_path)


def test_what_an_older_version_saved_without_a_checksum_of_its_settings_is_loaded(tmp_path):
    learner = fed(tiny_learner())
    learner.save(tmp_path)
    settings = json.loads(index(tmp_path).read_text())["settings"]
    del settings["consolidation"]
    rewrite_index(tmp_path, {"settings": settings, "settings_sha256": None})
    assert differing(tensors_of(learner), tensors_of(Learner.load(tmp_path, device="cpu"))) == []


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


def test_a_save_deletes_nobody_s_files(tmp_path):
    learner = tiny_learner()
    mine = learner.save(tmp_path / "learner") / "state-mine.safetensors"
    mine.write_bytes(b"1")
    fed(learner).save(tmp_path / "learner")
    assert mine.read_bytes() == b"1"
    assert len(list(mine.parent.glob("state-*.safetensors"))) == 2  # and of its own the newest


def test_a_learner_is_saved_over_an_older_one_and_over_what_a_crash_left_of_it(tmp_path):
    learner, folder = tiny_learner(), tmp_path / "mine"
    folder.mkdir()
    (folder / "state-0123456789abcdef.safetensors").write_bytes(b"half of it")
    (folder / ".DS_Store").write_bytes(b"")
    for _ in range(2):
        learner.save(folder)
        assert Learner.load(folder).classes == learner.classes


def test_a_learner_made_from_numbers_of_numpy_can_be_saved(tmp_path):
    settings: dict[str, Any] = {"seed": np.int64(3), "grow": np.bool_(True), "graphs": np.bool_(True)}
    learner = fed(tiny_learner(memory=np.int64(12), hint=NoiseHint("sym", np.float32(0.5)), **settings))
    for _ in learner.consolidation(np.int64(3)):
        learner.save(tmp_path)
    loaded = Learner.load(tmp_path, device="cpu", memory=np.int64(50), grow=np.bool_(False))
    assert (loaded.capacity, loaded.grow, loaded.hint) == (50, False, NoiseHint("sym", 0.5))
    loaded.save(tmp_path)
    with pytest.raises(ValueError, match="memory should be a whole number"):
        Learner.load(tmp_path, device="cpu", memory=True)


@pytest.mark.parametrize("hint", [0.4, "sym", ("sym", 0.4), {"kind": "sym", "rate": 0.4}])
def test_what_is_no_hint_is_refused(hint):
    with pytest.raises(
        ValueError, match=r"hint should be a NoiseHint, such as NoiseHint\('sym', 0.4\), or None, but got"
    ):
        tiny_learner(hint=hint)


@pytest.mark.parametrize("rate", ["0.4", None, 1.0, -0.1, float("nan")])
def test_the_rate_of_a_hint_is_a_share(rate):
    with pytest.raises(ValueError, match=r"a rate in \[0, 1\), but got"):
        NoiseHint("sym", rate)
