"""What `puridiver methods --check` finds: state that a save loses or cannot hold, and epochs that train nothing."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import Tensor

import puridiver
from puridiver import plugins
from puridiver.cli import main
from puridiver.method_check import NOT_SAVED, _later_stream, _stream, find_faults, idle_networks

DOCUMENT = Path(__file__).parents[1] / "docs" / "METHODS.md"
SHAPE = (12, 12, 3)

pytestmark = pytest.mark.usefixtures("forgotten_plugins")


class Rarest(puridiver.Sampler):
    """Keeps the classes that came least often, by counts that no save has."""

    name = "rarest"

    def choose(self, pool, n_old, capacity, moment):
        counts = self.__dict__.setdefault("counts", Counter())
        counts.update(pool.labels[n_old:].tolist())
        came = torch.tensor([counts[label] for label in pool.labels.tolist()])
        return came.sort(stable=True).indices[:capacity].sort().values


class RarestByNotes(puridiver.Sampler):
    """The same by what a save has."""

    name = "rarest-by-notes"

    def choose(self, pool, n_old, capacity, moment):
        came = torch.tensor([moment.seen_of[label] for label in pool.labels.tolist()])
        return came.sort(stable=True).indices[:capacity].sort().values


class LateShares(puridiver.Trainer):
    """Sets up what it saves when it first trains on the memory."""

    name = "late-shares"

    def memory_epoch(self, memory, epoch):
        self.shares = self.one_hot(memory.labels).mean(dim=0)
        self.plain_epoch(memory)

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "shares": self.shares}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        super().load_state(tensors)
        self.shares = tensors["shares"]


class Idle(puridiver.Trainer):
    """Trains on nothing."""

    name = "idle"

    def memory_epoch(self, memory, epoch):
        pass


class OneOfTwo(puridiver.Trainer):
    """Trains the first of its networks."""

    name = "one-of-two"
    n_networks = 2

    def memory_epoch(self, memory, epoch):
        self.plain_epoch(memory)


def test_counts_that_a_sampler_keeps_in_itself_are_missed() -> None:
    assert find_faults("sampler", plugins.as_name(Rarest)) == [NOT_SAVED]


def test_counts_that_a_save_has_are_not() -> None:
    assert find_faults("sampler", plugins.as_name(RarestByNotes)) == []


def test_a_learner_goes_on_with_classes_in_another_order_by_their_counts() -> None:
    first: Counter[int] = Counter()
    later: Counter[int] = Counter()
    for _, labels in _stream(SHAPE):
        first.update(labels)
    for _, labels in _later_stream(SHAPE, len(first)):
        later.update(labels)
    assert set(later) == set(first)
    assert first.most_common()[0][0] != later.most_common()[0][0]
    assert first.most_common()[-1][0] == later.most_common()[0][0]


def test_what_cannot_be_saved_before_the_first_training_is_told_with_what_to_do() -> None:
    (fault,) = find_faults("trainer", plugins.as_name(LateShares))
    assert "cannot be saved and loaded before its first training on the memory" in fault
    assert "has no attribute 'shares'" in fault
    assert "from __init__(self, context) on" in fault


def test_the_documents_state_behaves() -> None:
    part = DOCUMENT.read_text().partition("What a trainer keeps in `self` is not saved either.")[2]
    methods = part.partition("```python\n")[2].partition("```")[0]
    code = f"class Kept(puridiver.Trainer):\n    name = 'kept'\n{textwrap.indent(methods, '    ')}"
    epoch = (
        "    def memory_epoch(self, memory, epoch):\n        self.mean_loss += 1\n        self.plain_epoch(memory)\n"
    )
    names = {"__name__": "of_the_document", "puridiver": puridiver, "torch": torch}
    exec(compile(code + epoch, "METHODS.md", "exec"), names)
    assert find_faults("trainer", plugins.as_name(names["Kept"])) == []


@pytest.mark.parametrize(("trainer", "idle"), [(Idle, [0]), (OneOfTwo, [1]), ("plain", []), ("coteaching", [])])
def test_networks_that_no_epoch_trains_are_named(trainer, idle) -> None:
    assert idle_networks(plugins.as_name(trainer)) == idle


def test_epochs_that_train_nothing_are_a_note_and_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "import puridiver\n\n@puridiver.register\nclass Idle(puridiver.Trainer):\n    'Trains on nothing.'\n"
        "    name = 'idle'\n    def memory_epoch(self, memory, epoch):\n        pass\n"
    )
    assert main(["methods", "--plugin", str(tmp_path / "mine.py"), "--check"]) == 0
    fine, note, _ = capsys.readouterr().out.splitlines()
    assert fine == "trainer idle: no fault found"
    assert note.startswith("trainer idle: note: 2 epochs on the memory left the weights of self.trainees[0] as they")
