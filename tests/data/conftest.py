"""A small file server, and small CIFAR folders in the official layout."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from puridiver.data.sets.cifar import Cifar10, Cifar100


class Served(NamedTuple):
    url: str
    folder: Path  # whose files are served
    requests: list[str]


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A file server whose folder has a `file`, and a record of its requests."""
    monkeypatch.setenv("no_proxy", "*")
    folder, requests = tmp_path_factory.mktemp("served"), list[str]()
    (folder / "file").write_bytes(np.random.default_rng(0).bytes(200_000))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_request", lambda self, *_: requests.append(self.path))
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_error", lambda self, *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield Served(f"http://127.0.0.1:{http.server_address[1]}", folder, requests)
        http.shutdown()
        thread.join()


@pytest.fixture
def small_cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with both: ten records a file, and 200 and 100 of CIFAR-100."""
    rng = np.random.default_rng(1)
    monkeypatch.setattr(Cifar10, "train_files", {f"data_batch_{number}.bin": 10 for number in range(1, 6)})
    monkeypatch.setattr(Cifar10, "test_files", {"test_batch.bin": 10})
    monkeypatch.setattr(Cifar100, "train_files", {"train.bin": 200})
    monkeypatch.setattr(Cifar100, "test_files", {"test.bin": 100})
    fine = np.arange(200) % 100
    for kind, labels in ((Cifar10, np.arange(10)[:, None]), (Cifar100, np.stack([fine % 20, fine], axis=1))):
        (tmp_path / kind.folders[0]).mkdir()
        for name, records in (kind.train_files | kind.test_files).items():
            pixels = rng.integers(0, 256, (records, 3072), dtype=np.uint8)
            content = np.concatenate([labels[:records].astype(np.uint8), pixels], axis=1)
            content.tofile(tmp_path / kind.folders[0] / name)
    return tmp_path
