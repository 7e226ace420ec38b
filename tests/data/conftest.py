"""A small file server, and small CIFAR folders in the official layout."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from puridiver.data.sets.cifar import Cifar10, Cifar100


class FileServer:
    """Serves `body` at every path but /missing; counts the requests."""

    def __init__(self) -> None:
        self.body, self.requests = np.random.default_rng(0).bytes(200_000), 0
        files = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                files.requests += 1
                if self.path == "/missing":
                    return self.send_error(404)
                self.send_response(200)
                self.send_header("Content-Length", str(len(files.body)))
                self.end_headers()
                self.wfile.write(files.body[: len(files.body) // 2] if self.path == "/half" else files.body)
                return None

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "*")
    file_server = FileServer()
    yield file_server
    file_server.close()


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
        (tmp_path / kind.archive.folder).mkdir()
        for name, records in (kind.train_files | kind.test_files).items():
            pixels = rng.integers(0, 256, (records, 3072), dtype=np.uint8)
            content = np.concatenate([labels[:records].astype(np.uint8), pixels], axis=1)
            content.tofile(tmp_path / kind.archive.folder / name)
    return tmp_path
