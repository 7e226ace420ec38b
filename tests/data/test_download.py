"""Fetching over HTTP: a file appears whole and verified, or not at all; archives unpack safely."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from puridiver.data import default_root, find, load, verify
from puridiver.data.base import Archive
from puridiver.data.sets.cifar import Cifar10
from puridiver.data.sources import fetch_source
from puridiver.errors import DataError, DownloadError

FOLDER = Cifar10.folders[0]


@pytest.fixture
def root(small_cifar: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty root, and a server of the archive of a small CIFAR-10."""
    monkeypatch.setattr(Cifar10, "fingerprint", load("cifar10", small_cifar).fingerprint)
    with tarfile.open(server.folder / "c.tar.gz", "w:gz") as tar:
        tar.add(small_cifar / FOLDER, FOLDER)
    md5 = hashlib.md5((server.folder / "c.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setattr(Cifar10, "archive", Archive(server.url + "/c.tar.gz", md5, 0))
    return small_cifar / "root"


def test_a_data_set_is_fetched_once_and_mended(root: Path, server: Any) -> None:
    seen: list[tuple[int, int | None]] = []
    assert fetch_source("cifar10", root, progress=lambda done, total: seen.append((done, total))) == root
    size = (server.folder / "c.tar.gz").stat().st_size
    assert seen[-1] == (size, size)
    assert verify("cifar10", root) == []
    fetch_source("cifar10", root)
    (root / FOLDER / "test_batch.bin").write_bytes(b"damaged")
    fetch_source("cifar10", root)
    assert verify("cifar10", root) == []
    assert server.requests == ["/c.tar.gz"]  # the archive is still there
    (root / "c.tar.gz").write_bytes(b"damaged")
    (root / FOLDER / "test_batch.bin").unlink()
    fetch_source("cifar10", root)
    assert len(server.requests) == 2
    assert sorted(path.name for path in root.iterdir()) == ["c.tar.gz", FOLDER]


def test_another_place_may_serve_the_archive(root: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cifar10, "archive", Cifar10.archive._replace(url="http://127.0.0.1:9/c.tar.gz"))
    fetch_source("cifar10", root, url=server.url + "/c.tar.gz")
    assert find("cifar10").find_folder(root) == root / FOLDER
    with pytest.raises(ValueError, match="digits has no archive to fetch: it is here already"):
        fetch_source("digits")


def test_a_failed_transfer_changes_nothing_and_says_what_to_do(root: Path, server: Any) -> None:
    for url, message in ((server.url + "/missing", "404"), (server.url + "/file", "hash"), ("http://127.0.0.1:9", "")):
        with pytest.raises(DownloadError, match=rf"could not fetch http.*{message}.*by hand at .*c\.tar\.gz"):
            fetch_source("cifar10", root, url=url)
    with pytest.raises(ValueError, match="http or https"):
        fetch_source("cifar10", root, url="file:///etc/passwd")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["../evil", "link", None])
def test_hostile_and_damaged_archives_are_refused(name: str | None, root: Path, monkeypatch: Any) -> None:
    root.mkdir()
    with tarfile.open(root / "c.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo(name or "file")
        if name == "link":
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info, io.BytesIO())
    if name is None:
        (root / "c.tar.gz").write_bytes(b"damaged")
    md5 = hashlib.md5((root / "c.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setattr(Cifar10, "archive", Cifar10.archive._replace(md5=md5))
    with pytest.raises(DataError, match=r"c\.tar\.gz cannot be unpacked"):
        fetch_source("cifar10", root)
    assert [path.name for path in root.iterdir()] == ["c.tar.gz"]


def test_the_root_is_the_variables_else_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PURIDIVER_DATA", "~/images")
    assert default_root() == tmp_path / "images"
    monkeypatch.delenv("PURIDIVER_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_root().name == "puridiver"
