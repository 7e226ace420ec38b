"""The write-ahead log: changes are on disk before anybody hears of them, and are read back from there to be applied.

A segment is a file of frames; its name is the number of its first record. One append is one frame: magic bytes, two
lengths and a checksum, then its records as JSON and raw bytes that belong to them. So an append is there as a whole or
not at all. A crash may leave a torn frame at the end of the last segment; opening the log cuts it off.
"""

import errno
import json
import logging
import os
import shutil
import struct
import zlib
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from puridiver.errors import DataError
from puridiver.files import make_folder, parse_json, read_regular, sync_folder, write_whole

logger = logging.getLogger(__name__)

HEAD = struct.Struct("<4sIII")  # magic, bytes of JSON, bytes of body, CRC-32 of both lengths and contents
MAGIC = b"PDL1"
SEGMENT = 8 << 20  # bytes from which on the next append begins a new segment

Record = dict[str, Any]


class Place(NamedTuple):
    """Where a frame lies."""

    path: Path
    start: int
    size: int


class Log:
    """Appends frames, one caller at a time, and reads them; `records` must be read once before the first append."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._end = folder, 0
        self._last = 0  # record
        self._file: FileIO | None = None
        self.broken = ""  # why nothing can be appended until a restart
        self.reserve = 0  # bytes of the disk that appends leave free, for the checkpoint that makes room again
        make_folder(folder)
        self._segments = sorted(folder.glob("*.log"))

    def records(self, after: int) -> Iterator[tuple[Record, Place]]:
        """Each record, and where it lies; none above `after` may be missing. Cuts off a torn end."""
        expected = after + 1
        for path in list(self._segments):
            content, start = read_regular(path), 0
            while start < len(content):
                found = _frame(content, start)
                if found is None:
                    self._cut_torn(path, content, start)
                    break
                records, body = found
                size = body.stop - start
                for record in records:
                    if record["seq"] > after:
                        if record["seq"] != expected:
                            raise DataError(f"{path} is damaged: record {expected} is missing")
                        expected += 1
                    self._last = max(self._last, record["seq"])
                    yield record, Place(path, start, size)
                start += size

    def _cut_torn(self, path: Path, content: bytes, start: int) -> None:
        """Cut off the frame that a crash left unfinished; whole frames behind it mean damage of another kind."""
        later = content.find(MAGIC, start + 1)
        while later >= 0 and _frame(content, later) is None:
            later = content.find(MAGIC, later + 1)
        if later >= 0 or path != self._segments[-1]:
            raise DataError(
                f"{path} is damaged at byte {start:,}, and acknowledged records follow: put back a copy of the file, "
                "or move it and the segments after it away, and lose what they hold"
            )
        logger.warning("%s: cut off %d bytes that a crash left unfinished", path, len(content) - start)
        os.truncate(path, start)

    def append(self, records: Sequence[Record], body: bytes = b"") -> Place:
        """Write records and wait until the disk has them. An `OSError` leaves the log as it was."""
        note = json.dumps(records).encode()
        frame = HEAD.pack(MAGIC, len(note), len(body), _checksum(note, body)) + note + body
        if self.broken:
            raise OSError(errno.EIO, self.broken, str(self.folder))
        if shutil.disk_usage(self.folder).free < self.reserve + len(frame):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))
        file = self._open(records[0]["seq"])
        place = Place(self._segments[-1], self._end, len(frame))
        try:
            write_whole(file, frame, place.path)
        except OSError:
            self._undo(file)
            raise
        self._end += len(frame)
        self._last = records[-1]["seq"]
        return place

    def _open(self, first: int) -> FileIO:
        """The last segment; a new one where it is large, does not end before this record, or there is none."""
        if self._file is None and self._segments:
            self._file = self._segments[-1].open("ab", buffering=0)
            self._end = self._file.seek(0, os.SEEK_END)
        if self._file is None or self._end >= SEGMENT or (self._end and self._last != first - 1):
            path = self.folder / f"{first:012d}.log"
            file = path.open("ab", buffering=0)
            sync_folder(self.folder)
            self.close()
            self._file, self._end = file, 0
            self._segments.append(path)
        return self._file

    def _undo(self, file: FileIO) -> None:
        try:
            file.truncate(self._end)
            os.fsync(file.fileno())
        except OSError as error:
            self.broken = f"the log could not be set back after a failed write ({error.strerror}): restart the service"

    def read(self, place: Place) -> bytes:
        """The body of a frame, checked."""
        with place.path.open("rb") as file:
            file.seek(place.start)
            content = file.read(place.size)
        found = _frame(content, 0)
        if found is None:
            raise DataError(f"{place.path} is damaged at byte {place.start:,}")
        return content[found[1]]

    def forget_through(self, seq: int) -> None:
        """Remove segments that hold no record above `seq`."""
        while len(self._segments) > 1 and int(self._segments[1].stem) <= seq + 1:
            self._segments.pop(0).unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in list(self._segments) if path.exists())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _checksum(note: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(note, len(note) << 16 ^ len(body)))


def _frame(content: bytes, start: int) -> tuple[list[Record], slice] | None:
    """The records of a frame and where its body lies; None if it is not whole."""
    if len(content) - start < HEAD.size:
        return None
    magic, n_note, n_body, checksum = HEAD.unpack_from(content, start)
    middle = start + HEAD.size + n_note
    if magic != MAGIC or not n_note or len(content) < middle + n_body:
        return None
    note, body = content[start + HEAD.size : middle], slice(middle, middle + n_body)
    if _checksum(note, content[body]) != checksum:
        return None
    return parse_json(note, "a record of the log"), body
