"""Fetch one file over HTTP: resumed, retried, verified, and put in place only when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from puridiver.errors import DownloadError
from puridiver.files import file_lock

Progress = Callable[[int, int | None], None]

SCHEMES = ("http", "https", "file")
CHUNK_BYTES = 1 << 16
USER_AGENT = "puridiver"
# Answers that another try may change; every other 4xx is final.
TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


class _TryAgain(Exception):
    """This attempt failed in a way that another one may mend."""


@dataclass(frozen=True)
class Checksum:
    """The digest that a file should have."""

    algorithm: str
    digest: str

    @classmethod
    def of(cls, sha256: str | None, md5: str | None) -> Checksum:
        """The stronger of the two that were given."""
        if sha256:
            return cls("sha256", sha256.lower())
        if md5:
            return cls("md5", md5.lower())
        raise ValueError("fetch needs the file's sha256 or md5, but got neither")

    def of_file(self, path: Path) -> str:
        digest = hashlib.new(self.algorithm, usedforsecurity=False)
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        return digest.hexdigest()

    def matches(self, path: Path) -> bool:
        return path.is_file() and self.of_file(path) == self.digest


def fetch(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    retries: int = 3,
    backoff: float = 1.0,
) -> Path:
    """Download `url` to `target` unless a file with the right checksum is there already.

    Bytes gather in `target` + ".part", which a later call goes on from; `target` itself only appears
    whole and verified.

    Parameters
    ----------
    progress
        Called with the bytes that are here and the bytes expected (None where the server does not say).
    timeout
        Seconds without a byte after which the transfer counts as stalled.
    retries
        Further attempts after one that brought nothing new; one that brought bytes resets the count.
    backoff
        Seconds before the first retry, doubled for each one after it.
    """
    checksum = Checksum.of(sha256, md5)
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise ValueError(f"url should start with one of {', '.join(SCHEMES)}, but got {url!r}")
    if retries < 0:
        raise ValueError(f"retries should be 0 or more, but got {retries}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(target.with_name(f".{target.name}.lock")):
        if not checksum.matches(target):
            part = target.with_name(target.name + ".part")
            if not checksum.matches(part):  # a part may be whole: the last call ended just before its rename
                _gather(_Transfer(url, target, part, timeout, progress), retries, backoff)
            _require_checksum(part, checksum, url)
            os.replace(part, target)
    return target


@dataclass(frozen=True)
class _Transfer:
    url: str
    target: Path
    part: Path
    timeout: float
    progress: Progress | None

    @property
    def gathered(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0


def _gather(transfer: _Transfer, retries: int, backoff: float) -> None:
    """Attempt the transfer until the part is whole or `retries` attempts in a row brought nothing new."""
    most, fruitless = transfer.gathered, 0
    while True:
        try:
            return _attempt(transfer)
        except _TryAgain as problem:
            # Only a new high mark is progress: a server that starts anew and breaks off must not loop us.
            if transfer.gathered > most:
                most, fruitless = transfer.gathered, 0
            else:
                fruitless += 1
            if fruitless > retries:
                raise DownloadError(_advice(transfer, str(problem))) from problem
            time.sleep(backoff * 2 ** max(fruitless - 1, 0))


def _attempt(transfer: _Transfer) -> None:
    """Append a partial answer to the part, or start the part anew where the server sends everything."""
    with _open(transfer) as response:
        start, total = _extent(response, transfer.gathered)
        received = start
        with transfer.part.open("ab" if start else "wb") as file:
            for chunk in _chunks(response):
                file.write(chunk)
                received += len(chunk)
                if transfer.progress:
                    transfer.progress(received, total)
    if total is not None and received != total:
        raise _TryAgain(f"the transfer broke off after {received:,} of {total:,} bytes")


def _open(transfer: _Transfer) -> http.client.HTTPResponse:
    request = urllib.request.Request(transfer.url, headers={"User-Agent": USER_AGENT})
    if transfer.gathered:
        request.add_header("Range", f"bytes={transfer.gathered}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=transfer.timeout)
    except urllib.error.HTTPError as error:
        error.close()
        raise _failure_of_status(error, transfer) from error
    except (OSError, http.client.HTTPException) as error:
        raise _TryAgain(_reason(error)) from error
    return response


def _failure_of_status(error: urllib.error.HTTPError, transfer: _Transfer) -> Exception:
    answer = f"the server answered {error.code} {error.reason}"
    if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and transfer.gathered:
        transfer.part.unlink()
        return _TryAgain(answer)
    if error.code in TRANSIENT_STATUS:
        return _TryAgain(answer)
    return DownloadError(_advice(transfer, answer))


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it arrives; only errors of reading are retried: a full disk is reported as such."""
    while True:
        try:
            chunk = response.read1(CHUNK_BYTES)  # read() would lose what came before a stall
        except (OSError, http.client.HTTPException) as error:
            raise _TryAgain(_reason(error)) from error
        if not chunk:
            return
        yield chunk


def _extent(response: http.client.HTTPResponse, gathered: int) -> tuple[int, int | None]:
    """(first byte, total bytes) of the answer."""
    length = response.headers.get("Content-Length")
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0, int(length) if length and length.isdigit() else None
    answered = response.headers.get("Content-Range", "")
    span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answered)
    if span is None or int(span[1]) != gathered:
        raise _TryAgain(f"the server was asked for bytes from {gathered} and answered {answered!r}")
    return gathered, None if span[2] == "*" else int(span[2])


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the transfer stalled"
    reason = getattr(error, "reason", None) or error
    return str(reason) or type(reason).__name__


def _require_checksum(part: Path, checksum: Checksum, url: str) -> None:
    actual = checksum.of_file(part)
    if actual == checksum.digest:
        return
    part.unlink()
    raise DownloadError(
        f"{url} is not the expected file: "
        f"its {checksum.algorithm} should be {checksum.digest}, but is {actual}. "
        "The download was deleted; nothing else was changed. Try again, or another --url."
    )


def _advice(transfer: _Transfer, problem: str) -> str:
    kept = f" apart from {transfer.gathered:,} bytes kept in {transfer.part}" if transfer.gathered else ""
    return (
        f"could not fetch {transfer.url}: {problem}. Nothing was changed{kept}. "
        f"Run the same command again to go on, or place the file by hand at {transfer.target} "
        "and run it again."
    )
