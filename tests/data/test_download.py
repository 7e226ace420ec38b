from __future__ import annotations

import hashlib
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from puridiver.data import fetch
from puridiver.errors import DownloadError


def get(server: Any, target: Path, **options: Any) -> Path:
    settings: dict[str, Any] = {
        "timeout": 5.0,
        "backoff": 0.01,
        "sha256": hashlib.sha256(server.body).hexdigest(),
    }
    return fetch(server.url, target, **(settings | options))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new" / "file.tar.gz"


def part_of(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def write_part(target: Path, content: bytes) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(content)


def assert_only_the_whole_file(server: Any, target: Path) -> None:
    assert target.read_bytes() == server.body
    assert list(target.parent.iterdir()) == [target]


def test_a_good_transfer_gives_the_file_and_nothing_else(server: Any, target: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    assert get(server, target, progress=lambda done, total: seen.append((done, total))) == target
    assert_only_the_whole_file(server, target)
    assert seen == sorted(seen)
    assert seen[-1] == (len(server.body), len(server.body))


def test_md5_serves_as_checksum_too(server: Any, target: Path) -> None:
    get(server, target, sha256=None, md5=hashlib.md5(server.body).hexdigest().upper())
    assert_only_the_whole_file(server, target)


def test_a_verified_file_is_not_fetched_again(server: Any, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(server.body)
    get(server, target)
    assert server.ranges == []


def test_a_damaged_file_is_replaced(server: Any, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"damaged")
    get(server, target)
    assert_only_the_whole_file(server, target)


def test_a_truncated_transfer_goes_on_where_it_broke(server: Any, target: Path) -> None:
    server.script = ["half"]
    get(server, target)
    assert_only_the_whole_file(server, target)
    assert server.ranges == [None, "bytes=100000-"]
    assert server.sent == [100_000, 100_000]


def test_a_reset_connection_is_tried_again(server: Any, target: Path) -> None:
    server.script = ["reset"]
    get(server, target)
    assert_only_the_whole_file(server, target)
    assert len(server.ranges) == 2


def test_a_stalled_transfer_goes_on_where_it_stalled(server: Any, target: Path) -> None:
    server.script = ["stall"]
    get(server, target, timeout=1.0)
    assert_only_the_whole_file(server, target)
    assert server.ranges == [None, f"bytes={len(server.body) // 2}-"]


def test_new_bytes_start_the_count_of_retries_anew(server: Any, target: Path) -> None:
    server.script = ["half"] * 4
    get(server, target, retries=0)
    assert_only_the_whole_file(server, target)


def test_a_server_that_always_starts_anew_does_not_hold_us_for_ever(server: Any, target: Path) -> None:
    server.script = ["restarts_and_breaks_off"] * 50
    with pytest.raises(DownloadError, match=r"broke off after 100,000 of 200,000 bytes"):
        get(server, target, retries=2)
    assert len(server.ranges) == 1 + 3


def test_a_server_without_ranges_sends_all_anew(server: Any, target: Path) -> None:
    write_part(target, b"other bytes")
    server.script = ["ignores_range"]
    get(server, target)
    assert_only_the_whole_file(server, target)
    assert server.ranges == ["bytes=11-"]


def test_a_part_that_is_too_long_is_started_anew(server: Any, target: Path) -> None:
    write_part(target, server.body + b"more")
    get(server, target)
    assert_only_the_whole_file(server, target)
    assert server.ranges == [f"bytes={len(server.body) + 4}-", None]


def test_an_answer_with_another_range_is_not_appended(server: Any, target: Path) -> None:
    write_part(target, server.body[:100])
    server.script = ["other_range"]
    get(server, target)
    assert_only_the_whole_file(server, target)


def test_a_whole_part_needs_no_network(server: Any, target: Path) -> None:
    write_part(target, server.body)
    get(server, target)
    assert_only_the_whole_file(server, target)
    assert server.ranges == []


def test_wrong_bytes_are_deleted_and_both_checksums_told(server: Any, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"what was here before")
    server.script = ["corrupt"]
    with pytest.raises(DownloadError) as caught:
        get(server, target)
    assert hashlib.sha256(server.body).hexdigest() in str(caught.value)
    assert hashlib.sha256(b"\0" * len(server.body)).hexdigest() in str(caught.value)
    assert target.read_bytes() == b"what was here before"
    assert not part_of(target).exists()


def test_a_server_error_is_tried_again(server: Any, target: Path) -> None:
    server.script = ["status_500", "status_500"]
    get(server, target, retries=2)
    assert_only_the_whole_file(server, target)


def test_retries_end(server: Any, target: Path) -> None:
    server.script = ["status_500"] * 9
    with pytest.raises(DownloadError, match="500"):
        get(server, target, retries=2)
    assert len(server.ranges) == 3


def test_a_missing_page_fails_at_once_and_a_later_call_recovers(server: Any, target: Path) -> None:
    server.script = ["status_404"]
    with pytest.raises(DownloadError, match="404"):
        get(server, target)
    assert len(server.ranges) == 1
    get(server, target)
    assert_only_the_whole_file(server, target)


def test_offline_says_what_to_do(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.tar.gz"
        with pytest.raises(DownloadError) as caught:
            fetch(url, target, md5="0" * 32, retries=1, backoff=0.01, timeout=5)
    message = str(caught.value)
    assert url in message
    assert "Nothing was changed." in message
    assert f"by hand at {target}" in message
    assert list(target.parent.iterdir()) == []


def test_giving_up_tells_what_is_kept(server: Any, target: Path) -> None:
    server.script = ["half", "status_404"]
    with pytest.raises(DownloadError, match=r"apart from 100,000 bytes kept in .*\.part"):
        get(server, target)


def test_an_interrupted_transfer_is_resumed_by_the_next_call(server: Any, target: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(server, target, progress=interrupt)
    kept = part_of(target).stat().st_size
    assert not target.exists()
    assert 0 < kept < len(server.body)
    get(server, target)
    assert_only_the_whole_file(server, target)
    assert server.ranges == [None, f"bytes={kept}-"]


def test_two_at_once_fetch_once(server: Any, target: Path) -> None:
    threads = [threading.Thread(target=get, args=(server, target)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_only_the_whole_file(server, target)
    assert server.ranges == [None]


def test_a_file_url_works(server: Any, target: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.tar.gz"
    mirror.write_bytes(server.body)
    fetch(mirror.as_uri(), target, sha256=hashlib.sha256(server.body).hexdigest())
    assert_only_the_whole_file(server, target)


def test_a_checksum_is_asked_for(target: Path) -> None:
    with pytest.raises(ValueError, match="sha256 or md5, but got neither"):
        fetch("https://example.org/x", target)


def test_other_schemes_are_refused(target: Path) -> None:
    with pytest.raises(ValueError, match=r"http, https, file, but got 'ftp:"):
        fetch("ftp://example.org/x", target, md5="0" * 32)
