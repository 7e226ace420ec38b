"""A scripted file server, and small CIFAR folders in the official layout."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

PIXELS = 3072


class FileServer:
    """Serves `body`; each request takes the next behaviour of the script, then "good"."""

    def __init__(self) -> None:
        self.body = np.random.default_rng(0).bytes(200_000)
        self.script: list[str] = []
        self.ranges: list[str | None] = []
        self.sent: list[int] = []
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("OwnHandler", (Handler,), {"files": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/file.tar.gz"

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers as the script of its `FileServer` says: a method for each behaviour."""

    files: FileServer  # set on a class of its own for each server

    def do_GET(self) -> None:
        behaviour = self.files.script.pop(0) if self.files.script else "good"
        self.files.ranges.append(self.headers.get("Range"))
        self.number = len(self.files.sent)
        self.files.sent.append(0)
        self.start = self.asked_start()
        getattr(self, behaviour)()

    def log_message(self, *args: object) -> None:
        pass

    def asked_start(self) -> int:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        return int(asked[1]) if asked else 0

    def headers_for(self, start: int) -> None:
        size = len(self.files.body)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(size - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()

    def send(self, content: bytes) -> None:
        # Counted before it is sent: the client may be done before this thread goes on.
        self.files.sent[self.number] += len(content)
        self.wfile.write(content)
        self.wfile.flush()

    def good(self) -> None:
        if self.start >= len(self.files.body):
            return self.send_error(416)
        self.headers_for(self.start)
        return self.send(self.files.body[self.start :])

    def half(self) -> None:
        """The headers of all, then half of it."""
        self.headers_for(self.start)
        rest = self.files.body[self.start :]
        self.send(rest[: len(rest) // 2])

    def stall(self) -> None:
        self.half()
        self.files.closing.wait(10)

    def reset(self) -> None:
        self.half()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        socket.close(self.connection.detach())  # without the polite shutdown of the server class

    def ignores_range(self) -> None:
        self.headers_for(0)
        self.send(self.files.body)

    def other_range(self) -> None:
        """A later part than was asked for."""
        self.headers_for(self.start + 1)
        self.send(self.files.body[self.start + 1 :])

    def restarts_and_breaks_off(self) -> None:
        self.start = 0
        self.half()

    def corrupt(self) -> None:
        self.headers_for(0)
        self.send(b"\0" * len(self.files.body))

    def status_500(self) -> None:
        self.send_error(500)

    def status_404(self) -> None:
        self.send_error(404)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "*")
    file_server = FileServer()
    yield file_server
    file_server.close()


def write_records(path: Path, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Write records with random pixels; `labels` is (N, label bytes). Returns the pixel bytes, (N, 3072)."""
    pixels = rng.integers(0, 256, (len(labels), PIXELS), dtype=np.uint8)
    np.concatenate([labels.astype(np.uint8), pixels], axis=1).tofile(path)
    return pixels


@pytest.fixture
def small_cifar10(tmp_path: Path) -> Path:
    """A root with 10 records a file: one of each class."""
    folder, rng = tmp_path / "cifar-10-batches-bin", np.random.default_rng(1)
    folder.mkdir()
    for name in [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]:
        write_records(folder / f"{name}.bin", np.arange(10)[:, None], rng)
    return tmp_path


@pytest.fixture
def small_cifar100(tmp_path: Path) -> Path:
    """A root with two train records and one test record of each fine class; the coarse class is fine % 20."""
    folder, rng = tmp_path / "cifar-100-binary", np.random.default_rng(2)
    folder.mkdir()
    fine = np.arange(100)
    labels = np.stack([fine % 20, fine], axis=1)
    write_records(folder / "train.bin", np.concatenate([labels, labels]), rng)
    write_records(folder / "test.bin", labels, rng)
    return tmp_path


@pytest.fixture
def record_writer() -> Callable[[Path, np.ndarray, np.random.Generator], np.ndarray]:
    return write_records
