"""The exceptions a user may want to catch.

    PuridiverError
    ├── DataError            a file or folder is missing, damaged or not what it should be
    │   ├── BusyError        another process holds the lock on these files
    │   └── DownloadError    a download failed: offline, truncated, wrong checksum
    ├── ConsolidatingError   a learner cannot change while it trains on its memory (also a ValueError)
    ├── DivergedError        the weights of a learner became nan
    └── ManifestError        a stream manifest is damaged or belongs to other data

Wrong arguments (a shape, a label, an unknown option) raise a plain `ValueError` that says what was expected and
what came.
"""

import difflib
import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)


def first_line(error: BaseException) -> str:
    """What an error says, in one line; its kind where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def worked(attempt: Callable[[], object], otherwise: str) -> bool:
    """Whether an optional fast path runs on this machine; if not, the log says what happens instead, and why."""
    try:
        attempt()
    except Exception as error:  # a missing or unsuitable compiler raises errors of many types
        logger.warning("%s: %s", otherwise, first_line(error))
        return False
    return True


def few(names: Iterable[str], most: int = 10, between: str = ", ") -> str:
    """The first names, and how many more there are: "a, b and 3,998 more"."""
    listed = list(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return between.join(listed[:most]) + more


def counted(n: int, noun: str) -> str:
    """A number with its noun: "1 run", "4,000 runs"."""
    return f"{n:,} {noun}{'s' * (n != 1)}"


def meant(word: object, known: Iterable[str]) -> str:
    """What a misspelt word may stand for, as the end of a message; empty if nothing is near."""
    near = difflib.get_close_matches(str(word), list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


class PuridiverError(Exception):
    """Base of all; see above for the others."""


class DataError(PuridiverError):
    """A data set is missing, damaged or cannot be read."""


class BusyError(DataError):
    """Another process holds the lock on these files; it may work later."""


class DownloadError(DataError):
    """A transfer failed: no network, a truncated body, a checksum that does not match."""


class ConsolidatingError(PuridiverError, ValueError):
    """A learner is training on its memory. It takes batches again afterwards; corrections wait by themselves."""


class DivergedError(PuridiverError):
    """A learner's training has diverged: it has nothing to predict with."""


class ManifestError(PuridiverError):
    """A stream manifest is damaged, or belongs to other data than was given."""
