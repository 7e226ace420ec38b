"""Names of streams that are not generated: published ones, and paths of manifests.

"official:sym40:1:shuffled", or without the last word, is a published stream, each task shuffled as the released program
does (row 23 of docs/fidelity.md). "official:sym40:1:listed" has the order of the files, of which most list the samples
of a task's major classes first.

In the path of a manifest "{seed}" stands for the seed of the run, so that runs of several seeds can have one each.
"""

from typing import NamedTuple

WORD, SHUFFLED, LISTED = "official", "shuffled", "listed"
PUBLISHED_KINDS = (WORD, f"{WORD}:{LISTED}")  # as columns of grids name them
MATRIX_FILE = "matrix:"  # before the path of a noise matrix


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
    noise, _, rest = spec.removeprefix(f"{WORD}:").partition(":")
    seed, colon, order = rest.partition(":")
    if not (seed.isdecimal() and len(seed) < 10) or (colon and order not in (SHUFFLED, LISTED)):
        raise ValueError(
            f'an official stream should be "{WORD}:sym40:1" or "{WORD}:sym40:1:{LISTED}", but got {spec!r}'
        )
    return Published(noise.replace("-", ""), int(seed), order or SHUFFLED)  # "sym-40" is "sym40"


def is_manifest(stream: str) -> bool:
    return stream.endswith(".json")


def manifest_path(stream: str, seed: int) -> str:
    """The file of a run's manifest; any other stream as it stands."""
    return stream.replace("{seed}", str(seed)) if is_manifest(stream) else stream
