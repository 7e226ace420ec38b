"""Short runs on digits whose figures are kept in tests/golden/, and the command that makes those files.

    python -m tests.make_golden

Make them anew only for a change that is meant to change figures, and say so in the commit. Everything is spelt out
here, network and augmentation too, so that tuning what suits digits by default leaves these figures alone.

Large steps amplify the rounding of a CPU until nothing is left to compare. So all rates here are low: another CPU then
changes a loss by some 1e-5, and another algorithm by 1e-3 or more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from puridiver import Learner
from puridiver.data import load
from puridiver.streams import Stream, TrueLabels, make_stream

FOLDER = Path(__file__).parent / "golden"
RECIPES = ("official", "paper", "puridiver")
BATCH = 16
DIGITS = {"batch_size": BATCH, "crop_padding": 1, "flip": False}


class Recording:
    """A learner on a short stream of digits, and the losses of all its steps.

    `jitter` puts relative noise on every initial weight: the rounding of another machine, made larger. The
    tolerances of the tests are chosen by it.
    """

    def __init__(self, name: str, jitter: float, memory: int, **options: Any) -> None:
        self.source = load("digits")
        self.manifest = make_stream(self.source, n_tasks=2, minor_share=0.1, noise="sym-40", seed=0)
        self.stream = Stream(self.source, self.manifest)
        slow = {"online_lr": 2e-4} if name == "puridiver" else {}  # its four steps a batch amplify rounding
        settings: dict[str, Any] = {**DIGITS, **slow, **options}
        self.learner = Learner(
            10, (8, 8, 1), memory, sampler="puridiver", trainer="puridiver", recipe=name, network="small", device="cpu",
            seed=0, **settings,
        )  # fmt: skip
        self.positions: list[int] = []
        self.online_losses: list[float] = []
        self.step_losses: list[float] = []
        _shake(self.learner, jitter)
        self._listen()

    def _listen(self) -> None:
        trainer = self.learner.trainer
        (model,) = trainer.models
        observe, step = trainer.observe, model.step

        def heard_observe(*arguments: Any) -> torch.Tensor:
            loss = observe(*arguments)
            self.online_losses.append(float(loss))
            return loss

        def heard_step(loss: torch.Tensor) -> None:
            self.step_losses.append(float(loss.detach()))
            step(loss)

        trainer.observe, model.step = heard_observe, heard_step  # type: ignore[method-assign,assignment]

    def observe(self, task: int, part: slice) -> None:
        arrivals = self.manifest.task_slice(task)
        for start in range(arrivals.start, arrivals.stop, BATCH)[part]:
            stop = min(start + BATCH, arrivals.stop)
            batch = self.stream.read(start, stop)
            self.learner.observe(batch.images, batch.labels)
            self.positions += range(start, stop)

    def accuracy(self) -> float:
        test = self.source.test
        return float((self.learner.predict(test.images) == test.labels.numpy()).mean())

    def purity(self) -> float:
        samples = self.learner.memory.samples
        true = TrueLabels.of(self.source, self.manifest).true[torch.tensor(self.positions)[samples.arrivals]]
        return float((true == samples.labels).double().mean())


def _shake(learner: Learner, jitter: float) -> None:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in learner.trainer.networks[0].parameters():
            parameter.mul_(1 + jitter * torch.randn(parameter.shape, generator=generator))


def stream_figures(name: str, jitter: float = 0.0, **options: Any) -> dict[str, Any]:
    """Twenty batches online: the loss of each, and what the memory holds after every fifth."""
    recording = Recording(name, jitter, 80, **options)
    memories = []
    for start in range(0, 20, 5):
        recording.observe(0, slice(start, start + 5))
        memories.append(sorted(recording.learner.memory.samples.arrivals.tolist()))
    return {"online_losses": recording.online_losses, "memories": memories}


def memory_figures(name: str, jitter: float = 0.0, **options: Any) -> dict[str, Any]:
    """After four batches two plain memory epochs and one with the split, then four batches (with replay, if any)."""
    settings = {"epochs": 3, "warmup_epochs": 2, "smallest_set": 0, "cutmix": 0.0, "online_cutmix": 0.0, **options}
    recording = Recording(name, jitter, 80, **settings)
    recording.observe(0, slice(0, 4))
    recording.step_losses.clear()
    sizes = []
    for _ in recording.learner.consolidation():
        sets = recording.learner.trainer.sets
        sizes.append(list(sets.sizes()) if sets else [])
    steps = list(recording.step_losses)
    recording.observe(0, slice(4, 8))
    return {"step_losses": steps, "split_sizes": sizes, "next_losses": recording.online_losses[4:]}


def run_figures(name: str, jitter: float = 0.0, **options: Any) -> dict[str, Any]:
    """Both tasks whole, gently trained so that the end depends little on rounding: accuracy and purity after each."""
    gentle = {"strong": "none", "cutmix": 0.0, "online_cutmix": 0.0, "online_lr": 0.01, "lr": 0.005}
    settings = {**gentle, "epochs": 10, "warmup_epochs": 3, "schedule": "cosine", **options}
    recording = Recording(name, jitter, 200, **settings)
    found: dict[str, Any] = {"accuracy": [], "purity": []}
    for task in range(2):
        recording.observe(task, slice(None))
        recording.learner.consolidate()
        found["accuracy"].append(recording.accuracy())
        found["purity"].append(recording.purity())
    return found


PARTS = {"stream": stream_figures, "memory": memory_figures, "run": run_figures}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def main() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    for name in RECIPES:
        figures = {part: make(name) for part, make in PARTS.items()}
        path_of(name).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
