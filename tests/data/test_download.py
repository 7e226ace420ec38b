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
from puridiver.data.download import fetch, fetch_source, unpack
from puridiver.data.sets.cifar import Cifar10
from puridiver.errors import DataError, DownloadError

FOLDER = Cifar10.archive.folder


def test_a_good_transfer_gives_the_file_once_and_nothing_else(server: Any, tmp_path: Path) -> None:
    target, seen = tmp_path / "file.tar.gz", []
    content = (server.folder / "file").read_bytes()
    url, md5 = server.url + "/file", hashlib.md5(content).hexdigest()
    fetch(url, target, md5, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == content
    assert list(target.parent.iterdir()) == [target]
    assert seen[-1] == (len(content), len(content))
    fetch(url, target, md5)
    assert server.requests == ["/file"]
    target.write_bytes(b"damaged")
    fetch(url, target, md5)
    assert target.read_bytes() == content


def test_a_failed_transfer_changes_nothing_and_says_what_to_do(server: Any, tmp_path: Path) -> None:
    for url, message in ((server.url + "/missing", "404"), (server.url + "/file", "hash"), ("http://127.0.0.1:9", "")):
        with pytest.raises(DownloadError, match=rf"could not fetch http.*{message}.*by hand at .*file\.tar\.gz"):
            fetch(url, tmp_path / "file.tar.gz", md5="0" * 32)
    with pytest.raises(ValueError, match="http or https"):
        fetch("file:///etc/passwd", tmp_path / "file", md5="0" * 32)
    assert list(tmp_path.iterdir()) == []


def write_tar(path: Path, *members: tuple[str, bytes | None]) -> Path:
    """Members with their content; None for a link."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            else:
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content or b""))
    return path


def test_an_archive_unpacks_whole_and_sets_an_old_folder_aside(tmp_path: Path) -> None:
    archive = write_tar(tmp_path / "a.tar.gz", ("top/one", b"1"), ("top/deep/two", b"2"))
    (tmp_path / "data" / "top").mkdir(parents=True)
    (tmp_path / "data" / "top" / "mine").write_text("kept")
    folder = tmp_path / "data" / "top"
    unpack(archive, folder)
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) == ["deep/two", "one"]
    assert (tmp_path / "data" / "top.old-1" / "mine").read_text() == "kept"


@pytest.mark.parametrize(
    "members", [[("../evil", b"x")], [("/evil", b"x")], [("top/link", None)], [("other/file", b"x")], [], b"damaged"]
)
def test_hostile_and_damaged_archives_are_refused_and_leave_nothing(members: Any, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    if isinstance(members, bytes):
        archive.write_bytes(members)
    else:
        write_tar(archive, *members)
    with pytest.raises(DataError, match=r"a\.tar\.gz was not unpacked"):
        unpack(archive, tmp_path / "top")
    assert list(tmp_path.iterdir()) == [archive]


def test_a_fetched_data_set_can_be_loaded_and_is_mended(
    small_cifar: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cifar10, "fingerprint", load("cifar10", small_cifar).fingerprint)
    with tarfile.open(server.folder / "c.tar.gz", "w:gz") as tar:
        tar.add(small_cifar / FOLDER, FOLDER)
    md5 = hashlib.md5((server.folder / "c.tar.gz").read_bytes()).hexdigest()
    archive = Archive(server.url + "/c.tar.gz", md5, 0, FOLDER)
    monkeypatch.setattr(Cifar10, "archive", archive)
    root = small_cifar / "root"
    assert fetch_source("cifar10", root) == root / FOLDER
    assert verify("cifar10", root) == []
    fetch_source("cifar10", root)
    (root / FOLDER / "test_batch.bin").unlink()
    fetch_source("cifar10", root)
    assert verify("cifar10", root) == []
    assert len(server.requests) == 1  # the archive is still there
    monkeypatch.setattr(Cifar10, "archive", archive._replace(url="http://127.0.0.1:9/c.tar.gz"))
    fetch_source("cifar10", small_cifar / "other", url=server.url + "/c.tar.gz")
    assert find("cifar10").is_here(small_cifar / "other")
    with pytest.raises(ValueError, match="digits has no archive to fetch: it is here already"):
        fetch_source("digits")


def test_the_root_is_the_variables_else_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PURIDIVER_DATA", "~/images")
    assert default_root() == tmp_path / "images"
    monkeypatch.delenv("PURIDIVER_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_root().name == "puridiver"
