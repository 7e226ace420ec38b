"""Names of published streams: "official:sym40:1:shuffled", each task shuffled, and "official:sym40:1:listed".

In most of the published CIFAR-10 files (all but the symmetric ones of seed 1) a task lists the samples of its major
classes first and all others after them. The released program shuffles each task before it streams it, so that the
classes do mix; "listed" leaves the order as it lies in the files (row 23 of docs/FIDELITY.md).

Whoever asks for "official:sym40:1" gets the shuffled one, and records name it in full. Records that do not are from
before there was a choice: all of those are listed (`as_recorded`).

A stream may also be named by the path of its manifest; "{seed}" in it stands for the seed of the run, so that runs of
several seeds can have a manifest each.
"""

from __future__ import annotations

from typing import NamedTuple

WORD, SHUFFLED, LISTED = "official", "shuffled", "listed"
ORDERS = (SHUFFLED, LISTED)
LISTED_KIND = f"{WORD}:{LISTED}"
PUBLISHED_KINDS = (WORD, LISTED_KIND)  # as columns of grids name them
MATRIX_FILE = "matrix:"  # before the path of a noise matrix
MANIFEST_END, SEED_IN_PATH = ".json", "{seed}"
EXAMPLES = f'"{WORD}:sym40:1" (or "{WORD}:sym40:1:{LISTED}", in the order of the files)'


class Published(NamedTuple):
    """Which published stream: its noise, its seed, and the order within its tasks."""

    noise: str
    seed: int
    order: str

    @property
    def kind(self) -> str:
        """As columns of grids name it."""
        return LISTED_KIND if self.order == LISTED else WORD

    def __str__(self) -> str:
        return f"{WORD}:{self.noise}:{self.seed}:{self.order}"


def is_published(stream: str) -> bool:
    return stream.startswith(f"{WORD}:")


def parse_published(spec: str, unsaid: str = SHUFFLED) -> Published:
    """Read "official:sym40:1" or "official:sym40:1:listed"; the first word may be left out, and the order too."""
    noise, _, rest = spec.removeprefix(f"{WORD}:").partition(":")
    seed, colon, order = rest.partition(":")
    if not seed.isdecimal() or (colon and order not in ORDERS):
        raise ValueError(f"an official stream should be named like {EXAMPLES}, but got {spec!r}")
    return Published(noise.replace("-", ""), int(seed), order if colon else unsaid)  # "sym-40" is "sym40"


def as_recorded(stream: str) -> str:
    """The name in full of a stream in a record: a row, or the config of a run."""
    return str(parse_published(stream, unsaid=LISTED)) if is_published(stream) else stream


def kind_in_record(stream: str) -> str:
    """ "official" or "official:listed" for a published stream of a record, any other as it stands."""
    return parse_published(stream, unsaid=LISTED).kind if is_published(stream) else stream


def order_in_record(stream: str) -> str:
    """The order of a published stream of a record, "" for any other."""
    return parse_published(stream, unsaid=LISTED).order if is_published(stream) else ""


def has_order(stream: str, order: str) -> bool:
    """Whether a stream of a record comes in this order; one that is not published has none, and fits either."""
    return order_in_record(stream) in ("", order)


def without_seed(stream: str) -> str:
    """What the published streams of several seeds have in common in records: "official:sym40:listed"; others whole."""
    if not is_published(stream):
        return stream
    noise, _, order = parse_published(stream, unsaid=LISTED)
    return f"{WORD}:{noise}:{order}"


def is_manifest(stream: str) -> bool:
    return stream.endswith(MANIFEST_END)


def has_manifest_per_seed(stream: str) -> bool:
    """Whether each seed of a run has a manifest of its own."""
    return is_manifest(stream) and SEED_IN_PATH in stream


def manifest_path(stream: str, seed: int) -> str:
    """The file of a run's manifest; any other stream as it stands."""
    return stream.replace(SEED_IN_PATH, str(seed)) if is_manifest(stream) else stream
