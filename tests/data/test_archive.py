from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from puridiver.data import unpack
from puridiver.errors import DataError

CONTENT = {"top/a.bin": b"a" * 5000, "top/inner/b.txt": b"text"}


def make_archive(path: Path, content: dict[str, bytes], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, body in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
        for info in extra:
            tar.addfile(info)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / "good.tar.gz", CONTENT, special("./", tarfile.DIRTYPE))


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_the_folder_appears_whole_and_alone(archive: Path, into: Path) -> None:
    assert unpack(archive, into, "top") == into / "top"
    assert files_in(into) == CONTENT
    assert list(into.iterdir()) == [into / "top"]


@pytest.mark.parametrize(
    ("member", "fault"),
    [
        (special("../evil", tarfile.REGTYPE), "points outside"),
        (special("top/../../evil", tarfile.REGTYPE), "points outside"),
        (special("/tmp/evil", tarfile.REGTYPE), "points outside"),
        (special("top/evil", tarfile.SYMTYPE, "/etc"), "link or a device"),
        (special("top/evil", tarfile.LNKTYPE, "top/a.bin"), "link or a device"),
        (special("top/evil", tarfile.FIFOTYPE), "link or a device"),
        (special("top/evil", tarfile.CHRTYPE), "link or a device"),
        (special("top\\..\\evil", tarfile.REGTYPE), "Windows path"),
        (special("C:/evil", tarfile.REGTYPE), "Windows path"),
        (special("elsewhere/evil", tarfile.REGTYPE), "lies elsewhere"),
    ],
)
def test_a_malicious_member_stops_everything(tmp_path: Path, into: Path, member: tarfile.TarInfo, fault: str) -> None:
    archive = make_archive(tmp_path / "bad.tar.gz", CONTENT, member)
    with pytest.raises(DataError, match=fault):
        unpack(archive, into, "top")
    assert list(into.iterdir()) == []
    assert sorted(tmp_path.iterdir()) == [archive, into]


def test_a_truncated_archive_leaves_nothing(archive: Path, into: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz"):
        unpack(archive, into, "top")
    assert list(into.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no archive at all"])
def test_what_is_no_archive_is_told(tmp_path: Path, into: Path, content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"not a whole \.tar\.gz"):
        unpack(path, into, "top")


def test_a_missing_archive_is_told(tmp_path: Path, into: Path) -> None:
    with pytest.raises(DataError, match="there is no archive"):
        unpack(tmp_path / "absent.tar.gz", into, "top")


def test_an_interruption_leaves_no_half_folder(archive: Path, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half_and_stop(self: tarfile.TarFile, path: Path, *args: object, **options: object) -> None:
        (path / "top").mkdir()
        (path / "top" / "a.bin").write_bytes(b"a")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tarfile.TarFile, "extractall", write_half_and_stop)
        with pytest.raises(KeyboardInterrupt):
            unpack(archive, into, "top")
    assert list(into.iterdir()) == []
    unpack(archive, into, "top")
    assert files_in(into) == CONTENT


def test_the_leavings_of_a_killed_process_do_not_matter(archive: Path, into: Path) -> None:
    leavings = into / ".top.unpacking" / "top"
    leavings.mkdir(parents=True)
    (leavings / "stale.bin").write_bytes(b"stale")
    unpack(archive, into, "top")
    assert files_in(into) == CONTENT


def test_a_good_folder_is_left_alone(archive: Path, into: Path) -> None:
    folder = unpack(archive, into, "top")
    (folder / "notes of the user").write_bytes(b"mine")
    before = (folder / "a.bin").stat()
    unpack(archive, into, "top")
    assert (folder / "a.bin").stat().st_ino == before.st_ino
    assert files_in(into) == CONTENT | {"top/notes of the user": b"mine"}


def test_a_damaged_folder_is_set_aside(archive: Path, into: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = unpack(archive, into, "top")
    for number in (1, 2):
        times = (folder / "a.bin").stat()
        (folder / "a.bin").write_bytes(b"b" * 5000)
        os.utime(folder / "a.bin", ns=(times.st_atime_ns, times.st_mtime_ns))  # only the bytes give it away
        unpack(archive, into, "top")
        aside = into / f"top.damaged-{number}"
        assert (aside / "a.bin").read_bytes() == b"b" * 5000
        assert str(aside) in caplog.text
    assert files_in(folder) == {"a.bin": b"a" * 5000, "inner/b.txt": b"text"}
