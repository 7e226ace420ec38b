"""A lock that threads get in the order in which they asked for it."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """A reentrant lock, first come, first served.

    Python's own goes to whoever is quickest: a thread that lets go and asks again at once, as one that learns epoch
    after epoch, would keep those that wait for it out for many epochs.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[object] = deque()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            if self._owner != me:
                self._wait_for_turn()
                self._owner = me
            self._depth += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._owner = None
                self._changed.notify_all()

    def _wait_for_turn(self) -> None:
        ticket = object()
        self._waiting.append(ticket)
        try:
            while self._owner is not None or self._waiting[0] is not ticket:
                self._changed.wait()
        finally:  # also where Ctrl-C ends the waiting: those behind must not wait for it
            self._waiting.remove(ticket)
            self._changed.notify_all()
