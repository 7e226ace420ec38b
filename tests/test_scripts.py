"""The scripts that decide something, on made rows; a sampler that is one; and those that measure, at a small size."""

from __future__ import annotations

import importlib.util
import io
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import Learner, bench
from puridiver.memory import SAMPLERS
from tests.grid.page.samples import full_run
from tests.learner_samples import SHAPE, TINY, patterns

SCRIPTS = Path(__file__).parent.parent / "scripts"
BEFORE = {"online_lr": 0.01, "online_steps": 4, "online_batchnorm": "train", "online_prediction": "consolidated"}
NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.partition(".")[0].replace("-", "_"), SCRIPTS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rule() -> ModuleType:
    return loaded("choose-arrival.py")


def runs(
    gains: tuple[float, ...], sampler: str = "puridiver", noises: tuple[str, ...] = NOISES, **options: Any
) -> list:
    """Validation runs of a setting, a seed for each gain over 50 %."""
    told = {"recipe": "puridiver", "default_changes": BEFORE, "evaluated_on": "validation", "epochs": 63}
    changed = {"epochs": 63, **options}
    return [
        full_run(11 + number, 0.5 + gain / 100, noise, sampler=sampler, options_changed=changed, **told)
        for noise in noises
        for number, gain in enumerate(gains)
    ]


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [((1.0, 3.0), True), ((0.0, 3.0), True), ((-1.0, 3.0), False), ((-1.0, -1.5), False), ((2.0,), False)],
)
def test_a_weight_is_chosen_that_gains_two_standard_errors_with_two_seeds_or_more(rule, gains, chosen):
    """Of five noises alike the error is that of one by the root of five: (0, 3) gains 2.2 errors, (-1, 3) 1.1."""
    rows = [*runs((0.0, 0.0)), *runs(gains, arrival_weight=0.5, ntd_views=2)]
    assert rule.choice(rule.validation_runs(rows)) == ((0.5, 2) if chosen else None)


def test_of_two_weights_the_one_that_gains_more_is_chosen(rule):
    rows = [*runs((0.0, 0.1)), *runs((2.0, 2.2), arrival_weight=0.5, ntd_views=2), *runs((3.0, 3.2), "both-losses")]
    assert rule.choice(rule.validation_runs(rows)) == (1.0, 8)


def test_a_weight_that_was_not_run_under_every_noise_is_not_chosen(rule):
    rows = [*runs((0.0, 0.0)), *runs((5.0, 5.1), arrival_weight=0.5, noises=NOISES[:4])]
    assert rule.choice(rule.validation_runs(rows)) is None


def test_other_settings_and_runs_on_the_test_set_do_not_count(rule):
    other = runs((9.0, 9.1), arrival_weight=0.5, eta=2.0)
    tested = [{**row, "evaluated_on": "test"} for row in runs((9.0, 9.1), arrival_weight=0.5)]
    found = rule.validation_runs([*runs((0.0, 0.0), ntd_views=2), *other, *tested])
    assert list(found) == [rule.TODAY_ALONE]


@pytest.fixture
def ntd_program() -> Iterator[ModuleType]:
    yield loaded("ntd_program.py")
    del SAMPLERS["ntd-program"]


def test_five_crops_are_the_corners_and_the_middle(ntd_program):
    image = torch.arange(64).view(1, 1, 8, 8)
    crops = ntd_program.five_crops(image.repeat(2, 1, 1, 1))
    assert crops.shape == (10, 1, 6, 6)
    firsts = [0, 0, 2, 2, 16, 16, 18, 18, 9, 9]  # the upper left pixel of each, crop by crop
    assert crops[:, 0, 0, 0].tolist() == firsts
    assert torch.equal(crops[-1, 0], image[0, 0, 1:7, 1:7])


def test_the_authors_ntd_notes_the_loss_of_the_mean_logits_and_freezes_batchnorm(ntd_program):
    learner = Learner(3, SHAPE, 12, sampler="ntd-program", trainer="plain", device="cpu", **TINY)
    images, labels = patterns(40)
    learner.observe(images[:16], labels[:16])
    assert learner.sampler.freezes_norm
    batch = learner.memory.samples
    found = learner.sampler.note_arrivals(batch, learner._moment(torch.tensor(1.0)))
    by_crop = [learner.trainer.outputs(part).logits for part in ntd_program.five_crops(batch.images).split(len(batch))]
    mean = torch.stack(by_crop).mean(dim=0).log_softmax(dim=1)
    expected = [-float(mean[row, label]) for row, label in enumerate(batch.labels.tolist())]
    assert found.tolist() == pytest.approx(expected, rel=1e-4)


