"""Names of published streams: "official:sym40:1", and "official:sym40:1:listed" for the order of the split files.

In most of the published CIFAR-10 files (all but the symmetric ones of seed 1) a task lists the samples of its major
classes first and all others after them. The released program shuffles each task before it streams it, so that the
classes do mix; "listed" leaves the order as it lies in the files (row 23 of docs/FIDELITY.md).
"""

from __future__ import annotations

from typing import NamedTuple

WORD, LISTED = "official", "listed"
LISTED_KIND = f"{WORD}:{LISTED}"
PUBLISHED_KINDS = (WORD, LISTED_KIND)
EXAMPLES = f'"{WORD}:sym40:1" (or "{WORD}:sym40:1:{LISTED}", unshuffled)'


class Published(NamedTuple):
    """Which published stream: its noise, its seed, and whether in the order of the files."""

    noise: str
    seed: int
    listed: bool


def is_published(stream: str) -> bool:
    return stream.startswith(f"{WORD}:")


def parse_published(spec: str) -> Published:
    """Read "official:sym40:1" or "official:sym40:1:listed"; the first word may be left out."""
    noise, _, rest = spec.removeprefix(f"{WORD}:").partition(":")
    seed, colon, order = rest.partition(":")
    if not seed.isdecimal() or (colon and order != LISTED):
        raise ValueError(f"an official stream should be named like {EXAMPLES}, but got {spec!r}")
    return Published(noise, int(seed), bool(colon))


def without_seed(stream: str) -> str:
    """What the published streams of several seeds have in common: "official:sym40", "official:sym40:listed"."""
    noise, _, listed = parse_published(stream)
    return f"{WORD}:{noise}:{LISTED}" if listed else f"{WORD}:{noise}"


def kind_of_stream(stream: str) -> str:
    """ "official" or "official:listed" for a published stream, any other as it stands."""
    if not is_published(stream):
        return stream
    return LISTED_KIND if parse_published(stream).listed else WORD
