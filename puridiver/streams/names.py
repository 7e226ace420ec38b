"""Texts that name a stream or a part of one: shares, published streams, paths of manifests.

"official:sym40:1:shuffled", or without the last word, is a published stream, each task shuffled as the released program
does (row 23 of docs/fidelity.md). "official:sym40:1:listed" has the order of the files, of which most list the samples
of a task's major classes first.
"""

import re
from typing import NamedTuple

import numpy as np

from puridiver.streams.checks import require

WORD, SHUFFLED, LISTED = "official", "shuffled", "listed"
MATRIX_FILE = "matrix:"  # before the path of a noise matrix
PUBLISHED_KINDS = (WORD, f"{WORD}:{LISTED}")  # as columns of grids name them


class Published(NamedTuple):
    """Which published stream: its noise, its seed, and the order within its tasks."""

    noise: str
    seed: int
    order: str

    def __str__(self) -> str:
        return f"{WORD}:{self.noise}:{self.seed}:{self.order}"


def is_published(stream: str) -> bool:
    return stream.startswith(f"{WORD}:")


def parse_published(spec: str) -> Published:
    """Read "official:sym40:1" or "official:sym40:1:listed"; the first word may be left out, and the order too."""
    match = re.fullmatch(rf"(?:{WORD}:)?([^:]*):(\d{{1,9}})(?::({SHUFFLED}|{LISTED}))?", spec, re.ASCII)
    if match is None:
        allowed = f'"{WORD}:sym40:1" or "{WORD}:sym40:1:{LISTED}"'
        raise ValueError(f"an official stream should be {allowed}, but got {spec!r}")
    return Published(match[1].replace("-", ""), int(match[2]), match[3] or SHUFFLED)  # "sym-40" is "sym40"


def is_manifest(stream: str) -> bool:
    return stream.endswith(".json")


def manifest_path(stream: str, seed: int) -> str:
    """The file of a run's manifest, where "{seed}" stands for the seed of the run; any other stream as it stands."""
    return stream.replace("{seed}", str(seed)) if is_manifest(stream) else stream


def parse_share(text: str, what: str) -> float:
    """Read "40" (percent) or "0.4" (a fraction below 1) as 0.4."""
    fine = re.fullmatch(r"\d{1,2}|0?\.\d+", text)
    require(fine, what, "a percentage from 0 to 99 or a decimal fraction below 1", text)
    return float(text) if "." in text else int(text) / 100


def format_share(share: float) -> str:
    """The shortest text that `parse_share` reads back to the same share: "40" for 0.4, "0.125" for 0.125."""
    percent = round(share * 100)
    return str(percent) if percent / 100 == share else np.format_float_positional(share)
