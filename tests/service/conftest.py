"""Services of tiny learners: in this process, and over real HTTP."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

import uvicorn

from puridiver import Learner
from puridiver.service.app import make_app
from puridiver.service.engine import Engine
from puridiver.service.intake import Policy
from tests.learner_samples import patterns

NAMES = np.array(["cat", "dog", "owl"])
POLICY = Policy(every=48, epochs=3, checkpoint_seconds=3600)


def tiny() -> Learner:
    return Learner(
        None, (8, 8, 1), 24, sampler="puridiver", trainer="puridiver", network="small", device="cpu", batch_size=8,
        warmup_epochs=0, epochs=3,
    )  # fmt: skip


def batches(n: int, size: int = 8) -> list[tuple[np.ndarray, list[str]]]:
    """The first batches of a stream of patterns with every tenth label wrong."""
    images, numbers = patterns(160)
    numbers[::10] = (numbers[::10] + 1) % 3
    labels = NAMES[numbers].tolist()
    return [(images[i : i + size], labels[i : i + size]) for i in range(0, n * size, size)]


IMAGES, LABELS = batches(1)[0]


def send(engine: Engine, key: str | None = None) -> dict[str, Any]:
    """Let it learn from the same batch each time."""
    return engine.observe(IMAGES, LABELS, None, key)


def fill(engine: Engine, n: int = 10, first: int = 0) -> None:
    """Batches, corrections and a removal, each with a key; the policy adds consolidations."""
    for number, (images, labels) in enumerate(batches(n)):
        if number >= first:
            ids = [f"{number}-{k}" for k in range(8)]
            engine.observe(images, labels, ids, f"batch {number}")
            engine.correct([{"arrival": None, "id": ids[0], "label": "owl", "image": 0}], images[:1], f"right {number}")
            if number == 5:
                engine.forget([3], [ids[1]], "gone")


def full(*_: Any) -> None:
    """Instead of what writes: the disk is full."""
    raise OSError(28, "No space left on device")


Open = Callable[..., Engine]


@pytest.fixture
def engine_in() -> Iterator[Open]:
    """Opens engines in folders, and closes them at the end."""
    opened: list[Engine] = []

    def make(folder: Path, policy: Policy = POLICY, start: bool = True) -> Engine:
        opened.append(Engine(folder, tiny, policy, "cpu"))
        if start:
            opened[-1].start()
        return opened[-1]

    yield make
    for engine in opened:
        engine.close()


def crash(engine: Engine, into: Path) -> Path:
    """The folder of a service as a kill at this moment would leave it."""
    with engine._changed:
        while True:
            try:
                return Path(shutil.copytree(engine.folder, into, ignore=shutil.ignore_patterns(".serve.lock")))
            except shutil.Error:  # the worker has moved a file of a snapshot meanwhile
                shutil.rmtree(into)


class Served:
    """A service over real HTTP."""

    def __init__(self, engine: Engine, **options: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.engine, self.url = engine, f"http://127.0.0.1:{self.port}"
        app = make_app(engine, **options)
        self.server = uvicorn.Server(uvicorn.Config(app, port=self.port, log_level="error", access_log=False))
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """A service that has learnt a little, and doubts a label or two."""
    found = Served(Engine(tmp_path / "service", tiny, Policy(every=0, epochs=3), "cpu"))
    for number, (images, labels) in enumerate(batches(10)):
        found.engine.observe(images, labels, [f"cam/{number}-{k}.png" for k in range(8)], None)
    found.engine.consolidate(7, None)
    assert found.engine.drain(60)
    yield found
    found.stop()
