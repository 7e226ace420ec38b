"""A small client of the service. It needs the standard library and NumPy, and retries without harm."""

import base64
import http.client
import io
import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

from puridiver.errors import PuridiverError

RETRIED = (429, 503)  # answers after which a request is sent again


class ServiceError(PuridiverError):
    """The service refused a request; `status` is HTTP's."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status, self.detail = status, detail


class Client:
    """Talks to a service, one request at a time. Make one for each thread; `with` closes its connection.

    A request that meets a full queue or a service that restarts is sent again, for `patience` seconds. Each change has
    an idempotency key, so that it happens once however often it is sent.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000", token="secret")  # doctest: +SKIP
    >>> client.observe(["cat.png", "dog.png"], ["cat", "dog"])  # doctest: +SKIP
    >>> client.predict(["who.png"])["labels"]  # doctest: +SKIP
    """

    def __init__(self, url: str, token: str | None = None, patience: float = 60.0, timeout: float = 90.0) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url should be like http://127.0.0.1:8000, but got {url!r}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection, self.patience = kind(parts.hostname, parts.port, timeout=timeout), patience
        self._prefix = parts.path.rstrip("/")  # of a proxy
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def observe(
        self, images: Any, labels: Any, ids: Sequence[Any] | None = None, wait: float = 0.0, key: str | None = None
    ) -> dict[str, Any]:
        """Let it learn from images: paths, files' bytes, or one array (N, H, W, C), or (N, d) of vectors.

        Returns `first`, `count` and `seq`.
        """
        body = {**_images(images), "labels": _plain(labels), "ids": None if ids is None else _plain(ids)}
        return self._change(f"/observe?wait={wait}", body, key)

    def predict(self, images: Any, probabilities: bool = False) -> dict[str, Any]:
        """The `labels` of images and `p`, their probabilities."""
        return self._ask("POST", f"/predict?probabilities={str(probabilities).lower()}", _images(images))

    def review(self, limit: int = 20) -> list[dict[str, Any]]:
        """Memory samples whose labels look wrong, the most doubtful first."""
        return self._ask("GET", f"/review?limit={limit}")

    def correct(
        self, labels: Mapping[Any, Any], by_id: bool = False, images: Any = None, wait: float = 0.0
    ) -> dict[str, Any]:
        """Give samples their right labels, by arrival or by your own ids; None undoes it.

        `images`, one for each label, are for samples that the memory may have dropped: as for `observe`.
        """
        if isinstance(images, np.ndarray):
            images = [_npy(image) for image in images]
        name, files = "id" if by_id else "arrival", [None] * len(labels)
        if images is not None:
            files = _images(images)["images"]
        rows = zip(labels.items(), files, strict=True)
        body = {"corrections": [{name: sample, "label": label, "image": image} for (sample, label), image in rows]}
        return self._change(f"/corrections?wait={wait}", body)

    def forget(self, arrivals: Sequence[int] = (), ids: Sequence[Any] = (), wait: float = 0.0) -> dict[str, Any]:
        """Let the memory forget samples."""
        return self._change(f"/forget?wait={wait}", {"arrivals": list(arrivals), "ids": list(ids)})

    def consolidate(self, epochs: int | None = None) -> dict[str, Any]:
        """Let it train on its memory."""
        return self._change("/consolidate", {"epochs": epochs})

    def status(self) -> dict[str, Any]:
        """Its figures."""
        return self._ask("GET", "/status")

    def snapshots(self) -> list[dict[str, Any]]:
        """States to roll back to, newest first."""
        return self._ask("GET", "/snapshots")

    def restore(self, snapshot: str) -> dict[str, Any]:
        """Roll back to a snapshot."""
        return self._change(f"/snapshots/{snapshot}/restore", None)

    def _change(self, path: str, body: Any, key: str | None = None) -> Any:
        return self._ask("POST", path, body, {"Idempotency-Key": key or uuid.uuid4().hex})

    def _ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        content = None if body is None else json.dumps(body, default=_number).encode()
        sent = {**self._headers, "Content-Type": "application/json", **(headers or {})}
        end = time.monotonic() + self.patience
        while True:
            pause = 0.2
            try:
                self._connection.request(method, self._prefix + path, content, sent)
                answer = self._connection.getresponse()
                found = answer.read()
                if answer.status < 300:
                    return json.loads(found)
                problem: Exception = ServiceError(answer.status, _detail(found))
                if answer.status not in RETRIED:
                    raise problem
                pause = float(answer.headers.get("Retry-After", 1))
            except (OSError, http.client.HTTPException) as error:  # not there, or gone amid the answer
                self._connection.close()
                problem = error
            if time.monotonic() + pause > end:
                raise problem
            time.sleep(pause)


def _images(images: Any) -> dict[str, Any]:
    if isinstance(images, np.ndarray):
        return {"npy": base64.b64encode(_npy(images)).decode()}
    if isinstance(images, str | bytes | os.PathLike) or not isinstance(images, Iterable):
        raise ValueError(f"images should be a list of paths or bytes, or an array, but got a {type(images).__name__}")
    contents = [each if isinstance(each, bytes) else Path(each).read_bytes() for each in images]
    return {"images": [base64.b64encode(each).decode() for each in contents]}


def _npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    return content.getvalue()


def _plain(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _number(value: Any) -> Any:
    """A number of NumPy or torch as Python's own."""
    if hasattr(value, "item"):
        return value.item()
    raise ValueError(f"labels and ids should be strings or numbers, but got a {type(value).__name__}")


def _detail(content: bytes) -> str:
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace")