class Remembering:
    """In place of a learner: notes what it was taught, and predicts the class of that name once trained enough."""

    def __init__(self, classes: int, image_shape: tuple[int, ...], memory: int, seed: int) -> None:
        self.taught: list[tuple[np.ndarray, np.ndarray]] = []
        self.epochs = 0
        self.made.append(self)

    def observe(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.taught.append((images, labels))

    def consolidate(self, epochs: int) -> None:
        self.epochs = epochs

    def predict(self, images: np.ndarray) -> np.ndarray:
        return np.full(len(images), 3 if self.epochs > 20 else -1)


@pytest.mark.parametrize(("mixed", "wrong"), [(True, 0.0), (False, 0.0), (False, 0.3)])
def test_what_a_memory_is_filled_with_before_the_first_consolidation(mixed, wrong, monkeypatch):
    script, made = loaded("memory-before-consolidating.py"), []
    monkeypatch.setattr(Remembering, "made", made, raising=False)
    monkeypatch.setattr(script, "Learner", Remembering)
    source = script.load("digits")
    found = script.accuracies(50, mixed, wrong, seed=0)
    share = (source.test.true_labels == 3).float().mean().item()
    assert found == pytest.approx([0, 0, share, share])  # before, and after 15, 31 and 63 epochs
    images, given = (np.concatenate(parts) for parts in zip(*made[0].taught, strict=True))
    train = zip(source.train.images.numpy(), source.train.true_labels.tolist(), strict=True)
    true = {image.tobytes(): label for image, label in train}
    came = np.array([true[image.tobytes()] for image in images])
    assert len(images) == len(source.train)  # each once
    assert (given != came).mean() == pytest.approx(wrong, abs=0.03)
    assert bool((np.diff(came // 2) >= 0).all()) != mixed


def test_the_table_of_memories_has_a_line_for_each(monkeypatch, capsys):
    script = loaded("memory-before-consolidating.py")
    for name, value in (("MEMORIES", (20,)), ("EPOCHS", (15,)), ("SEEDS", (0, 1)), ("STREAMS", (("mixed", 0.0),))):
        monkeypatch.setattr(script, name, value)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # which would stay
    script.main()
    heading, rule, line = capsys.readouterr().out.splitlines()
    assert heading == "| classes come | labels wrong | memory | a class | before | 15 epochs |"
    assert rule.count("---") == heading.count("|") - 1
    assert line.startswith("| mixed | 0% | 20 | 2 | ")
    before, after = (float(cell.split(" ± ")[0]) for cell in line.strip("| ").split(" | ")[4:])
    assert 10 < after < before - 10 < 90  # two samples a class are too few to train on


def test_the_latencies_of_a_service_are_medians_in_milliseconds(monkeypatch, capsys):
    script, slow = loaded("service-latency.py"), [0.002, 0.5, 0.004]
    assert 4 <= script.median(lambda: time.sleep(slow.pop()), 3) < 100
    monkeypatch.setattr(script, "SHAPES", ((8, 8, 1), (12, 12, 3)))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # which would stay
    script.main()
    heading, rule, *lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["| 8x8x1", "| 12x12x3"]
    for line in lines:
        assert line.count("|") == heading.count("|") == rule.count("|")
        observe, one, sixteen, epoch = (float(cell.split()[0]) for cell in line.strip("| ").split(" | ")[1:])
        assert 0 < one < observe < 60_000  # which trains, and predicts on the way
        assert min(sixteen, epoch) > 0


def test_a_worker_that_shares_a_gpu_says_what_it_sees_and_how_much_it_got_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a CPU, at the size of digits, as if it were a GPU."""
    shares = loaded("gpu-shares.py")
    monkeypatch.setitem(bench.SIZES, "cifar10", bench.SIZES["digits"])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *device: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=26))
    monkeypatch.setattr("sys.stdin", io.StringIO("go\n"))
    shares.work(0.2, "plain")
    seen, done = map(int, capsys.readouterr().out.split())
    assert seen == 26
    assert done >= 1


def test_sharing_a_gpu_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("sys.argv", ["gpu-shares.py", "2:50"])
    with pytest.raises(SystemExit, match="needs a CUDA device"):
        loaded("gpu-shares.py").main()
