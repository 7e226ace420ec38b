from __future__ import annotations

import hashlib
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import puridiver.data
from puridiver.data import SOURCES, Archive, default_root, fetch_source, load, verify
from puridiver.data.cifar import load_cifar10
from puridiver.errors import DataError


def test_public_names_are_sorted_and_there() -> None:
    names = puridiver.data.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(puridiver.data, name) for name in names)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"digits, cifar10, cifar100, .* ends in \.npz.*, but got 'mnist'"):
        load("mnist")


def test_the_embedded_source_needs_no_root(tmp_path: Path) -> None:
    assert load("digits", tmp_path / "absent").name == "digits"
    assert verify("digits", tmp_path / "absent") == []


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_missing_data_are_told_with_the_command_that_gets_them(name: str, tmp_path: Path) -> None:
    root = tmp_path / "with space"
    with pytest.raises(DataError) as caught:
        load(name, root)
    archive = SOURCES[name].archive
    assert archive is not None
    assert str(root / archive.folder) in str(caught.value)
    assert f"puridiver data fetch {name} --root '{root}'" in str(caught.value)


def test_an_npz_path_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    images = np.zeros((2, 3, 3), np.uint8)
    np.savez(path, train_images=images, train_labels=[0, 1], test_images=images, test_labels=[1, 0])
    assert load(str(path)).image_shape == (3, 3, 1)
    assert verify(str(path)) == []
    path.write_bytes(b"")
    assert "not an .npz file" in verify(str(path))[0]


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for variable in ("PURIDIVER_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(variable, str(tmp_path))
    return tmp_path


def test_the_variable_decides_the_root(no_variables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.setenv("PURIDIVER_DATA", "~/images")
    assert default_root() == no_variables / "images"


def test_the_cache_folder_is_next(no_variables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(no_variables / "xdg"))
    assert default_root() == no_variables / "xdg" / "puridiver"


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local")],
)
def test_each_platform_has_its_cache(
    no_variables: Path, monkeypatch: pytest.MonkeyPatch, platform: str, folder: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setattr(sys, "platform", platform)
    assert default_root() == no_variables / folder / "puridiver"


@pytest.fixture
def published(small_cifar10: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A server that publishes a small cifar10, and a registry that expects it; returns an empty root."""
    path = small_cifar10 / "published.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(small_cifar10 / "cifar-10-batches-bin", "cifar-10-batches-bin")
    server.body = path.read_bytes()
    entry = replace(
        SOURCES["cifar10"],
        loader=lambda root: load_cifar10(root, strict=False),
        checker=lambda root: [] if (root / "cifar-10-batches-bin" / "test_batch.bin").is_file() else ["missing"],
        is_here=lambda root: (root / "cifar-10-batches-bin").is_dir(),
        archive=Archive(server.url, hashlib.md5(server.body).hexdigest(), len(server.body), "cifar-10-batches-bin"),
    )
    monkeypatch.setitem(SOURCES, "cifar10", entry)
    return small_cifar10 / "root"


def test_a_fetched_source_can_be_loaded(published: Path, server: Any) -> None:
    assert fetch_source("cifar10", published) == published / "cifar-10-batches-bin"
    assert len(load("cifar10", published).train) == 50
    fetch_source("cifar10", published)
    assert len(server.ranges) == 1


def test_a_damaged_folder_is_mended_from_the_archive(published: Path, server: Any) -> None:
    folder = fetch_source("cifar10", published)
    (folder / "test_batch.bin").unlink()
    fetch_source("cifar10", published)
    assert verify("cifar10", published) == []
    assert len(server.ranges) == 1


def test_another_url_serves_the_same_archive(published: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = SOURCES["cifar10"]
    assert entry.archive is not None
    unreachable = replace(entry.archive, url="http://127.0.0.1:9/file.tar.gz")
    monkeypatch.setitem(SOURCES, "cifar10", replace(entry, archive=unreachable))
    fetch_source("cifar10", published, url=server.url)
    assert verify("cifar10", published) == []


def test_nothing_to_fetch_is_told() -> None:
    with pytest.raises(ValueError, match="digits is not fetched here"):
        fetch_source("digits")
